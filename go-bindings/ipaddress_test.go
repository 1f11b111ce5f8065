package rangekeeper

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

func TestIPAddressAudit(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	audit := must(NewIPAddressAudit(now))
	defer audit.Close()
	for i, cidr := range []string{"10.0.0.0/24", "fd00::/64"} {
		if at := must(audit.AddCIDR(cidr)); at != i {
			t.Error(at)
		}
	}
	var parse *ParseError
	if _, err := audit.AddCIDR("nonsense"); !errors.As(err, &parse) {
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
	var names ServiceNames
	var services Services
	for name, ip := range map[string]string{"one": "10.0.0.1"} {
		names.Add("ns", name)
		services.Add(ip, []string{ip})
	}
	names.Add("ns", "two")
	services.Add("fd00::2", []string{"fd00::2"})
	if err := errors.Join(audit.ObserveIPAddresses(&objects), audit.ObserveServices(&names, &services)); err != nil {
		t.Fatal(err)
	}
	if objects.Len() != 4 || names.Len() != 2 {
		t.Error(objects.Len(), names.Len())
	}
	names.Reset()
	if err := audit.ObserveServices(&names, &services); err == nil {
		t.Error("names and Services of different number are accepted")
	}
	outcome := must(audit.Finish())
	defer outcome.Close()
	leaks := must(outcome.Leaks())
	if len(leaks) != 1 || leaks[0] != (AddressLeak{netip.MustParseAddr("10.0.0.2"), 0, 1}) {
		t.Error(leaks)
	}
	findings := must(outcome.Findings())
	if len(findings) != 2 ||
		findings[0].Reason != ReasonClusterIPNotAllocated || findings[0].Value != "fd00::2" || findings[0].Range != 1 ||
		findings[1].Reason != ReasonIPAddressWrongReference || findings[1].Subject != (Subject{SubjectIPAddress, 3}) {
		t.Errorf("%+v", findings)
	}
	if outcome.CIDRs() != 2 || must(outcome.Services()) != 2 {
		t.Error(outcome.CIDRs())
	}
	if counts := must(outcome.CIDR(0)); counts != (CIDRCounts{254, 4, 250, 16}) {
		t.Errorf("%+v", counts)
	}
	if counts := must(outcome.CIDR(1)); counts.Size != 1<<64-1 {
		t.Errorf("%+v", counts)
	}
	state, in, err := outcome.State(0, netip.MustParseAddr("10.0.0.1"))
	if err != nil || !in || state != (OffsetState{StaticBand: true, Stored: true, InUse: true, Next: true}) {
		t.Error(state, in, err)
	}
	if _, in, err := outcome.State(0, netip.Addr{}); in || err != nil {
		t.Error(in, err)
	}
	// 10.0.0.3 waits for its Service; 10.0.0.2 and the wrong reference go.
	if cells := must(outcome.Occupancy(0, 1)); len(cells) != 1 || cells[0] != (Cell{0, 254, 2, 2, 0, 0}) {
		t.Errorf("%+v", cells)
	}
	if _, err := outcome.CIDR(2); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestIPAddressAuditWithoutGrace(t *testing.T) {
	audit := must(NewIPAddressAudit(time.Time{}))
	must(audit.AddCIDR("10.0.0.0/24"))
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
	for _, a := range []*IPAddressAudit{closed, {}, nil} {
		for _, err := range []error{second(a.AddCIDR("10.0.0.0/24")), a.ObserveIPAddresses(new(IPAddresses)), a.ObserveServices(new(ServiceNames), new(Services)), second(a.Finish())} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		a.Close()
	}
	gone := must(must(NewIPAddressAudit(time.Time{})).Finish())
	gone.Close()
	for _, o := range []*IPAddressOutcome{gone, {}, nil} {
		_, _, state := o.State(0, netip.Addr{})
		for _, err := range []error{second(o.Findings()), second(o.Services()), second(o.Leaks()), second(o.CIDR(0)), second(o.Occupancy(0, 1)), state} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		o.Close()
	}
}
