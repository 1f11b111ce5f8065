package portallocator

import (
	"errors"
	"slices"
)

// PortAllocationOperation allocates ports for an owner that is not written yet: at once, so that nobody else takes them.
// Ports that the owner gives up are released when it is written, and those it was to get if it is not. A port may leak
// that way, and is never handed out twice.
//
//	op := StartOperation(ports, false)
//	defer op.Finish()
//	...
//	op.Commit() // once the owner is written
type PortAllocationOperation struct {
	ports     Interface
	allocated []int
	released  []int
	dryRun    bool
	// ended means committed or rolled back: the allocated ports may have another owner by now.
	ended bool
}

// dryRunner returns a copy to try operations on.
type dryRunner interface{ DryRun() (Interface, error) }

// StartOperation begins an operation. A dry one is tried on a copy of pa, and changes nothing.
func StartOperation(pa Interface, dryRun bool) *PortAllocationOperation {
	op := &PortAllocationOperation{ports: pa, dryRun: dryRun}
	if dryRun {
		op.ports = dryCopy(pa)
	}
	return op
}

func dryCopy(pa Interface) Interface {
	source, ok := pa.(dryRunner)
	if !ok {
		return refusing{pa, errors.New("the allocator has no dry run")}
	}
	dry, err := source.DryRun()
	if err != nil {
		return refusing{pa, err}
	}
	return dry
}

// refusing hands out nothing, and says why.
type refusing struct {
	Interface
	err error
}

func (r refusing) Allocate(int) error         { return r.err }
func (r refusing) AllocateNext() (int, error) { return 0, r.err }

// Allocate allocates a port for the owner.
func (op *PortAllocationOperation) Allocate(port int) error {
	err := op.ports.Allocate(port)
	if err == nil {
		op.allocated = append(op.allocated, port)
	}
	return err
}

// AllocateNext allocates a free port for the owner.
func (op *PortAllocationOperation) AllocateNext() (int, error) {
	port, err := op.ports.AllocateNext()
	if err == nil {
		op.allocated = append(op.allocated, port)
	}
	return port, err
}

// ReleaseDeferred records a port that the owner gives up. It may be named twice: for TCP and for UDP.
func (op *PortAllocationOperation) ReleaseDeferred(port int) {
	if !slices.Contains(op.released, port) {
		op.released = append(op.released, port)
	}
}

// Commit releases the ports that the written owner gave up. A port that cannot be released has leaked, and is found by
// a repair.
func (op *PortAllocationOperation) Commit() []error { return op.end(op.released) }

// Rollback releases the allocated ports: the owner was not written.
func (op *PortAllocationOperation) Rollback() []error { return op.end(op.allocated) }

// Finish rolls back unless the operation has ended.
func (op *PortAllocationOperation) Finish() { op.Rollback() }

// end releases ports, once.
func (op *PortAllocationOperation) end(ports []int) (errs []error) {
	if op.ended || op.dryRun {
		return nil
	}
	op.ended = true
	for _, port := range ports {
		if err := op.ports.Release(port); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
