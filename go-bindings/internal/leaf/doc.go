// Package leaf calls C functions that are so short that cgo's crossing would be most of the call.
//
// Cgo hands the processor over to other goroutines before it enters C and takes it back afterwards, since a C function
// may take any time: about 30 ns on today's machines, where the C function itself takes 10. A leaf function returns
// within nanoseconds, never calls back into Go, and needs little stack; for it the hand-over is not worth its while, and
// this package leaves it out: it switches to a stack of C's own, calls, and switches back.
//
// What makes that sound:
//
//   - Nothing of Go's runtime is touched. The goroutine keeps running, as seen from the scheduler and the collector, and
//     it is not interrupted: Go preempts neither assembly nor code that it does not know. A function that waited would
//     hold up the collector, so a leaf function must not wait, not even for a lock.
//   - Go's signal handlers run on a stack of their own and leave such code alone.
//   - The stack is not the goroutine's, which would be too small. Below it lies a page without access, so that running
//     over its end is a fault and not a corruption. The process has a fixed number of such stacks; one call at a time
//     uses one, and others are told to go through cgo.
//
// What it costs: a traceback ends at the switch. So a CPU profile shows the time in C without its caller, and when a
// process is killed by a signal that finds it in C, Go's dump of goroutines may be incomplete.
//
// On other platforms than linux/amd64, and under the race detector, to which cgo's crossing is a point of
// synchronisation, every stack is busy.
package leaf

// Result is what a call came to: in its low half what the C function returned, above that the bool that it wrote.
type Result uint64

// Busy says that nothing was called: the stack is in use. Cgo is the way then.
const Busy = ^Result(0)

// Code is what the C function returned.
func (r Result) Code() uint32 { return uint32(r) }

// Flag is the bool that the C function wrote; false if it wrote none.
func (r Result) Flag() bool { return r>>32 != 0 }
