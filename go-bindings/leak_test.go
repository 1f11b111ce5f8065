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
	passes := []struct{ leaked, due []Value }{
		{ports(30001, 30007), nil},
		{ports(30007, 30001), nil},
		{ports(30007), ports(30007)},
		{ports(30001, 30007), nil}, // 30001 had a break, 30007 was cleaned: both start again
		{nil, nil},
	}
	for i, pass := range passes {
		if due := must(c.Advance(pass.leaked)); !slices.Equal(due, pass.due) {
			t.Errorf("pass %d: due %v", i, due)
		}
		if i == 3 && c.Count(PortValue(30001)) != 1 {
			t.Error("the counter did not start again")
		}
	}
	must(c.Advance(ports(30001)))
	var of *ValueError
	if _, err := c.Advance(ports(30002, 80, 30001)); !errors.As(err, &of) || *of != (ValueError{PortValue(80), r, ErrNotInRange}) || c.Count(PortValue(30001)) != 1 {
		t.Error("a value out of range was counted:", err)
	}
	if _, err := NewLeakCounters(r, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	closed := must(NewLeakCounters(r, 1))
	closed.Close()
	for _, c := range []*LeakCounters{closed, {}, nil} {
		if _, err := c.Advance(ports(30001)); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := c.Close(); err != nil || c.Count(PortValue(30001)) != 0 {
			t.Error("closed counters count", err)
		}
	}
}
