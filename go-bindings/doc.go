// Package rangekeeper allocates Service ClusterIPs and NodePorts from ranges, stores them exactly as kube-apiserver
// does, and finds and repairs drift between the stored allocations and the Services.
//
// # What to use
//
//   - Where each ClusterIP is an IPAddress object, as in current clusters: an [Index] of the free addresses of
//     ServiceCIDRs, with [JudgeIPAddress] and [JudgeClusterIP] for the repair of the objects. Package ipaddress of
//     module controlplane drives it.
//   - To allocate from a range in a running etcd, beside kube-apiservers and other clients: the Store of package
//     [github.com/rangekeeper/rangekeeper/go-bindings/etcdstore]. Many callers share one transaction, nothing is
//     allocated twice, and a release frees a value only on behalf of its owner.
//   - To find the faults of a cluster: an [Audit] of the stored ranges and the Services; its [Report] has the findings,
//     the leaks and the repaired bitmaps. In a running cluster a [RepairPass] ties it to the Stores, and package repair
//     of module controlplane drives all of it.
//   - To allocate where another program stores the result, or in memory only: an [Allocator]. [DecodeRangeAllocation]
//     and [Allocator.Restore] read a stored object; [Allocator.Snapshot], [RangeAllocation.Set] and
//     [RangeAllocation.Encode] write it. The caller has to make that a compare-and-swap: two programs that read and
//     write the same object without it allocate values twice.
//   - To allocate through a store other than etcd: a [Committer], which decides what to read and write, and does no
//     I/O.
//   - To hand out VNIs, UIDs, subnets or other values to owners with names: a [Ledger] in memory, or package
//     [github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore] over any store that puts a value if it is unchanged,
//     such as a Kubernetes object. It drives a [SharedLedger].
//   - [Bootstrap] decides what kube-apiserver's bootstrap controller writes.
//
// # Values
//
// A [Value] is an address or a port. A [Range], read by [ParseCIDR] or [ParsePortRange], has some of them, each at an
// offset. No range has the zero Value.
//
// # Objects
//
// Objects live in memory of the library, which Go's garbage collector does not free on its own. Close drops an object's
// state at once; it may be called again, and beside other calls. After Close, and on a zero value, a call that can fail
// returns [ErrClosed]; a getter without an error returns zero values. A fault that the library catches in itself
// ([ErrPoisoned]) has the same effect on getters. An object that is not closed is freed when nothing refers to it any
// more. A copy by value stands for the same object. Everything may be used from several goroutines at once, except for
// batches ([Services] and its like).
//
// # Errors
//
// errors.Is compares with the variables (ErrFull and others). errors.As finds the types: a [*ValueError] has the value
// and the range, a [*BatchError] the request of a batch.
//
// # Back ends
//
// The package has the library in it as Go source, translated from its WebAssembly: it needs no cgo, no C compiler and
// no library, and runs wherever Go does. Objects live in the Go heap, large ones by themselves, and do not wait for
// each other (docs/go.md); a call that the library's own fault ends leaves its objects poisoned, and their memory is
// not used again.
//
// With the build tag rangekeeper_native it calls the library in C instead, which needs cgo. A program then imports
// package native of module go-bindings/native, which has the libraries; in a checkout `make library` builds it. With
// rangekeeper_dynamic it calls an installed librangekeeper.so, found by pkg-config; if that has another version of the
// C ABI, the program panics at its start. The answers are the same. Short calls take longer through cgo; a repair pass
// takes 1.4 times as long without it (docs/go.md).
package rangekeeper
