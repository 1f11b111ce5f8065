package main

// The stored objects, at a kube-apiserver's keys.
const (
	serviceIPs       = "/registry/ranges/serviceips"
	serviceNodePorts = "/registry/ranges/servicenodeports"
)

// The ranges of the works, and their numbers of offsets.
const (
	cidr12, size12           = "10.96.0.0/12", 1<<20 - 2
	cidr16, size16           = "10.96.0.0/16", 1<<16 - 2
	nodePorts, sizeNodePorts = "30000-32767", 2768
)

// work is a workload of both sides: callers that allocate one value after the other, on several servers.
type work struct {
	name             string
	callers, servers int
	key              string
	size             int
	reference        opener
	rangekeeper      opener
}

// opener starts one server on an etcd and creates the stored object if it is missing.
type opener func(endpoints []string) (server, error)

// server allocates like a server of a control plane, with a lock, a cache and a connection of its own.
type server struct {
	// allocate returns the offset of a free value.
	allocate func() (int, error)
	close    func() error
}

// A name has the range, the number of callers, and the number of servers.
var works = []work{
	{"store/12/64x1", 64, 1, serviceIPs, size12, referenceAddresses(cidr12), ourAddresses(cidr12)},
	{"store/12/64x3", 64, 3, serviceIPs, size12, referenceAddresses(cidr12), ourAddresses(cidr12)},
	{"store/16/64x1", 64, 1, serviceIPs, size16, referenceAddresses(cidr16), ourAddresses(cidr16)},
	{"store/nodeport/64x1", 64, 1, serviceNodePorts, sizeNodePorts, referenceNodePorts(), ourNodePorts()},
	{"store/12/1x1", 1, 1, serviceIPs, size12, referenceAddresses(cidr12), ourAddresses(cidr12)},
}
