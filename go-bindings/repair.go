package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"sync"
)

// RepairPass is one pass over all Services, which tells what is wrong with the stored ranges. Read what is stored
// first and list the Services after that.
//
// It may be used from several goroutines at once, though the order of Services then is that of the calls.
type RepairPass struct {
	inner  *owned[*C.rk_repair_pass]
	ranges *rangeCount
}

// Stored is a stored range object: what stands in its range and data.
type Stored struct {
	// Range is the range as text. Empty means that the object was not initialised yet: the configured range is taken.
	Range string
	// Data is the bitmap; see Allocator.Snapshot.
	Data []byte
}

// NewRepairPass makes a pass without ranges.
func NewRepairPass() (*RepairPass, error) {
	var handle *C.rk_repair_pass
	if code := C.rk_repair_pass_new(&handle); code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return &RepairPass{own(handle, func(c *C.rk_repair_pass) { C.rk_repair_pass_free(c) }), new(rangeCount)}, nil
}

func (p *RepairPass) pointer() *C.rk_repair_pass {
	if p == nil {
		return nil
	}
	return p.inner.pointer()
}

// Close drops a pass that is not to be finished. It may be called again and beside other calls.
func (p *RepairPass) Close() error {
	C.rk_repair_pass_close(p.pointer())
	runtime.KeepAlive(p)
	return nil
}

// AddCIDR adds the configured range of one IP family, with what is stored for it; the first one is the primary range.
// It gives the index by which the range is named from then on: they count up from 0.
//
// The stored range may differ from the configured one, after a change of the cluster's configuration: values that both
// have are taken over. Errors: ErrSameKind, *ParseError (of the stored range), *MismatchedRangeError (the stored range
// is one of ports), *BitsPastRangeError.
func (p *RepairPass) AddCIDR(r Range[netip.Addr], stored Stored) (index int, err error) {
	return addRange(p, r, stored)
}

// AddPorts adds the configured range of node ports, with what is stored for it. Index and errors as of AddCIDR.
func (p *RepairPass) AddPorts(r Range[uint16], stored Stored) (index int, err error) {
	return addRange(p, r, stored)
}

func addRange[V Value](p *RepairPass, r Range[V], stored Stored) (int, error) {
	if p.pointer() == nil {
		return 0, ErrClosed
	}
	return p.ranges.add(func() error {
		var details C.rk_error
		code := C.rk_repair_pass_add_range(p.pointer(), r.pointer(),
			cText(stored.Range), C.size_t(len(stored.Range)), cBytes(stored.Data), C.size_t(len(stored.Data)), &details)
		runtime.KeepAlive(p)
		runtime.KeepAlive(r.inner)
		if code != C.RK_RESULT_OK {
			return snapshotError(code, &details, r.String(), stored.Range)
		}
		return nil
	})
}

// Observe takes note of the Services of a batch, in one crossing. Cost: some 30 ns per address or port, whatever the
// size of the ranges. Addresses count only if a CIDR was added, ports only if a range of ports was. The error may be
// ErrInvalidBatch; nothing of the batch counts then.
func (p *RepairPass) Observe(services *Services) error {
	if services.err != nil {
		return services.err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	c := services.toC(&pinner)
	code := C.rk_repair_pass_observe(p.pointer(), &c)
	runtime.KeepAlive(p)
	return resultError(code)
}

// How many Services ObserveAll has in a batch: some 100 KiB.
const servicesPerBatch = 4096

// batches are what ObserveAll fills, kept for the next pass.
var batches = sync.Pool{New: func() any { return new(Services) }}

// ObserveAll takes note of n Services: fill is called to add those from one index up to another to a batch, until all
// are added. While the core works on one batch, fill works on the next ones, so that two processors are busy; fill is
// called by this goroutine alone. After an error, which is as of Observe, the rest is not observed.
func (p *RepairPass) ObserveAll(n int, fill func(batch *Services, from, to int)) error {
	// With fewer batches both sides would often wait for each other, which takes the system as long as a batch.
	const several = 4
	free, full := make(chan *Services, several), make(chan *Services, several)
	for range several {
		free <- batches.Get().(*Services)
	}
	var err error
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		for n := 0; ; n++ {
			batch, more := <-full
			if !more {
				return
			}
			if err == nil {
				if err = p.Observe(batch); err != nil {
					err = fmt.Errorf("Services %d to %d: %w", n*servicesPerBatch, n*servicesPerBatch+batch.Len()-1, err)
				}
			}
			batch.Reset()
			free <- batch
		}
	}()
	func() {
		// Also when fill panics, so that nothing is observed after this call.
		defer func() {
			close(full)
			<-observed
		}()
		for from := 0; from < n; from += servicesPerBatch {
			to := min(from+servicesPerBatch, n)
			batch := <-free
			fill(batch, from, to)
			if batch.Len() != to-from && batch.err == nil {
				batch.err = fmt.Errorf("%w: %d Services instead of %d", ErrInvalidBatch, batch.Len(), to-from)
			}
			full <- batch
		}
	}()
	for range several {
		batches.Put(<-free)
	}
	return err
}

