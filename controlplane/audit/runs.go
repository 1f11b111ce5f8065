package audit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Run is a run of neighbouring values that are all used or all free.
type Run struct {
	First, Last string
	Len         uint64
}

// Runs are the used and the free runs of a range, ascending.
type Runs struct {
	Range      Range
	StaticBand uint32
	Used, Free []Run
	// Partial says that only the lowest addresses are in the runs, as the core
	// tracks 65,535 of an IPv6 range at most.
	Partial bool
}

// Runs gives those of all ranges with this name: one bitmap, or each CIDR of a
// ServiceCIDR object.
func (a *Audit) Runs(name string) ([]Runs, error) {
	var all []Runs
	var names []string
	for _, r := range a.report.Ranges {
		names = append(names, r.Name)
		if r.Name != name {
			continue
		}
		runs := Runs{Range: r}
		var err error
		switch r.Mode {
		case ModeBitmap:
			i := a.bitmapIndex(name)
			runs.StaticBand = a.bitmaps[i].staticBand
			runs.Used = texts(a.pass.Runs(i, rangekeeper.ValuesStored, true))
			runs.Free = texts(a.pass.Runs(i, rangekeeper.ValuesStored, false))
		case ModeIPAddress:
			err = a.objectRuns(&runs)
		case ModeStale:
			err = a.staleRuns(&runs)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, runs)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no range %q; there are %s", name, strings.Join(names, ", "))
	}
	return all, nil
}

func (a *Audit) objectRuns(runs *Runs) error {
	allocator, err := newAllocator(runs.Range.Range)
	if err != nil {
		return err
	}
	defer allocator.Close()
	for i := range a.state.IPAddresses {
		addr, err := rangekeeper.ParseAddr(a.state.IPAddresses[i].Name)
		if err != nil {
			continue // a finding or of no range
		}
		if _, in := allocator.Range().OffsetOf(addr); !in {
			continue
		}
		// Two objects may spell one address differently.
		if err := allocator.Allocate(addr); err != nil && !errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
			return err
		}
	}
	runs.Partial = uint64(allocator.Range().Size()) < runs.Range.Size
	runs.fill(allocator)
	return nil
}

func (a *Audit) staleRuns(runs *Runs) error {
	stored := a.state.Ranges[runs.Range.Name]
	object, err := rangekeeper.DecodeRangeAllocation(stored.Value)
	if err != nil {
		return err
	}
	defer object.Close()
	data, err := object.Data(nil)
	if err != nil {
		return err
	}
	allocator, err := newAllocator(runs.Range.Range)
	if err != nil {
		return err
	}
	defer allocator.Close()
	if err := allocator.Restore(runs.Range.Range, data); err != nil {
		return err
	}
	runs.fill(allocator)
	return nil
}

func newAllocator(text string) (*rangekeeper.Allocator[netip.Addr], error) {
	r, err := rangekeeper.ParseCIDR(text)
	if err != nil {
		return nil, err
	}
	return rangekeeper.NewAllocator(r, rangekeeper.Contiguous, 0)
}

func (r *Runs) fill(allocator *rangekeeper.Allocator[netip.Addr]) {
	r.StaticBand = allocator.Range().StaticBand()
	r.Used, r.Free = texts(allocator.UsedRuns()), texts(allocator.FreeRuns())
}

func texts[V fmt.Stringer](runs func(yield func(rangekeeper.Run[V]) bool)) []Run {
	var all []Run
	for run := range runs {
		all = append(all, Run{run.First.String(), run.Last.String(), run.Len})
	}
	return all
}
