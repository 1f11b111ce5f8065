// Package clusterstate reads the input of an audit from a Kubernetes
// cluster, all of it at one revision of its store: the stored RangeAllocations
// as raw bytes, the Services, and where they exist the IPAddress and ServiceCIDR
// objects.
//
// The source is an etcd snapshot file ([ReadSnapshotFile]), a running etcd
// ([Connect], [ReadEtcd]) or the Kubernetes API ([ReadAPI]); all return the same
// [State]. Nothing is judged here.
package clusterstate
