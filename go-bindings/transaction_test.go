package rangekeeper

import (
	"errors"
	"runtime"
	"testing"
)

func TestTransaction(t *testing.T) {
	a := must(NewAllocator(must(ParsePortRange("1-10")), Contiguous, 0))
	defer a.Close()
	if err := a.Allocate(1); err != nil {
		t.Fatal(err)
	}
	has := func(want map[uint16]bool) {
		t.Helper()
		for port, used := range want {
			if must(a.Has(port)) != used {
				t.Errorf("port %d: in use is not %v", port, used)
			}
		}
	}
	rolledBack := must(a.Begin())
	if err := errors.Join(rolledBack.Allocate(5), rolledBack.Release(1)); err != nil {
		t.Fatal(err)
	}
	if next := must(rolledBack.AllocateNext()); next != 2 {
		t.Error(next)
	}
	if _, err := rolledBack.AllocateBatch([]Request[uint16]{{}, This[uint16](5)}); !errors.Is(err, ErrAlreadyAllocated) {
		t.Error(err)
	}
	must(rolledBack.AllocateBatch([]Request[uint16]{This[uint16](9)}))
	has(map[uint16]bool{1: true, 2: true, 3: false, 5: true, 9: true})
	if err := rolledBack.Rollback(); err != nil {
		t.Error(err)
	}
	has(map[uint16]bool{1: true, 2: false, 5: false, 9: false})

	committed := must(a.Begin())
	if err := errors.Join(committed.Allocate(5), committed.Release(1), committed.Commit()); err != nil {
		t.Error(err)
	}
	committed.Close()
	has(map[uint16]bool{1: false, 5: true})

	closed := must(a.Begin())
	must(closed.AllocateNext())
	closed.Close()
	has(map[uint16]bool{1: false})

	var notIn *NotInRangeError
	open := must(a.Begin())
	if err := open.Allocate(11); !errors.As(err, &notIn) {
		t.Error(err)
	}
	a.Close()
	for _, ended := range []*Transaction[uint16]{rolledBack, committed, closed, open, {}, nil} {
		_, next := ended.AllocateNext()
		_, batch := ended.AllocateBatch([]Request[uint16]{{}})
		for _, err := range []error{ended.Allocate(3), next, batch, ended.Release(3), ended.Commit(), ended.Rollback()} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if ended.Close() != nil {
			t.Error("Close fails")
		}
	}
}

func TestForgottenTransactionIsRolledBack(t *testing.T) {
	a := must(NewAllocator(must(ParsePortRange("1-10")), Contiguous, 0))
	defer a.Close()
	func() { must(must(a.Begin()).AllocateNext()) }()
	for range 1000 {
		runtime.GC()
		if must(a.Used()) == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Error("the allocation is still there")
}
