// Package clusterstate reads the input of an audit from a Kubernetes
// cluster, all of it at one revision of its store: the stored RangeAllocations
// as raw bytes, the Services, and where they exist the IPAddress and ServiceCIDR
// objects.
//
// The store is an etcd snapshot file ([ReadSnapshotFile]) or a running etcd
// ([Connect], [ReadEtcd]); both return the same [State]. Nothing is judged here.
package clusterstate