// Finish ends the pass. Without passes all leaks are cleaned at once, which is right only where nobody allocates
// meanwhile; with passes only those that are due.
func (p *RepairPass) Finish(passes *Passes) (*RepairOutcome, error) {
	var kept *C.rk_passes
	if passes != nil {
		if kept = passes.pointer(); kept == nil {
			return nil, ErrClosed
		}
	}
	var handle *C.rk_repair_outcome
	code := C.rk_repair_pass_finish(p.pointer(), kept, &handle)
	runtime.KeepAlive(p)
	runtime.KeepAlive(passes)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return &RepairOutcome{own(handle, func(c *C.rk_repair_outcome) { C.rk_repair_outcome_free(c) }), p.ranges.count()}, nil
}

// RepairOutcome is what a pass found out. It never changes and may be used from several goroutines at once.
type RepairOutcome struct {
	inner  *owned[*C.rk_repair_outcome]
	ranges int
}

// Which names a set of values of an outcome.
type Which uint32

const (
	// ValuesSet are to be set in what is stored.
	ValuesSet Which = C.RK_VALUES_SET
	// ValuesClear are to be cleared in what is stored.
	ValuesClear Which = C.RK_VALUES_CLEAR
	// ValuesLeaked are stored though no Service uses them, due to be cleaned or not.
	ValuesLeaked Which = C.RK_VALUES_LEAKED
	// ValuesDuplicates are claimed by more than one Service.
	ValuesDuplicates Which = C.RK_VALUES_DUPLICATES
	// ValuesStored are what was stored before the pass.
	ValuesStored Which = C.RK_VALUES_STORED
	// ValuesInUse are what Services use.
	ValuesInUse Which = C.RK_VALUES_IN_USE
	// ValuesNext are what is to be stored: those in use, and the leaks that stay.
	ValuesNext Which = C.RK_VALUES_NEXT
)

// RangeCounts says how many values of a range there are of each sort; see Which.
type RangeCounts struct {
	Stored, InUse, Leaked, Next, Set, Clear, Duplicates int
	// Dropped values are stored, but the configured range does not have them: after a change of the range.
	Dropped int
}

func (o *RepairOutcome) pointer() *C.rk_repair_outcome {
	if o == nil {
		return nil
	}
	return o.inner.pointer()
}

// Close drops the outcome. It may be called again and beside other calls.
func (o *RepairOutcome) Close() error {
	C.rk_repair_outcome_close(o.pointer())
	runtime.KeepAlive(o)
	return nil
}

// Findings gives what is wrong with Services, in their order. Cost: a few crossings per 100 findings.
func (o *RepairOutcome) Findings() ([]Finding, error) {
	defer runtime.KeepAlive(o)
	return findingsReader{
		page: func(from C.size_t, page *C.rk_finding, capacity C.size_t, n *C.size_t) C.rk_result {
			return C.rk_repair_outcome_findings(o.pointer(), from, page, capacity, n)
		},
		text: func(index C.size_t, buffer *C.char, capacity C.size_t, length *C.size_t) C.rk_result {
			return C.rk_repair_outcome_finding_text(o.pointer(), index, buffer, capacity, length)
		},
		messages: func(from C.size_t, buffer *C.char, capacity C.size_t, ends *C.size_t, n C.size_t, written *C.size_t) C.rk_result {
			return C.rk_repair_outcome_finding_messages(o.pointer(), from, buffer, capacity, ends, n, written)
		},
	}.read()
}

