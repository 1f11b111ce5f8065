package rangekeeper

import (
	"errors"
	"slices"
	"testing"
)

func TestLeakCounters(t *testing.T) {
	r := must(ParsePortRange("30000-32767"))
	c := must(NewLeakCounters(r, 3))
	defer c.Close()
	passes := []struct{ leaked, due []uint16 }{
		{[]uint16{30001, 30007}, nil},
		{[]uint16{30007, 30001}, nil},
		{[]uint16{30007}, []uint16{30007}},
		{[]uint16{30001, 30007}, nil}, // 30001 had a break, 30007 was cleaned: both start again
		{nil, nil},
	}
	for i, pass := range passes {
		if due := must(c.Advance(pass.leaked)); !slices.Equal(due, pass.due) {
			t.Errorf("pass %d: due %v", i, due)
		}
		if i == 3 && must(c.Count(30001)) != 1 {
			t.Error("the counter did not start again")
		}
	}
	must(c.Advance([]uint16{30001}))
	var notIn *NotInRangeError
	if _, err := c.Advance([]uint16{30002, 80, 30001}); !errors.As(err, &notIn) || notIn.Value != "80" || must(c.Count(30001)) != 1 {
		t.Error("a value out of range was counted:", err)
	}
	if err := c.Reset(); err != nil || must(c.Count(30001)) != 0 {
		t.Error("Reset left a counter", err)
	}
	if _, err := NewLeakCounters(r, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	closed := must(NewLeakCounters(r, 1))
	closed.Close()
	for _, c := range []*LeakCounters[uint16]{closed, {}, nil} {
		_, advance := c.Advance([]uint16{30001})
		_, count := c.Count(30001)
		for _, err := range []error{advance, count, c.Reset(), c.Close()} {
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if advance == nil || count == nil {
			t.Error("closed counters count")
		}
	}
}
