// Package runbook explains each kind of fault that an audit finds. docs/runbook.md has the same texts and the restore
// of a repaired snapshot; a test compares the two.
package runbook

import "strings"

// ServiceCIDR is the manifest of a ServiceCIDR object, once it has a CIDR. The API server makes its name, which is new
// each time.
const ServiceCIDR = `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"generateName":"extra-"},"spec":{"cidrs":["CIDR"]}}`

// Leak is the name of the entry of leaks, which have no reason.
const Leak = "Leak"

// Entry explains one kind of fault.
type Entry struct {
	// Name is the reason of the findings, or Leak.
	Name string
	// Title says it in a few words.
	Title string
	// Meaning, Risk and Remedy are sentences.
	Meaning, Risk, Remedy string
}

// document is where everybody can read docs/runbook.md: no program has a copy.
const document = "https://github.com/rangekeeper/rangekeeper/blob/main/docs/runbook.md"

// Restore is the page about the restore of a repaired snapshot.
const Restore = document + "#restore-a-repaired-snapshot"

// Page is that of the entry.
func (e Entry) Page() string { return document + "#" + strings.ToLower(e.Name) }

// Named returns the entry of a reason or of leaks, in any case.
func Named(name string) (Entry, bool) {
	for _, e := range entries {
		if strings.EqualFold(e.Name, name) {
			return e, true
		}
	}
	return Entry{}, false
}

// Names are those of all entries, the most severe ones first.
func Names() []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

