package rangekeeper

import (
	"errors"
	"math"
	"net/netip"
	"testing"
)

func TestServiceCIDR(t *testing.T) {
	for text, want := range map[string]struct {
		size       uint64
		staticBand uint32
		last, past string
	}{
		"10.96.3.4/12":   {1<<20 - 2, 256, "10.111.255.254", "10.111.255.255"},
		"10.0.0.0/28":    {14, 0, "10.0.0.14", "10.0.0.15"},
		"fd00::/112":     {65535, 256, "fd00::ffff", "fd00::1:0"},
		"2001:db8::/64":  {math.MaxUint64, 256, "2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::"},
		"192.168.1.0/32": {0, 0, "", "192.168.1.0"},
	} {
		c := must(ParseServiceCIDR(text))
		if c.Size() != want.size || c.StaticBand() != want.staticBand {
			t.Errorf("%s: size %d, static band %d", text, c.Size(), c.StaticBand())
		}
		if last, ok := c.ValueAt(want.size - 1); ok != (want.size > 0) || ok && last.String() != want.last {
			t.Errorf("%s: the last address is %v, %v", text, last, ok)
		} else if offset, in := c.OffsetOf(last); in != ok || in && offset != want.size-1 {
			t.Errorf("%s: the last offset is %d, %v", text, offset, in)
		}
		if offset, ok := c.OffsetOf(netip.MustParseAddr(want.past)); ok {
			t.Errorf("%s: %s has offset %d", text, want.past, offset)
		}
		if addr, ok := c.ValueAt(want.size); ok {
			t.Errorf("%s: past the end is %v", text, addr)
		}
	}
	for _, text := range []string{"", "10.0.0.0", "10.0.0.0/33", "x", "\xff"} {
		var parse *ParseError
		if _, err := ParseServiceCIDR(text); !errors.As(err, &parse) || parse.Text != text || parse.Message == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestZeroServiceCIDR(t *testing.T) {
	var c ServiceCIDR
	_, of := c.OffsetOf(netip.MustParseAddr("10.0.0.1"))
	_, at := c.ValueAt(0)
	if c.Size() != 0 || c.StaticBand() != 0 || of || at {
		t.Error("the zero CIDR has something in it")
	}
}
