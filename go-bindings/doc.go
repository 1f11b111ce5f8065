// Package rangekeeper hands out Service ClusterIPs and NodePorts from ranges, stores them exactly as kube-apiserver does,
// and finds and repairs drift between what is allocated and what Services use.
//
// The usual loop of a control plane, for one stored object of /registry/ranges:
//
//   - [DecodeRangeAllocation] reads the stored value, [ParseCIDR] or [ParsePortRange] its range.
//   - [NewAllocator] and [Allocator.Restore] take over what is in use; [Allocator.Allocate], [Allocator.AllocateNext] and
//     [Allocator.Release] change it.
//   - [Allocator.Snapshot] and [RangeAllocation.Set] put it back, and [RangeAllocation.Encode] gives the value to be
//     stored, with all that was in it besides.
//
// An [Audit] compares what is recorded as allocated with what Services use.
//
// # Objects
//
// Objects live in memory of the library in C, which Go's garbage collector does not count. Close drops an object's state
// at once; it may be called again, and beside other calls. After Close, and on a zero value, a call that can fail returns
// [ErrClosed]; a getter without an error returns zero values. A fault that the library catches in itself ([ErrPoisoned])
// has the same effect on getters. An object that is not
// closed is freed when nothing refers to it any more. A copy by value stands for the same object. Everything may be used
// from several goroutines at once, except for batches ([Services] and its like). Errors are compared by errors.Is and
// taken apart by errors.As.
//
// # Linking
//
// The package links target/release/librangekeeper.a of its own checkout, which `make library` builds; with the build tag
// rangekeeper_dynamic it links an installed librangekeeper.so, found by pkg-config. Linux only.
package rangekeeper
