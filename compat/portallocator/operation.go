package portallocator

import (
	"errors"
	"slices"
)

// PortAllocationOperation allocates ports for an owner before that is written. Commit releases the ports that the owner
// gives up, Rollback the allocated ones. So a port may leak, but never has two owners.
//
//	op := StartOperation(ports, false)
//	defer op.Finish()
//	...
//	op.Commit() // after the owner is written
type PortAllocationOperation struct {
	ports     Interface
	allocated []int
	released  []int
	dryRun    bool
	// ended means committed or rolled back: the allocated ports may have other owners by now.
	ended bool
}

// dryRunner returns a copy for a dry run.
type dryRunner interface{ DryRun() (Interface, error) }

// StartOperation starts an operation. A dry run works on a copy of pa.
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
		return refusing{pa, errors.New("the allocator does not support dry runs")}
	}
	dry, err := source.DryRun()
	if err != nil {
		return refusing{pa, err}
	}
	return dry
}

// refusing fails every allocation with err.
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

// ReleaseDeferred records a port that the owner gives up, once if it is for TCP and UDP.
func (op *PortAllocationOperation) ReleaseDeferred(port int) {
	if !slices.Contains(op.released, port) {
		op.released = append(op.released, port)
	}
}

// Commit releases the ports that the written owner gave up. If one cannot be released, it leaks until a repair pass.
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