// Services says how many Services were observed.
func (o *RepairOutcome) Services() (uint64, error) {
	var count C.uint64_t
	code := C.rk_repair_outcome_services(o.pointer(), &count)
	runtime.KeepAlive(o)
	return uint64(count), resultError(code)
}

// Ranges says how many ranges the pass has.
func (o *RepairOutcome) Ranges() int {
	if o == nil {
		return 0
	}
	return o.ranges
}

// Counts counts the values of the range with this index.
func (o *RepairOutcome) Counts(index int) (RangeCounts, error) {
	var c C.rk_range_counts
	code := C.rk_repair_outcome_counts(o.pointer(), C.size_t(index), &c)
	runtime.KeepAlive(o)
	return RangeCounts{
		Stored:     int(c.stored),
		InUse:      int(c.in_use),
		Leaked:     int(c.leaked),
		Next:       int(c.next),
		Set:        int(c.set),
		Clear:      int(c.clear),
		Duplicates: int(c.duplicates),
		Dropped:    int(c.dropped),
	}, indexError(code, index)
}

// Values gives the values of one sort of the range with this index, ascending. The sequence is empty if there is no
// such range or sort, and after Close; it ends early if the outcome is closed meanwhile.
func (o *RepairOutcome) Values(index int, which Which) iter.Seq[AnyValue] {
	return func(yield func(AnyValue) bool) {
		read := func(from C.uint32_t, page *C.rk_value, capacity C.size_t, n *C.size_t, next *C.uint32_t) C.rk_result {
			return C.rk_repair_outcome_values(o.pointer(), C.size_t(index), C.uint32_t(which), from, page, capacity, n, next)
		}
		readPages(valuesPerPage, read, func(page []C.rk_value) bool {
			for _, value := range page {
				if !yield(AnyValue{value}) {
					return false
				}
			}
			return true
		})
		runtime.KeepAlive(o)
	}
}

// Runs gives the runs of values that are (members) or are not of one sort in the range with this index, ascending. The
// sequence is empty if there is no such range or sort, and after Close; it ends early if the outcome is closed meanwhile.
func (o *RepairOutcome) Runs(index int, which Which, members bool) iter.Seq[Run[AnyValue]] {
	return func(yield func(Run[AnyValue]) bool) {
		read := func(from C.uint32_t, page *C.rk_run, capacity C.size_t, n *C.size_t, next *C.uint32_t) C.rk_result {
			return C.rk_repair_outcome_runs(o.pointer(), C.size_t(index), C.uint32_t(which), C.bool(members), from, page, capacity, n, next)
		}
		readPages(runsPerPage, read, func(page []C.rk_run) bool {
			for _, run := range page {
				if !yield(Run[AnyValue]{AnyValue{run.first}, AnyValue{run.last}, uint64(run.len)}) {
					return false
				}
			}
			return true
		})
		runtime.KeepAlive(o)
	}
}

// Snapshot gives what is to be stored for the range with this index, as Allocator.Snapshot does. It replaces the content
// of dst and reuses its capacity.
func (o *RepairOutcome) Snapshot(index int, dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(o)
	dst, err := readBytes(dst, func(buffer *C.uint8_t, capacity C.size_t, length *C.size_t) C.rk_result {
		return C.rk_repair_outcome_snapshot(o.pointer(), C.size_t(index), buffer, capacity, length)
	})
	if errors.Is(err, ErrInvalidArgument) {
		return nil, indexError(C.RK_RESULT_INVALID_ARGUMENT, index)
	}
	return dst, err
}

// State says all about one value of the range with this index; false if the range does not hand it out.
func (o *RepairOutcome) State(index int, value AnyValue) (OffsetState, bool, error) {
	var state C.rk_offset_state
	code := C.rk_repair_outcome_state(o.pointer(), C.size_t(index), value.c, &state)
	runtime.KeepAlive(o)
	return stateResult(code, &state, index)
}

// Occupancy cuts the range with this index into at most so many cells of equal length; the last may be shorter.
func (o *RepairOutcome) Occupancy(index, cells int) ([]Cell, error) {
	all, code := readCells(cells, func(count C.uint32_t, page *C.rk_cell, capacity C.size_t, n *C.size_t) C.rk_result {
		return C.rk_repair_outcome_occupancy(o.pointer(), C.size_t(index), count, page, capacity, n)
	})
	runtime.KeepAlive(o)
	return all, indexError(code, index)
}
