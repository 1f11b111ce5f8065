package rangekeeper

import (
	"errors"
	"strings"
	"testing"
)

func TestParseRanges(t *testing.T) {
	cidr := must(ParseCIDR("10.96.3.4/12"))
	if cidr.String() != "10.96.0.0/12" || cidr.Size() != 1<<20-2 || cidr.StaticBand() != 256 {
		t.Error(cidr, cidr.Size(), cidr.StaticBand())
	}
	ports := must(ParsePortRange("30000+2767"))
	if ports.String() != "30000-32767" || ports.Size() != 2768 || ports.StaticBand() != 86 {
		t.Error(ports, ports.Size(), ports.StaticBand())
	}
	for _, text := range []string{"", "10.0.0.0", "10.0.0.0/33", "x", "5-1", "1-2/9", "\xff"} {
		_, cidrErr := ParseCIDR(text)
		_, portsErr := ParsePortRange(text)
		for _, err := range []error{cidrErr, portsErr} {
			var parse *ParseError
			if !errors.As(err, &parse) || parse.Text != text || parse.Message == "" {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if _, err := ParseCIDR("30000-32767"); err == nil || !strings.Contains(err.Error(), "30000-32767") {
		t.Error(err)
	}
}

func TestNumbers(t *testing.T) {
	r := must(Numbers(100_000, 16))
	if r.Size() != 100_000 || r.StaticBand() != 16 {
		t.Error(r, r.Size(), r.StaticBand())
	}
	for _, bad := range [][2]uint32{{16, 16}, {0, 1}} {
		if _, err := Numbers(bad[0], bad[1]); err == nil || !strings.Contains(err.Error(), " numbers, ") {
			t.Error(bad, err)
		}
	}
	last, ok := r.ValueAt(99_999)
	if !ok || last != NumberValue(99_999) || last.Number() != 99_999 || last.String() != "99999" || last.IsPort() || !last.IsValid() {
		t.Error(last, ok)
	}
	a := must(NewAllocator(r, DynamicBandFirst, 1))
	for n := range uint32(100_000 - 16) {
		if value, err := a.AllocateNext(); err != nil || value.Number() < 16 {
			t.Fatal(n, value, err)
		}
	}
	if value, err := a.AllocateNext(); err != nil || value.Number() >= 16 {
		t.Error(value, err)
	}
	if err := a.Allocate(PortValue(20)); !errors.Is(err, ErrNotInRange) {
		t.Error(err)
	}
	data := must(a.Snapshot(nil))
	copied := must(NewAllocator(r, Contiguous, 1))
	if err := copied.Restore(r.String(), data); err != nil || copied.Free() != 15 {
		t.Error(err, copied.Free())
	}
	if err := copied.Restore(must(Numbers(100_000, 15)).String(), data); err == nil {
		t.Error("restored from another range")
	}
	if r.Excludes(r) {
		t.Error("a cluster has no range of numbers")
	}
}

func TestOffsets(t *testing.T) {
	r := must(ParseCIDR("192.168.1.0/24"))
	for text, want := range map[string]int{
		"192.168.1.1": 0, "192.168.1.254": 253, "::ffff:192.168.1.2": 1,
		"192.168.1.0": -1, "192.168.1.255": -1, "192.168.2.1": -1, "fd00::1": -1, "fe80::1%eth0": -1,
	} {
		offset, ok := r.OffsetOf(ip(text))
		if ok != (want >= 0) || ok && offset != uint32(want) {
			t.Errorf("%s: %d, %v", text, offset, ok)
		}
	}
	if _, ok := r.OffsetOf(Value{}); ok {
		t.Error("the zero Value is in range")
	}
	if _, ok := r.ValueAt(254); ok {
		t.Error("there is a value past the end")
	}
	v6 := must(ParseCIDR("fd00::/64"))
	for offset := uint32(0); offset < v6.Size(); offset += 4099 {
		addr, ok := v6.ValueAt(offset)
		if back, in := v6.OffsetOf(addr); !ok || !in || back != offset {
			t.Errorf("offset %d: %v, back %d", offset, addr, back)
		}
	}
}

func TestExcludes(t *testing.T) {
	all := []Range{must(ParseCIDR("10.0.0.0/24")), must(ParseCIDR("fd00::/108")), must(ParsePortRange("30000-32767")), {}}
	for i, one := range all {
		for j, other := range append(all, must(ParseCIDR("192.168.0.0/16"))) {
			want := i == j && i < 3 || i == 0 && j == 4
			if one.Excludes(other) != want {
				t.Errorf("%s and %s: %v", one, other, !want)
			}
		}
	}
}

func TestZeroRange(t *testing.T) {
	var r Range
	_, of := r.OffsetOf(PortValue(1))
	_, at := r.ValueAt(0)
	if r.String() != "" || r.Size() != 0 || r.StaticBand() != 0 || of || at {
		t.Error("the zero range has something in it")
	}
	if _, err := NewAllocator(r, RandomScan, 0); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := NewLeakCounters(r, 3); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestParseValue(t *testing.T) {
	for text, want := range map[string]string{"010.001.2.3": "10.1.2.3", "::ffff:1.2.3.4": "1.2.3.4", "fd00::0": "fd00::", "080": "80", "65535": "65535"} {
		if value, err := ParseValue(text); err != nil || value.String() != want {
			t.Errorf("%s: %v, %v", text, value, err)
		}
	}
	for _, text := range []string{"", "None", "1.2.3", "1.2.3.4 ", "fe80::1%eth0", "65536", "-1", "\xff"} {
		var parse *ParseError
		if _, err := ParseValue(text); !errors.As(err, &parse) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
