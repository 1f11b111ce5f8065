package rangekeeper

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func expectError(t *testing.T, err, is error, text string) {
	t.Helper()
	if !errors.Is(err, is) || err.Error() != text {
		t.Errorf("%v, want %q", err, text)
	}
}

// TestParsersSpeakOfTheirForm hands each parser texts of the other form.
func TestParsersSpeakOfTheirForm(t *testing.T) {
	for _, text := range []string{"", "30000-32767", "10.0.0.1"} {
		if _, err := ParseCIDR(text); err == nil || !strings.HasPrefix(err.Error(), "CIDR ") || strings.Contains(err.Error(), "port") {
			t.Errorf("ParseCIDR(%q): %v", text, err)
		}
	}
	for _, text := range []string{"", "10.0.0.1", "10.0.0.0/24", "fd00::/64"} {
		if _, err := ParsePortRange(text); err == nil || !strings.HasPrefix(err.Error(), "port range ") || strings.Contains(err.Error(), "CIDR") {
			t.Errorf("ParsePortRange(%q): %v", text, err)
		}
	}
}

// TestErrorsNameTheArgument makes each error of a bad argument.
func TestErrorsNameTheArgument(t *testing.T) {
	ports := must(ParsePortRange("1-9"))
	const strategies = " is unknown: it is contiguous, random scan or dynamic band first"
	const passes = "invalid argument: passes 0 is less than 1: a leak is cleaned in the first pass that sees it, or later"
	invalid := func(err error, text string) {
		t.Helper()
		expectError(t, err, ErrInvalidArgument, "invalid argument: "+text)
	}
	invalid(second(NewAllocator(ports, 9, 0)), "strategy 9"+strategies)
	invalid(second(NewCommitter(ports, CommitterConfig{Strategy: 255})), "strategy 255"+strategies)
	expectError(t, second(NewLeakCounters(ports, 0)), ErrInvalidArgument, passes)
	expectError(t, second(NewLeakTracker(0, time.Minute)), ErrInvalidArgument, passes)
	const zeroRange = "use of a closed or zero object: the Range is the zero value"
	expectError(t, second(NewAllocator(Range{}, Contiguous, 0)), ErrClosed, zeroRange)
	expectError(t, second(NewCommitter(Range{}, CommitterConfig{})), ErrClosed, zeroRange)
	expectError(t, second(NewLeakCounters(Range{}, 3)), ErrClosed, zeroRange)
	expectError(t, second(must(NewAudit()).AddBitmap(Range{}, Stored{})), ErrClosed, zeroRange)
	expectError(t, second(Range{}.Changes(nil, nil)), ErrClosed, zeroRange)
	expectError(t, second(must(must(NewLeakTracker(2, 0)).Start()).Finish(nil)), ErrClosed, "use of a closed or zero object")

	audit := must(NewIPAddressAudit(time.Time{}))
	invalid(audit.CheckCluster(Bitmaps{ServiceNodePorts: 7}, 0, true),
		"service_node_ports 7 is none of RK_PRESENCE_*")
	var services Services
	services.Add("10.0.0.1", nil)
	invalid(audit.Observe(&services), "names are missing: where ClusterIPs are IPAddress objects, Services need them")
	services.Name("default", "a", time.Time{}, 0)
	services.Add("10.0.0.2", nil)
	expectError(t, audit.Observe(&services), ErrInvalidBatch,
		"invalid batch: the batch has another number of names (1) than of Services (2)")
	var objects IPAddresses
	objects.Add(&IPAddress{Name: "10.0.0.1"})
	objects.Add(&IPAddress{Name: "10.0.0.2", ParentName: "\xff"})
	expectError(t, audit.ObserveIPAddresses(&objects), ErrInvalidBatch,
		"invalid batch: IPAddress object 1 of the batch has text that is not UTF-8")
	objects.Reset()
	objects.Add(&IPAddress{Name: "10.0.0.1"})
	invalid(must(NewAudit()).ObserveIPAddresses(&objects), "the audit is of ClusterIPs in bitmaps, not of IPAddress objects")

	for call, early := range map[string]func(*Services){
		"AddPort":                func(s *Services) { s.AddPort("TCP", 30000) },
		"SetHealthCheckNodePort": func(s *Services) { s.SetHealthCheckNodePort(30000) },
		"Name":                   func(s *Services) { s.Name("default", "a", time.Time{}, 0) },
	} {
		var batch Services
		early(&batch)
		batch.Add("10.0.0.1", nil)
		expectError(t, must(NewAudit()).Observe(&batch), ErrInvalidBatch, "invalid batch: "+call+" was called before Add")
		batch.Reset()
		if err := must(NewAudit()).Observe(&batch); err != nil {
			t.Error(err)
		}
	}

	for text, fill := range map[string]func(*Services){
		"Name was called twice for the Service at index 0 of the batch": func(s *Services) {
			s.Add("10.0.0.1", nil)
			s.Name("default", "a", time.Time{}, 0)
			s.Name("default", "a2", time.Time{}, 0)
			s.Add("10.0.0.2", nil)
		},
		"Name was not called for the Service at index 0 of the batch": func(s *Services) {
			s.Add("10.0.0.1", nil)
			s.Add("10.0.0.2", nil)
			s.Name("default", "b", time.Time{}, 0)
			s.Name("default", "b2", time.Time{}, 0)
		},
	} {
		var batch Services
		fill(&batch)
		expectError(t, must(NewIPAddressAudit(time.Time{})).Observe(&batch), ErrInvalidBatch, "invalid batch: "+text)
	}

	committer := must(NewCommitter(ports, CommitterConfig{}))
	invalid(second(committer.Submit(Operation{})), "operation 0 is of an unknown kind: 0")
	cidr := must(ParseCIDR("fd00::/120"))
	const none = "no value was given for the range fd00::/120"
	c, k := must(NewCommitter(cidr, CommitterConfig{})), &memoryKey{}
	one(t, k, c, CreateOperation(NoDeadline))
	failed := errOf(one(t, k, c, AllocateOperation(NoDeadline, Named(Value{}))))
	expectError(t, failed, ErrNotInRange, "request 0: "+none)
	var of *ValueError
	if !errors.As(failed, &of) || of.Value != (Value{}) {
		t.Errorf("%+v", of)
	}
	if released := one(t, k, c, ReleaseOperation(NoDeadline, Value{}, OwnedSince(1))); released.Outcome != (Released{}) {
		t.Errorf("%+v", released)
	}
	allocator := must(NewAllocator(cidr, Contiguous, 0))
	expectError(t, allocator.Allocate(Value{}), ErrNotInRange, none)
	expectError(t, second(allocator.AllocateBatch([]Request{Named(Value{})})), ErrNotInRange, "request 0: "+none)
	expectError(t, second(must(NewLeakCounters(cidr, 1)).Advance([]Value{{}})), ErrNotInRange, none)

	object := must(DecodeRangeAllocation([]byte(`{"kind":"RangeAllocation","apiVersion":"v1","range":"","data":""}`)))
	expectError(t, object.Set("\xff", nil), ErrInvalidUTF8, "text is not UTF-8: range is not UTF-8 at byte 0")
	expectError(t, must(NewAllocator(ports, Contiguous, 0)).Restore("1-9\xff", nil), ErrInvalidUTF8,
		"text is not UTF-8: range is not UTF-8 at byte 3")
}

// TestParseInvalidUTF8 has each parser read a text that is not UTF-8.
func TestParseInvalidUTF8(t *testing.T) {
	const text = "10.0.0.0/\xff"
	cidr, objects := must(ParseCIDR("10.0.0.0/24")), must(NewIPAddressAudit(time.Time{}))
	for call, err := range map[string]error{
		"ParseCIDR":        second(ParseCIDR(text)),
		"ParsePortRange":   second(ParsePortRange(text)),
		"ParseServiceCIDR": second(ParseServiceCIDR(text)),
		"AddBitmap":        second(must(NewAudit()).AddBitmap(cidr, Stored{Range: text})),
		"AddServiceCIDR":   second(objects.AddServiceCIDR(text, true)),
	} {
		var parse *ParseError
		if !errors.As(err, &parse) || parse.Text != text || err.Error() != `"10.0.0.0/\xff" is not UTF-8 at byte 9` {
			t.Errorf("%s: %v", call, err)
		}
	}
}
