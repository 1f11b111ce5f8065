package rangekeeper

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func TestIPAddressAudit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	audit := must(NewIPAddressAudit(now))
	defer audit.Close()
	for i, cidr := range []string{"10.0.0.0/24", "fd00::/64"} {
		if at := must(audit.AddServiceCIDR(cidr, true)); at != i {
			t.Error(at)
		}
	}
	var parse *ParseError
	if _, err := audit.AddServiceCIDR("nonsense", true); !errors.As(err, &parse) {
		t.Error(err)
	}
	object := func(name, parent string, age time.Duration) *IPAddress {
		return &IPAddress{Name: name, ManagedBy: "ipallocator.k8s.io", Created: now.Add(-age),
			ParentResource: "services", ParentNamespace: "ns", ParentName: parent}
	}
	var objects IPAddresses
	objects.Add(object("10.0.0.1", "one", time.Hour))
	objects.Add(object("10.0.0.2", "gone", time.Hour))
	objects.Add(object("10.0.0.3", "coming", 10*time.Second))
	objects.Add(object("10.0.0.4", "two", time.Hour))
	var services Services
	for name, ip := range map[string]string{"one": "10.0.0.1"} {
		services.Add(ip, []string{ip})
		services.Name("ns", name, time.Time{}, 0)
	}
	services.Add("fd00::2", []string{"fd00::2"})
	services.Name("ns", "two", time.Time{}, 0)
	if err := errors.Join(audit.ObserveIPAddresses(&objects), audit.Observe(&services)); err != nil {
		t.Fatal(err)
	}
	if err := audit.Observe(new(Services)); err != nil {
		t.Error("a batch without Services needs no names:", err)
	}
	services.Add("10.0.0.9", nil)
	if err := audit.Observe(&services); !errors.Is(err, ErrInvalidBatch) {
		t.Error("not all Services have names:", err)
	}
	services.Reset()
	services.Add("10.0.0.9", nil)
	if err := audit.Observe(&services); !errors.Is(err, ErrInvalidArgument) {
		t.Error("no Service has a name:", err)
	}
	report := must(audit.Finish())
	defer report.Close()
	leaks := must(report.Leaks())
	if len(leaks) != 1 || leaks[0] != (Leak{ip("10.0.0.2"), 0, 1, RemedyAPIServer, SeverityWasted, false}) {
		t.Error(leaks)
	}
	findings := must(report.Findings())
	if len(findings) != 2 ||
		findings[0].Reason != ReasonClusterIPNotAllocated || findings[0].Value != "fd00::2" || findings[0].Range != 1 ||
		findings[1].Reason != ReasonIPAddressWrongReference || findings[1].Subject != (Subject{SubjectIPAddress, 3}) {
		t.Errorf("%+v", findings)
	}
	if n := report.Services(); n != 2 {
		t.Error(n)
	}
	if counts := report.Range(0); counts != (RangeReport{
		Record: RecordIPAddresses, StaticBand: 16, Size: 254, Stored: 4, InUse: 1, Leaked: 2, Next: 2, Clear: 2}) {
		t.Errorf("%+v", counts)
	}
	if counts := report.Range(1); counts.Size != 1<<64-1 {
		t.Errorf("%+v", counts)
	}
	state, in := report.State(0, ip("10.0.0.1"))
	if !in || state != (OffsetState{StaticBand: true, Stored: true, InUse: true, Next: true}) {
		t.Error(state, in)
	}
	if _, in := report.State(0, Value{}); in {
		t.Error("the zero Value is in the range")
	}
	if _, in := report.State(2, ip("10.0.0.1")); in || report.Range(2) != (RangeReport{}) {
		t.Error("there is a third range")
	}
	// 10.0.0.3 waits for its Service; 10.0.0.2 and the wrong reference go.
	if cells := must(report.Occupancy(1, math.MaxInt)); len(cells) != 1<<20 {
		t.Errorf("%d cells of a range of 2^64 values", len(cells))
	}
	if cells := must(report.Occupancy(0, 1)); len(cells) != 1 || cells[0] != (Cell{0, 254, 2, 2, 0, 0}) {
		t.Errorf("%+v", cells)
	}
	for cells, want := range map[int]int{0: 0, -1: 0, 1: 1, 253: 127, 254: 254, math.MaxInt: 254, math.MaxInt / 2: 254} {
		if got := must(report.Occupancy(0, cells)); len(got) != want {
			t.Errorf("%d of at most %d cells", len(got), cells)
		}
	}
	var runs []string
	for run := range report.Runs(0, ValuesStored, false) {
		runs = append(runs, fmt.Sprint(run.First, " ", run.Last, " ", run.Len))
	}
	if !slices.Equal(runs, []string{"10.0.0.5 10.0.0.254 250"}) {
		t.Error(runs)
	}
	for run := range report.Runs(1, ValuesStored, false) {
		if run.Len != 1<<64-1 || run.Last.String() != "fd00::ffff:ffff:ffff:ffff" {
			t.Error(run)
		}
	}
}