var entries = []Entry{
	{
		"IPAddressWithoutParent", "An IPAddress object without a reference",
		"An IPAddress object has no spec.parentRef, and the API server's allocator has created it, or a Service uses the address. No " +
			"API server accepts such an object: it was written into etcd.",
		"No API server repairs the object, and what one does with it is not defined. Without an API server nothing in the cluster " +
			"changes any more, and traffic breaks with the first Pod that moves: delete the object before a server starts again.",
		"An administrator audits again, as a server may have repaired the object, and deletes it if it is still found: its key in etcd " +
			"(`etcdctl del /registry/ipaddresses/ADDRESS`), or `kubectl delete ipaddress ADDRESS` as long as an API server answers. " +
			"If a Service uses the address, the API server creates another object for it; until an audit finds nothing any more, create " +
			"no other Service, as it may get the address. `rangekeeper repair --to-file` removes the object from a snapshot, if its name is an address.",
	},
	{
		"RangeNotReadable", "A range that no server can read",
		"The stored object of a range of ClusterIPs or node ports, a key below /registry/ranges/, is damaged: it cannot be " +
			"decoded, or its bitmap does not fit its range.",
		"Each Service that needs a value of the range is refused, and a kube-apiserver that starts ends with an error.",
		"An administrator deletes the key: `etcdctl del /registry/ranges/NAME`. Then each kube-apiserver that starts or runs sets " +
			"the range up from its flag, with the values that Services use, within 3 minutes; until that it refuses a Service that " +
			"needs a value. `rangekeeper repair --to-file` writes the object into a snapshot with the values that Services use, or " +
			"deletes it if its range is not known.",
	},
	{
		"RangeMissing", "A range that is not stored",
		"There are Services, and the object that stores a range of ClusterIPs or node ports does not exist or has no range yet: a key " +
			"below /registry/ranges/, or, where ClusterIPs are IPAddress objects, the ServiceCIDR kubernetes. A kube-apiserver sets up " +
			"all its ranges, also those of which no Service has a value.",
		"Until an API server sets the range up, it refuses each Service that needs a value of it.",
		"A kube-apiserver sets up its ranges from its flags, with the values that Services use, when it starts and every 3 " +
			"minutes; the ServiceCIDR within a minute. If the range stays missing, its log says why. `rangekeeper repair --to-file` " +
			"writes the range of node ports into a snapshot, unless a Service has a port outside of the default range.",
	},
	{
		"ClusterIPAlreadyAllocated", "Services share one ClusterIP",
		"Two or more Services have the same ClusterIP.",
		"kube-proxy forwards each port of the address to one of the Services only. Clients of the other Services reach the wrong " +
			"backends or none.",
		"Let the Service keep the address that its IPAddress object refers to, or without such an object the oldest one. Delete and " +
			"recreate the others: a ClusterIP cannot be changed. A repair cannot decide this. If a Service has the address twice, recreate it. A stock kube-apiserver frees the address when one of the " +
			"Services is deleted, and may hand it out again: create no other Service until an audit no longer finds the address. With a bitmap, " +
			"run `rangekeeper repair --endpoints ... --apply` at once. With IPAddress objects, the next repair pass of kube-apiserver, " +
			"within 3 minutes, creates the object for the Service that keeps the address.",
	},
	{
		"PortAlreadyAllocated", "Services share one node port",
		"Two or more Services have the same node port, with one protocol or with several, or one Service has it twice with the same " +
			"protocol.",
		"If the protocols are the same, each node forwards the port to one of the Services only, and traffic from outside reaches the " +
			"wrong backends. If they differ, such as TCP and UDP, kube-proxy forwards the port for each protocol, but kube-apiserver " +
			"records it once for all of them: it may hand the port out again when one of the Services gives it up. The severity is that of the same protocol.",
		"Let the oldest Service keep the port. Give the others another one: remove or change spec.ports[].nodePort (or " +
			"spec.healthCheckNodePort, which needs a new Service). A repair cannot decide this. If a Service has the port twice, " +
			"change one of its two fields. A stock kube-apiserver frees the port when one of the Services gives it up, and may hand it out " +
			"again: run `rangekeeper repair --endpoints ... --apply` at once, and create no other Service until an audit no longer " +
			"finds the port.",
	},
	{
		"ClusterIPNotValid", "A ClusterIP that no range can have",
		"The ClusterIP of a Service is not an IP address, or the cluster has no range of its IP family.",
		"kube-proxy does not forward the address, and an API server refuses updates of the Service.",
		"Delete and recreate the Service without a ClusterIP. If a whole IP family is missing, first check " +
			"--service-cluster-ip-range and the ServiceCIDR objects: a restored cluster needs the families that it had.",
	},
	{
		"ClusterIPOutOfRange", "A ClusterIP outside of all ranges",
		"The ClusterIP of a Service lies in no range, or is an address that a range does not hand out, such as its network address.",
		"Nothing routes or reserves the address: network plugins and firewalls are configured for the ranges, and another network " +
			"may use it. kube-proxy alone may still forward it, until the Service must be recreated.",
		"If only some Services are outside, delete and recreate them. If nearly all are, as the message says, do not: the range " +
			"may be wrong. Compare it with --service-cluster-ip-range of the servers; `rangekeeper preflight` does, and names what is " +
			"wrong. If the flag has the addresses of the Services, the stored range is wrong: `kubectl delete servicecidr " +
			"kubernetes`, and the servers create it again from their flag within a minute, and the IPAddress objects within 3 " +
			"minutes; create no Service before that. A wrong bitmap they rewrite by themselves. If the flag is wrong, restore the " +
			"former one. If the range was changed on purpose, add a ServiceCIDR object for the former range (Kubernetes 1.33 or " +
			"later).",
	},
	{
		"PortOutOfRange", "A node port outside of the range",
		"The node port of a Service lies outside of --service-node-port-range.",
		"Nothing reserves the port: firewalls and load balancers are configured for the range, and a process on a node may use the " +
			"port. The API server refuses to create the Service again.",
		"If only some Services are outside, remove or change spec.ports[].nodePort (or spec.healthCheckNodePort, which needs a " +
			"new Service). If nearly all are, as the message says, do not: compare the stored range with --service-node-port-range of " +
			"the servers. If the flag has the ports of the Services, a server that starts with it rewrites the stored range by " +
			"itself; otherwise restore the former flag.",
	},
	{
		"ServiceCIDRFull", "A range without any address",
		"The range that has the ClusterIP of a Service is so small that it has no address to allocate.",
		"No Service gets a ClusterIP from this range, and that of the existing Service is not reserved.",
		"Widen the range: --service-cluster-ip-range, or (Kubernetes 1.33 or later) another ServiceCIDR object. Then recreate the " +
			"Service.",
	},
	{
		"ClusterIPMissing", "A Service without a ClusterIP that it needs",
		"A Service that is neither headless nor of type ExternalName has no ClusterIP, or one with ipFamilyPolicy " +
			"RequireDualStack has only one. A server that stored a Service while its range was full can have left it, or a write into " +
			"etcd.",
		"kube-proxy skips the Service, or its second IP family: no client reaches it there.",
		"No update gives it an address, unless it names a free one in spec.clusterIP and spec.clusterIPs, as `rangekeeper free` " +
			"shows them. Recreate the Service, or name one. The second address is given by any update, such as of a label, if " +
			"spec.ipFamilies has only one family.",
	},
	{
		"NodePortMissing", "A Service without a node port that it needs",
		"A Service of type NodePort, or of type LoadBalancer unless spec.allocateLoadBalancerNodePorts is false, has a port " +
			"without a node port.",
		"The port is not reached from outside through the nodes.",
		"Any update of the Service, such as of a label, gives it one: `kubectl label service -n NAMESPACE NAME KEY=VALUE`.",
	},
	{
		"HealthCheckNodePortMissing", "A Service without a port for health checks",
		"A Service of type LoadBalancer with externalTrafficPolicy Local has no spec.healthCheckNodePort.",
		"Load balancers cannot see which nodes have Pods of the Service, and an API server refuses each update of it.",
		"Set spec.externalTrafficPolicy to Cluster, and then back to Local: the second update gives the Service a port. Or " +
			"recreate it.",
	},
	{
		"LeaseNeverExpires", "A server's lease that never expires",
		"The key of an API server's lease, masterleases/ADDRESS in etcd, has no lease of etcd any more, or had none, or one of " +
			"more than a minute: etcd does not delete it soon after its server has ended. A restore of etcd from a backup of other " +
			"machines can leave such keys.",
		"If the server has ended, its address stays in the endpoints of the Service kubernetes, and each connection of a Pod " +
			"that goes to it fails or waits, for ever.",
		"In a snapshot, `rangekeeper repair --to-file` deletes the leases of all servers: each writes its own again when it " +
			"starts. In a running cluster, `rangekeeper repair --endpoints ... --apply` deletes the key if a second look, 30 " +
			"seconds later, finds it as it was: a server that lives writes its lease every 10 seconds, with a time to live of 15 " +
			"seconds. Then the servers that live take the address out of the endpoints within 10 seconds, unless another lease " +
			"cannot be read (LeaseNotValid).",
	},
	{
		"LeaseNotValid", "A server's lease that cannot be read",
		"The value of an API server's lease, or of another key below masterleases/, is damaged, or its address cannot be an " +
			"endpoint.",
		"A kube-apiserver that cannot read one lease no longer changes the endpoints of the Service kubernetes at all: servers " +
			"that end stay in them, and new ones do not get into them.",
		"In a snapshot, `rangekeeper repair --to-file` deletes the leases of all servers. In a running cluster, `rangekeeper " +
			"repair --endpoints ... --apply` deletes the key if it never expires, as that of LeaseNeverExpires. One that expires " +
			"goes with its server, and a server that lives writes its own again within 10 seconds.",
	},
	{
		"LeaseMismatch", "A server's lease with the address of another one",
		"The value of an API server's lease has another address than its key.",
		"Servers put the address of the value into the endpoints of the Service kubernetes. If no server has it, connections to " +
			"it fail.",
		"In a snapshot, `rangekeeper repair --to-file` deletes the leases of all servers. In a running cluster, `rangekeeper " +
			"repair --endpoints ... --apply` deletes the key if it never expires. One that expires goes with its server.",
	},
	{
		"EndpointWithoutLease", "An endpoint without a server",
		"The Endpoints of the Service kubernetes have an address for which no server holds a lease, while other servers hold " +
			"one.",
		"Each connection of a Pod to the API server that goes to this address fails.",
		"Each kube-apiserver that lives removes the address within 10 seconds, and each that starts does so then. If none does, " +
			"`rangekeeper repair --endpoints ... --apply` writes the endpoints after a second look, 30 seconds later, unless the " +
			"address's server writes a lease meanwhile. Then look for a lease that cannot be read (LeaseNotValid), and at " +
			"--endpoint-reconciler-type of the servers, which is lease by default.",
	},
	{
		"EndpointsMissing", "The Service kubernetes has no Endpoints",
		"Servers hold leases, and the Endpoints of the Service kubernetes do not exist in this etcd. Servers with " +
			"--etcd-servers-overrides can keep them in another one: an audit over the Kubernetes API sees them there.",
		"No Pod reaches the API server through the Service.",
		"Each server that lives creates the Endpoints within 10 seconds. If none does, `rangekeeper repair --endpoints " +
			"... --apply` creates them after a second look, 30 seconds later, with the addresses of the leases and the port " +
			"on which two of Service, Endpoints and slice agree, but not beside a server that renews its lease. Then look for a lease that cannot be read " +
			"(LeaseNotValid), and at the servers' logs.",
	},
	{
		"EndpointsNotValid", "Endpoints that a server does not write",
		"The Endpoints of the Service kubernetes have ports that an API server refuses, or, while servers hold leases, more than " +
			"one subset. They were written by hand or into etcd.",
		"Connections can go to a wrong port, and the EndpointSlice, which proxies read, need not match.",
		"Each server that lives repairs the form within 10 seconds. If none does, `rangekeeper repair --endpoints ... --apply` " +
			"writes them after a second look, 30 seconds later, with the addresses of the leases and the port on which two of " +
			"Service, Endpoints and slice agree. Then look for a lease that cannot be read (LeaseNotValid), and at the servers' logs. " +
			"Where no server keeps them (--endpoint-reconciler-type=none), those who write them repair them.",
	},
	{
		"EndpointSliceDiffers", "The slice does not match the Endpoints",
		"The EndpointSlice kubernetes is missing, or has other addresses or ports than the Endpoints of the Service. If no server " +
			"holds a lease, an address of the Endpoints may as well be in another slice of the Service.",
		"kube-proxy reads the slice and not the Endpoints: it sends connections to the addresses of the slice.",
		"Each server that lives writes both within 10 seconds. If none does, `rangekeeper repair --endpoints ... --apply` writes " +
			"them after a second look, 30 seconds later. If the Service, the Endpoints and the slice have different ports, two of " +
			"them decide; if no two agree, only an administrator knows which is right. Where no server keeps them " +
			"(--endpoint-reconciler-type=none), those who write them repair them.",
	},
	{
		"EndpointSliceLeftOver", "A slice that no server writes",
		"Beside the EndpointSlice kubernetes another one belongs to the Service, as a mirroring controller leaves behind " +
			"(kubernetes#101070), or one that names no controller. If no server holds a lease, only one of the same IP family with an " +
			"address that the Endpoints have not is found. Slices of other controllers are right.",
		"kube-proxy sends connections to the addresses of all slices of a Service. No server removes those of this one after a " +
			"server has ended.",
		"An administrator deletes it, if the slice kubernetes has the addresses of all API servers and nobody keeps this one on " +
			"purpose: `kubectl delete endpointslice -n default NAME`. A repair cannot decide this.",
	},
	{
		"EndpointsOtherFamily", "Endpoints of another IP family than the Service",
		"The ClusterIP of the Service kubernetes is of one IP family, and all addresses of its Endpoints are of the other one.",
		"No proxy forwards connections from one family to the other: no Pod reaches the API server through the Service.",
		"Give the API servers an address of the family of the Service (--advertise-address), or put a range of the other family " +
			"first in --service-cluster-ip-range and delete the Service: `kubectl delete service -n default kubernetes`. The " +
			"servers create it again within 10 seconds with another address, which Pods learn only when they start again.",
	},
	{
		"KubernetesServiceMissing", "The Service kubernetes does not exist",
		"There is no Service kubernetes in the namespace default.",
		"No Pod reaches the API server through the Service.",
		"Each API server that lives creates it within 10 seconds. If it does not, another Service may have its address, the " +
			"first one of the range: `rangekeeper explain ADDRESS` names it.",
	},
	{
		"KubernetesServiceNotFirst", "The Service kubernetes has a wrong ClusterIP",
		"The ClusterIP of the Service kubernetes is not the first address of the primary range of ClusterIPs, as after a change " +
			"of --service-cluster-ip-range.",
		"The certificates of API servers are issued for the first address. Pods that check them refuse the connection.",
		"If the certificates of the servers are issued for the address that the Service has, the range is wrong: restore the " +
			"former one, as that of ClusterIPOutOfRange. Or else delete the Service: Pods that run have its address and reach no API " +
			"server until they start again. `kubectl delete service -n default kubernetes`: the servers create it again with the " +
			"first address within 10 seconds.",
	},
	{
		"NamespaceMissing", "A system namespace does not exist",
		"default, kube-system, kube-public or kube-node-lease does not exist in this etcd. Servers with --etcd-servers-overrides " +
			"can keep namespaces in another one: an audit over the Kubernetes API sees them there.",
		"Nothing can be created in it: without kube-node-lease, for example, nodes do not report that they live.",
		"Each API server that lives creates it within a minute. If it does not, look at its log: an admission webhook may " +
			"refuse it.",
	},
	{
		"ClusterIPNotAllocated", "A ClusterIP that is in use but not recorded",
		"A Service has a ClusterIP that the bitmap or the IPAddress objects do not record for it.",
		"The API server takes the address for free and may hand it out a second time.",
		"Run `rangekeeper repair`: it records the address in the bitmap. In a cluster with IPAddress objects the API server creates " +
			"the missing object at its start and every few minutes after that. Do it before new Services are created.",
	},
	{
		"PortNotAllocated", "A node port that is in use but not recorded",
		"A Service has a node port that the bitmap does not record.",
		"The API server takes the port for free and may hand it out a second time.",
		"Run `rangekeeper repair`: it records the port. Do it before new Services are created.",
	},
	{
		"ClusterIPNotCanonical", "A ClusterIP in another text than the canonical one",
		"Where ClusterIPs are IPAddress objects, a Service has its ClusterIP in a text such as 010.96.0.5 or FD00::1. The object of the " +
			"address has the canonical text as its name: 10.96.0.5, fd00::1.",
		"A stock kube-apiserver compares the two as texts: its repair removes the object as that of another Service and creates " +
			"it again later, with the Events IPAddressWrongReference and ClusterIPNotAllocated. In between the address may be handed out " +
			"a second time.",
		"Delete and recreate the Service, with the canonical text or without a ClusterIP: a ClusterIP cannot be changed.",
	},
	{
		"IPAddressNotCanonical", "An object whose name is no canonical address",
		"The name of an IPAddress object is another text of an address than the canonical one, such as FD00::1 for fd00::1, or no " +
			"address. No API server accepts such an object: it was written into etcd.",
		"An API server looks for the canonical name, so the object reserves nothing: the address may be handed out.",
		"An administrator deletes the object: `kubectl delete ipaddress -- 'NAME'`, or its key in etcd while no API server runs. The repair " +
			"of kube-apiserver removes those of its own allocator, if no Service has the same text. `rangekeeper repair --to-file` removes from " +
			"a snapshot those of the allocator whose name is a text of an address. Objects of other controllers and names that are no address " +
			"stay. If another controller has created the object, let it create one with the canonical name.",
	},
	{
		"RangeFull", "A range without a free value",
		"All values of a range are recorded as allocated or in use. The ServiceCIDR objects of one IP family count as one range.",
		"The API server refuses each new Service that needs a value of the range: \"range is full\".",
		"First look for leaks: a repair gives their values back. For addresses add a ServiceCIDR object (Kubernetes 1.33 or later), whose " +
			"CIDR overlaps no network of Pods or nodes: `echo '" + ServiceCIDR + "' | kubectl create -f -`. Older releases need a wider --service-cluster-ip-range, and " +
			"node ports a wider --service-node-port-range, on all API servers.",
	},
	{
		"RangeNearlyFull", "A range with few free values",
		"Less than the part of `--warn-free`, 5% by default, of the values of a range is free. The ServiceCIDR objects of one IP family count " +
			"as one range.",
		"When no value is free, the API server refuses each new Service that needs one.",
		"As that of RangeFull, before the range is full.",
	},
	{
		"BitmapDisagrees", "A bitmap and IPAddress objects disagree",
		"Kubernetes 1.33 records a ClusterIP in a bitmap and in an IPAddress object. An address is recorded in the bitmap alone, or " +
			"a Service or an IPAddress object has an address that the bitmap does not record.",
		"The API server refuses to create a Service with an address that only the bitmap records: \"provided IP is already " +
			"allocated\". If the bitmap lacks an address, a creation that happens to choose it fails.",
		"`rangekeeper repair --apply` records what the bitmap lacks. It clears what only the bitmap records if that is still so " +
			"after a minute: a server records an address before it creates the object. An API server never repairs the bitmap. " +
			"After an upgrade to 1.34 the bitmap is not used any more.",
	},
	{
		"IPAddressNotAllocated", "An IPAddress object without a Service",
		"An IPAddress object of the API server's allocator refers to something other than a Service.",
		"The address cannot be allocated.",
		"The API server removes the object in its next repair pass, at its start and every few minutes after that. If it does not, " +
			"delete the object: `kubectl delete ipaddress ADDRESS`.",
	},
	{
		"IPAddressWrongReference", "An IPAddress object of another Service",
		"An IPAddress object refers to a Service that does not use the address.",
		"The address cannot be allocated.",
		"The API server removes the object in its next repair pass, at its start and every few minutes after that. If it does not, " +
			"delete the object: `kubectl delete ipaddress ADDRESS`.",
	},
	{
		"LeaseWithoutEndpoint", "A server that no client reaches",
		"An API server holds a lease, and its address is not in the endpoints of the Service kubernetes.",
		"Other servers take the connections of this one. If no address is left, no Pod reaches the API server through the " +
			"Service.",
		"Each server that lives adds its address within 10 seconds. If none does, `rangekeeper repair --endpoints ... --apply` " +
			"adds it after a second look, 30 seconds later.",
	},
	{
		Leak, "A value that is recorded but not in use",
		"A bitmap or an IPAddress object records a value as allocated, and no Service uses it. While a Service is being created " +
			"or deleted this is normal for a moment.",
		"The value cannot be allocated. If a range is full of leaks, no new Service gets a value.",
		"In a snapshot, `rangekeeper repair` clears leaks at once. In a running etcd, `rangekeeper repair --apply --clean-leaks` " +
			"clears those that stay leaked over several passes. The API server removes leaked IPAddress objects itself.",
	},
}