func TestIPAddressAuditWithoutGrace(t *testing.T) {
	audit := must(NewIPAddressAudit(time.Time{}))
	must(audit.AddServiceCIDR("10.0.0.0/24", true))
	var objects IPAddresses
	objects.Add(&IPAddress{Name: "10.0.0.3", ManagedBy: "ipallocator.k8s.io", Created: time.Now(), ParentResource: "services", ParentName: "x"})
	if err := audit.ObserveIPAddresses(&objects); err != nil {
		t.Fatal(err)
	}
	if leaks := must(must(audit.Finish()).Leaks()); len(leaks) != 1 {
		t.Error(leaks)
	}
}

func TestIPAddressAuditAfterClose(t *testing.T) {
	closed := must(NewIPAddressAudit(time.Time{}))
	closed.Close()
	for _, a := range []*Audit{closed, {}, nil} {
		for _, err := range []error{second(a.AddServiceCIDR("10.0.0.0/24", true)), a.ObserveIPAddresses(new(IPAddresses)), a.Observe(new(Services)), second(a.Finish())} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		a.Close()
	}
	gone := must(must(NewIPAddressAudit(time.Time{})).Finish())
	gone.Close()
	for _, o := range []*Report{gone, {}, nil} {
		for _, err := range []error{second(o.Findings()), second(o.Leaks()), second(o.Occupancy(0, 1))} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		o.Close()
	}
}

// Whole clusters have bitmaps beside their IPAddress objects: of ports, and stale ones of addresses.
func TestIPAddressAuditWithBitmaps(t *testing.T) {
	audit := must(NewIPAddressAudit(time.Time{}))
	defer audit.Close()
	cidr, ports := must(ParseCIDR("10.0.0.0/24")), must(ParsePortRange("30000-30100"))
	must(audit.AddBitmap(cidr, storedOf(cidr, ip("10.0.0.7"))))
	must(audit.AddBitmap(ports, storedOf(ports, PortValue(30001))))
	var services Services
	services.Add("10.0.0.1", nil)
	services.Name("ns", "one", time.Time{}, 0)
	services.AddPort("TCP", 30002)
	if err := audit.Observe(&services); err != nil {
		t.Fatal(err)
	}
	report := must(audit.Finish())
	findings := must(report.Findings())
	if len(findings) != 1 || findings[0].Reason != ReasonPortNotAllocated || findings[0].Range != 1 {
		t.Errorf("%+v", findings)
	}
	if stale := report.Range(0); stale.Record != RecordStale || stale.Stored != 1 || stale.Clear+stale.Set+stale.Leaked != 0 {
		t.Errorf("%+v", stale)
	}
	if leaks := must(report.Leaks()); len(leaks) != 1 || leaks[0] != (Leak{PortValue(30001), 1, -1, RemedyRepair, SeverityWasted, false}) {
		t.Error(leaks)
	}
	next, recorded := must(report.Snapshot(0, ValuesNext, nil)), must(report.Snapshot(0, ValuesStored, nil))
	if !bytes.Equal(next, recorded) || !bytes.Equal(next, storedOf(cidr, ip("10.0.0.7")).Data) {
		t.Errorf("a stale bitmap is repaired: %x, %x", next, recorded)
	}
	if _, err := must(NewAudit()).AddServiceCIDR("10.0.0.0/24", true); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

// TestAloneInBitmap has an address that only a bitmap records: it is cleared once two passes have seen it.
func TestAloneInBitmap(t *testing.T) {
	passes := must(NewLeakTrackerKeepingLeaks(2, 0))
	defer passes.Close()
	r := must(ParseCIDR("10.0.0.0/24"))
	for _, stays := range []bool{true, false} {
		audit := must(passes.NewIPAddressAudit(time.Time{}))
		must(audit.AddBitmap(r, storedOf(r, ip("10.0.0.4"))))
		must(audit.AddServiceCIDR("10.0.0.0/24", true))
		if err := audit.CompareBitmap(0, 9, 0); err != nil {
			t.Fatal(err)
		}
		report := must(audit.Finish())
		if found := must(report.Findings()); len(found) != 1 || found[0].Reason != ReasonBitmapDisagrees || found[0].Stays != stays {
			t.Errorf("stays %v: %+v", stays, found)
		}
		report.Close()
	}
}
