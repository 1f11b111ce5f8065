package rangekeeper

import (
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// stored returns the snapshot of a range in which just these values are in use.
func storedOf(r Range, values ...Value) Stored {
	var bits big.Int
	for _, value := range values {
		offset, ok := r.OffsetOf(value)
		if !ok {
			panic(value)
		}
		bits.SetBit(&bits, int(offset), 1)
	}
	return Stored{Range: r.String(), Data: bits.Bytes()}
}

func collect(values func(func(Value) bool)) (texts []string) {
	for value := range values {
		texts = append(texts, value.String())
	}
	return texts
}

func TestAudit(t *testing.T) {
	addr := ip
	v4, v6 := must(ParseCIDR("10.0.0.0/24")), must(ParseCIDR("fd00::/112"))
	nodePorts := must(ParsePortRange("30000-32767"))
	pass := must(NewAudit())
	defer pass.Close()
	if i := must(pass.AddBitmap(v4, storedOf(v4, addr("10.0.0.1"), addr("10.0.0.9"), addr("10.0.0.10")))); i != 0 {
		t.Error(i)
	}
	if _, err := pass.AddBitmap(v4, Stored{}); !errors.Is(err, ErrSameKind) {
		t.Error(err)
	}
	if i := must(pass.AddBitmap(nodePorts, storedOf(nodePorts, ports(30000, 30001, 30010)...))); i != 1 {
		t.Error(i)
	}
	if i := must(pass.AddBitmap(v6, Stored{})); i != 2 {
		t.Error(i)
	}
	var services Services
	services.Add("10.0.0.1", []string{"10.0.0.1", "fd00::1"}) // fd00::1 is lost
	services.AddPort("TCP", 30000)
	services.Add("None", []string{"None"})
	services.Add("", nil)
	services.Add("10.0.0.1", nil) // a duplicate
	services.AddPort("TCP", 30001)
	services.AddPort("UDP", 30001) // once, as the protocol differs
	services.AddPort("odd", 99)    // out of range
	services.Add("nonsense", nil)
	services.SetHealthCheckNodePort(30005) // lost
	services.Add("10.1.0.1", []string{"10.1.0.1"})
	if services.Len() != 6 {
		t.Error(services.Len())
	}
	if err := pass.Observe(&services); err != nil {
		t.Fatal(err)
	}
	outcome := must(pass.Finish())
	defer outcome.Close()
	want := []struct {
		reason  Reason
		ordinal uint64
		at      int
		value   string
	}{
		{ReasonClusterIPNotAllocated, 0, 2, "fd00::1"},
		{ReasonClusterIPAlreadyAllocated, 3, 0, "10.0.0.1"},
		{ReasonPortOutOfRange, 3, 1, "99"},
		{ReasonClusterIPNotValid, 4, 0, "nonsense"},
		{ReasonPortNotAllocated, 4, 1, "30005"},
		{ReasonClusterIPOutOfRange, 5, 0, "10.1.0.1"},
	}
	findings := must(outcome.Findings())
	if len(findings) != len(want) {
		t.Fatalf("%+v", findings)
	}
	for i, w := range want {
		f := findings[i]
		remedy := RemedyOwner
		if strings.HasSuffix(f.Reason.String(), "NotAllocated") {
			remedy = RemedyRepair
		}
		if f.Reason != w.reason || f.Subject != (Subject{SubjectService, w.ordinal}) || f.Range != w.at || f.Value != w.value ||
			f.Remedy != remedy || !strings.Contains(f.Message, w.value) {
			t.Errorf("%+v, want %+v", f, w)
		}
	}
	if n := outcome.Services(); n != 6 {
		t.Error(n)
	}
	counts := outcome.Range(0)
	if counts != (RangeReport{StaticBand: 16, Size: 254, Stored: 3, InUse: 1, Leaked: 2, Next: 1, Clear: 2, Duplicates: 1}) {
		t.Errorf("%+v", counts)
	}
	for which, values := range map[Values][]string{
		ValuesSet: nil, ValuesClear: {"10.0.0.9", "10.0.0.10"}, ValuesLeaked: {"10.0.0.9", "10.0.0.10"},
		ValuesDuplicates: {"10.0.0.1"}, ValuesStored: {"10.0.0.1", "10.0.0.9", "10.0.0.10"},
		ValuesInUse: {"10.0.0.1"}, ValuesNext: {"10.0.0.1"},
	} {
		if got := collect(outcome.Values(0, which)); !slices.Equal(got, values) {
			t.Errorf("which %d: %v", which, got)
		}
	}
	if got := collect(outcome.Values(1, ValuesSet)); !slices.Equal(got, []string{"30005"}) {
		t.Error(got)
	}
	for run := range outcome.Runs(0, ValuesLeaked, true) {
		if run.First.String() != "10.0.0.9" || run.Last.String() != "10.0.0.10" || run.Len != 2 {
			t.Error(run)
		}
	}
	state, in := outcome.State(0, addr("10.0.0.9"))
	if !in || state != (OffsetState{StaticBand: true, Stored: true}) {
		t.Error(state, in)
	}
	for _, outside := range []Value{addr("10.0.0.0"), PortValue(30000), {}} {
		if _, in := outcome.State(0, outside); in {
			t.Error(outside, "is in the range")
		}
	}
	if got, want := must(outcome.Snapshot(1, ValuesNext, nil)), storedOf(nodePorts, ports(30000, 30001, 30005)...).Data; !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
	cells := must(outcome.Occupancy(0, 10))
	sum := Cell{}
	for _, cell := range cells {
		sum.Len += cell.Len
		sum.InUse += cell.InUse
		sum.Leaked += cell.Leaked
		sum.Lost += cell.Lost
		sum.Duplicate += cell.Duplicate
	}
	if sum != (Cell{Len: 254, InUse: 1, Leaked: 2, Duplicate: 1}) || len(cells) > 10 {
		t.Errorf("%+v", cells)
	}
	for _, err := range []error{pass.Observe(&services), second(pass.AddBitmap(v4, Stored{})), second(pass.Finish())} {
		if !errors.Is(err, ErrClosed) {
			t.Error("after Finish:", err)
		}
	}
	for _, err := range []error{second(outcome.Snapshot(3, ValuesNext, nil)), second(outcome.Occupancy(3, 5))} {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestStoredErrors(t *testing.T) {
	r := must(ParseCIDR("10.0.0.0/24"))
	pass := must(NewAudit())
	defer pass.Close()
	var parse *ParseError
	if _, err := pass.AddBitmap(r, Stored{Range: "10.0.0.0/99"}); !errors.As(err, &parse) || parse.Text != "10.0.0.0/99" {
		t.Error(err)
	}
	var mismatched *MismatchedRangeError
	if _, err := pass.AddBitmap(r, Stored{Range: "1-100"}); !errors.As(err, &mismatched) {
		t.Error(err)
	}
	var past *BitsPastRangeError
	if _, err := pass.AddBitmap(r, Stored{Range: "10.0.0.0/28", Data: []byte{0x80, 0, 0}}); !errors.As(err, &past) || past.Offset != 23 {
		t.Error(err)
	}
	if i := must(pass.AddBitmap(r, Stored{Range: "10.0.0.0/28"})); i != 0 {
		t.Error("a range that was refused has taken an index")
	}
}

func TestPasses(t *testing.T) {
	r := must(ParsePortRange("30000-32767"))
	passes := must(NewLeakTracker(3, 0))
	stored := storedOf(r, PortValue(30005))
	for i, want := range []uint64{1, 1, 0} {
		pass := must(passes.NewAudit())
		must(pass.AddBitmap(r, stored))
		outcome := must(pass.Finish())
		if next := outcome.Range(0).Next; next != want {
			t.Errorf("pass %d: %d values stay", i, next)
		}
		outcome.Close()
	}
	for _, keeping := range []bool{false, true} {
		passes := must(newLeakTracker(1, 0, keeping))
		defer passes.Close()
		pass := must(passes.NewAudit())
		must(pass.AddBitmap(r, stored))
		outcome := must(pass.Finish())
		if leaks := must(outcome.Leaks()); len(leaks) != 1 || leaks[0].Stays != keeping {
			t.Errorf("keeping leaks %v: %+v", keeping, leaks)
		}
		outcome.Close()
	}
	begun := must(passes.NewAudit())
	passes.Close()
	passes.Close()
	if _, err := begun.Finish(); err != nil {
		t.Error("an audit needs its LeakTracker:", err)
	}
	for _, err := range []error{
		second(passes.NewAudit()), second(new(LeakTracker).NewAudit()), second(new(LeakTracker).NewIPAddressAudit(time.Time{})),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := NewLeakTracker(0, time.Second); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestBadBatches(t *testing.T) {
	pass := must(NewAudit())
	defer pass.Close()
	must(pass.AddBitmap(must(ParseCIDR("10.0.0.0/24")), Stored{}))
	var services Services
	services.Add("10.0.0.1", nil)
	services.Add("10.0.0.\xff", nil)
	expectError(t, pass.Observe(&services), ErrInvalidBatch, "invalid batch: Service 1 of the batch has text that is not UTF-8")
	services.Reset()
	services.Add("10.0.0.1", make([]string, 1<<16))
	if err := pass.Observe(&services); !errors.Is(err, ErrInvalidBatch) {
		t.Error(err)
	}
	services.Reset()
	services.Add("10.0.0.1", nil)
	for range 1 << 16 {
		services.AddPort("TCP", 1)
	}
	if err := pass.Observe(&services); !errors.Is(err, ErrInvalidBatch) {
		t.Error(err)
	}
	services.Reset()
	if err := pass.Observe(&services); err != nil {
		t.Error("an empty batch:", err)
	}
	if n := must(pass.Finish()).Services(); n != 0 {
		t.Errorf("%d Services of bad batches count", n)
	}
}

func TestRepairAfterClose(t *testing.T) {
	closed := must(NewAudit())
	closed.Close()
	for _, pass := range []*Audit{closed, {}, nil} {
		fill := func(*Services, int, int) {}
		for _, err := range []error{pass.Observe(new(Services)), pass.ObserveAll(0, fill), second(pass.AddBitmap(must(ParsePortRange("1-2")), Stored{})), second(pass.Finish())} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		pass.Close()
	}
	gone := must(must(NewAudit()).Finish())
	gone.Close()
	for _, o := range []*Report{gone, {}, nil} {
		if state, in := o.State(0, Value{}); in || state != (OffsetState{}) || o.Services() != 0 || o.Range(0) != (RangeReport{}) {
			t.Error("a getter of a closed report returns something else than zero")
		}
		for _, err := range []error{second(o.Findings()), second(o.Snapshot(0, ValuesNext, nil)), second(o.Occupancy(0, 1))} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		for range o.Values(0, ValuesNext) {
			t.Error("a closed outcome has values")
		}
		o.Close()
	}
}

// A pass over 65,000 Services crosses the border a handful of times.
func TestRepairCrossings(t *testing.T) {
	ips := serviceIPs(65000)
	r := must(ParseCIDR("10.96.0.0/12"))
	var outcome *Report
	var snapshot []byte
	fewest := int64(math.MaxInt64)
	// The cleanups of what earlier tests left cross, too, whenever the collector comes to them.
	for range 10 {
		before := runtime.NumCgoCall()
		pass := must(NewAudit())
		must(pass.AddBitmap(r, Stored{}))
		var services Services
		for _, own := range ips {
			services.Add(own[0], own)
		}
		if err := pass.Observe(&services); err != nil {
			t.Fatal(err)
		}
		outcome = must(pass.Finish())
		snapshot = must(outcome.Snapshot(0, ValuesNext, nil))
		fewest = min(fewest, runtime.NumCgoCall()-before)
	}
	if fewest > 12 {
		t.Errorf("%d crossings", fewest)
	}
	var want big.Int
	for _, own := range ips {
		offset, _ := r.OffsetOf(ip(own[0]))
		want.SetBit(&want, int(offset), 1)
	}
	if !slices.Equal(snapshot, want.Bytes()) {
		t.Error("the snapshot is not that of the Services")
	}
	fewest = math.MaxInt64
	for range 5 {
		before := runtime.NumCgoCall()
		findings := must(outcome.Findings())
		fewest = min(fewest, runtime.NumCgoCall()-before)
		if len(findings) != len(ips) {
			t.Fatal(len(findings))
		}
		for i, finding := range findings {
			if !strings.Contains(finding.Message, finding.Value) || finding.Value != ips[i][0] {
				t.Fatalf("%d: %+v, %v", i, finding, ips[i])
			}
		}
	}
	if fewest > int64(len(ips)/40) {
		t.Errorf("%d crossings for %d findings", fewest, len(ips))
	}
}

// ObserveAll comes to what batches one after the other come to; the first fault ends it.
func TestObserveAll(t *testing.T) {
	r := must(ParseCIDR("10.96.0.0/12"))
	for _, n := range []int{0, 1, servicesPerBatch - 1, servicesPerBatch, servicesPerBatch + 1, 3*servicesPerBatch + 5} {
		ips := serviceIPs(n + 1)
		one := func(batch *Services, from, to int) {
			for _, own := range ips[from:to] {
				batch.Add(own[0], own)
			}
		}
		run := func(observe func(pass *Audit) error) ([]byte, []Finding) {
			pass := must(NewAudit())
			must(pass.AddBitmap(r, Stored{}))
			if err := observe(pass); err != nil {
				t.Fatal(err)
			}
			outcome := must(pass.Finish())
			defer outcome.Close()
			return must(outcome.Snapshot(0, ValuesNext, nil)), must(outcome.Findings())
		}
		got, found := run(func(pass *Audit) error { return pass.ObserveAll(n, one) })
		want, expected := run(func(pass *Audit) error {
			var batch Services
			one(&batch, 0, n)
			return pass.Observe(&batch)
		})
		if !slices.Equal(got, want) || !reflect.DeepEqual(found, expected) || len(found) != n {
			t.Errorf("%d Services: %d findings, %d expected", n, len(found), len(expected))
		}

		pass := must(NewAudit())
		filled := 0
		err := pass.ObserveAll(n+1, func(batch *Services, from, to int) {
			one(batch, from, to)
			if to == n+1 {
				batch.Add("10.96.0.1", nil)
			}
			filled += to - from
		})
		if !errors.Is(err, ErrInvalidBatch) || filled != n+1 {
			t.Errorf("one too many of %d: %v after %d", n+1, err, filled)
		}
		pass.Close()
		if err := pass.ObserveAll(n+1, one); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	pass := must(NewAudit())
	defer func() {
		if recover() != "filling" {
			t.Error("a panic was lost")
		}
		// The pass goes on.
		if err := pass.ObserveAll(1, func(batch *Services, _, _ int) { batch.Add("", nil) }); err != nil {
			t.Error(err)
		}
	}()
	_ = pass.ObserveAll(1, func(*Services, int, int) { panic("filling") })
}

func TestReasons(t *testing.T) {
	type row struct {
		name     string
		severity Severity
	}
	for reason, want := range map[Reason]row{
		0:                               {"Unknown", 0},
		ReasonClusterIPNotValid:         {"ClusterIPNotValid", SeverityBreaksTraffic},
		ReasonClusterIPNotAllocated:     {"ClusterIPNotAllocated", SeverityDuplicateRisk},
		ReasonClusterIPAlreadyAllocated: {"ClusterIPAlreadyAllocated", SeverityBreaksTraffic},
		ReasonClusterIPOutOfRange:       {"ClusterIPOutOfRange", SeverityBreaksTraffic},
		ReasonServiceCIDRFull:           {"ServiceCIDRFull", SeverityBreaksTraffic},
		ReasonIPAddressNotAllocated:     {"IPAddressNotAllocated", SeverityWasted},
		ReasonIPAddressWrongReference:   {"IPAddressWrongReference", SeverityWasted},
		ReasonPortNotAllocated:          {"PortNotAllocated", SeverityDuplicateRisk},
		ReasonPortAlreadyAllocated:      {"PortAlreadyAllocated", SeverityBreaksTraffic},
		ReasonPortOutOfRange:            {"PortOutOfRange", SeverityBreaksTraffic},
		ReasonRangeFull:                 {"RangeFull", SeverityExhausted},
		ReasonRangeNearlyFull:           {"RangeNearlyFull", SeverityExhausted},
	} {
		if got := (row{reason.String(), reason.Severity()}); got != want {
			t.Errorf("%d: %v, want %v", reason, got, want)
		}
	}
}

// TestFindFullRanges looks for ranges of which less than a part is free.
func TestFindFullRanges(t *testing.T) {
	audit := must(NewAudit())
	defer audit.Close()
	must(audit.AddBitmap(must(ParsePortRange("30000-30003")), Stored{Range: "30000-30003", Data: []byte{0b111}}))
	report := must(audit.Finish())
	defer report.Close()
	for percent, want := range map[uint8][]Reason{25: nil, 26: {ReasonRangeNearlyFull}, 100: {ReasonRangeNearlyFull}} {
		if err := report.FindFullRanges(percent); err != nil {
			t.Fatal(err)
		}
		var got []Reason
		for _, f := range must(report.Findings()) {
			got = append(got, f.Reason)
			if f.Subject != (Subject{SubjectRange, 0}) || f.Range != 0 || f.Value != "30000-30003" || f.Remedy != RemedyOwner {
				t.Errorf("%+v", f)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", percent, got, want)
		}
	}
	if err := report.FindFullRanges(101); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

// A Service that was observed before its range was added would not be known to use its port.
func TestRangeAfterServices(t *testing.T) {
	audit := must(NewAudit())
	defer audit.Close()
	var services Services
	services.Add("", nil)
	services.AddPort("TCP", 30001)
	if err := audit.Observe(&services); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Range{must(ParsePortRange("30000-32767")), must(ParseCIDR("10.0.0.0/24"))} {
		if _, err := audit.AddBitmap(r, Stored{}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "after the first Service") {
			t.Error(r, err)
		}
	}
}

// TestRecordRepair records what a repair has done of what the audit found.
func TestRecordRepair(t *testing.T) {
	ports := must(ParsePortRange("30000-30009"))
	finish := func() (*Report, error) {
		audit := must(NewAudit())
		must(audit.AddBitmap(ports, Stored{Range: "30000-30009", Data: []byte{0b11}}))
		var services Services
		for _, port := range []int32{30005, 30006} {
			services.Add("", nil)
			services.AddPort("TCP", port)
		}
		if err := audit.Observe(&services); err != nil {
			return nil, err
		}
		return audit.Finish()
	}
	report := must(finish())
	defer report.Close()
	for _, outside := range []Value{PortValue(29999), AddrValue(netip.MustParseAddr("10.0.0.1")), {}} {
		for _, repaired := range []Repaired{{Set: []Value{outside}}, {Set: []Value{PortValue(30006)}, Cleared: []Value{outside}}} {
			err := report.RecordRepair(0, repaired)
			want := (&ValueError{Value: outside, Range: ports, Err: ErrNotInRange}).Error()
			var of *ValueError
			if !errors.As(err, &of) || of.Value != outside || of.Range != ports || err.Error() != want {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	for _, index := range []int{-1, 1} {
		if err := report.RecordRepair(index, Repaired{}); !errors.Is(err, ErrInvalidArgument) {
			t.Error(index, err)
		}
	}
	if counts := report.Range(0); counts.Set != 2 || counts.Clear != 2 || counts.Next != 2 {
		t.Errorf("%+v", counts)
	}
	if values := collect(report.Values(0, ValuesSet)); !slices.Equal(values, []string{"30005", "30006"}) {
		t.Error(values)
	}
	if leaks := must(report.Leaks()); len(leaks) != 2 || leaks[0].Stays || leaks[1].Stays {
		t.Error(leaks)
	}

	failed := must(finish())
	if err := failed.RecordFailedRepair(0); err != nil || len(must(failed.Findings())) != 2 || failed.Range(0).Set != 0 {
		t.Error(err, must(failed.Findings()))
	}

	if err := report.RecordRepair(0, Repaired{Set: []Value{PortValue(30006)}, Cleared: []Value{PortValue(30001)}}); err != nil {
		t.Fatal(err)
	}
	if counts := report.Range(0); counts.Set != 1 || counts.Clear != 1 || counts.Next != 2 {
		t.Errorf("%+v", counts)
	}
	if values := collect(report.Values(0, ValuesSet)); !slices.Equal(values, []string{"30006"}) {
		t.Error(values)
	}
	if leaks := must(report.Leaks()); len(leaks) != 2 || !leaks[0].Stays || leaks[1].Stays {
		t.Error(leaks)
	}
	if findings := must(report.Findings()); len(findings) != 1 || findings[0].Value != "30006" || findings[0].Remedy != RemedyRepair {
		t.Error(findings)
	}
}

// TestNoServices audits recorded values without any Service.
func TestNoServices(t *testing.T) {
	audit := must(NewAudit())
	must(audit.AddBitmap(must(ParsePortRange("30000-30009")), Stored{Range: "30000-30009", Data: []byte{0b11}}))
	if err := audit.CheckCluster(Bitmaps{ServiceNodePorts: Initialised}, 0, false); err != nil {
		t.Error("leaks are only reported:", err)
	}
	err := audit.CheckCluster(Bitmaps{ServiceNodePorts: Initialised}, 0, true)
	if !errors.Is(err, ErrNoServices) || !strings.Contains(err.Error(), "2 values") {
		t.Error(err)
	}
}

// TestUnreadable audits leaks beside a Service that could not be read.
func TestUnreadable(t *testing.T) {
	audit := must(NewAudit())
	must(audit.AddBitmap(must(ParsePortRange("30000-30009")), Stored{Range: "30000-30009", Data: []byte{0b11}}))
	if err := audit.ObserveUnreadable(SubjectServiceCIDR+1, ""); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if err := audit.ObserveUnreadable(SubjectService, ""); err != nil {
		t.Fatal(err)
	}
	if err := audit.ObserveAll(1, func(batch *Services, _, _ int) { batch.Add("None", nil) }); err != nil {
		t.Fatal(err)
	}
	bitmaps := Bitmaps{ServiceNodePorts: Initialised}
	if err := audit.CheckCluster(bitmaps, 0, true); !errors.Is(err, ErrUnreadableObjects) || !strings.Contains(err.Error(), "1 object cannot be read") {
		t.Error(err)
	}
	if err := audit.CheckCluster(bitmaps, 0, false); err != nil {
		t.Error("leaks are only reported:", err)
	}
	report := must(audit.Finish())
	defer report.Close()
	if leaks := must(report.Leaks()); len(leaks) != 2 || !leaks[0].Stays || !leaks[1].Stays || report.Range(0).Clear != 0 {
		t.Error(leaks)
	}
}

func TestUnseen(t *testing.T) {
	pass := must(NewAudit())
	defer pass.Close()
	if err := pass.WithoutClusterIPRanges(); err != nil {
		t.Fatal(err)
	}
	nodePorts := must(ParsePortRange("30000-30009"))
	if i := must(pass.AddUnseen(nodePorts, ports(30003, 30003, 30005))); i != 0 {
		t.Error(i)
	}
	if _, err := pass.AddUnseen(nodePorts, ports(80)); !errors.Is(err, ErrNotInRange) {
		t.Error(err)
	}
	if _, err := pass.AddUnseen(nodePorts, nil); !errors.Is(err, ErrSameKind) {
		t.Error(err)
	}
	if _, err := pass.AddUnseen(Range{}, nil); err == nil {
		t.Error("the zero Range was added")
	}
	var services Services
	services.Add("10.0.0.1", nil)
	services.AddPort("TCP", 30005)
	services.Add("10.0.0.1", nil)
	services.AddPort("TCP", 80)
	if err := pass.Observe(&services); err != nil {
		t.Fatal(err)
	}
	if _, err := pass.AddUnseen(nodePorts, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	report := must(pass.Finish())
	var found []string
	for _, f := range must(report.Findings()) {
		found = append(found, f.Reason.String()+" "+f.Value)
	}
	if want := []string{"ClusterIPAlreadyAllocated 10.0.0.1", "PortOutOfRange 80"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
	if counts := report.Range(0); counts.Record != RecordUnseen || counts.Stored != 2 || counts.Leaked != 1 || counts.Set != 0 {
		t.Errorf("%+v", counts)
	}
	if leaks := must(report.Leaks()); len(leaks) != 1 || leaks[0].Value != PortValue(30003) || leaks[0].Range != 0 {
		t.Errorf("%+v", leaks)
	}
	pass.Close()
	if err := pass.WithoutClusterIPRanges(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Names and times of the Services are observed only if two Services claim one value.
func TestClaimants(t *testing.T) {
	audit := must(NewAudit())
	must(audit.AddBitmap(must(ParseCIDR("10.0.0.0/24")), Stored{}))
	services := []struct {
		name, address string
		created       time.Time
		revision      uint64
	}{
		{"new", "10.0.0.1", time.Unix(20, 0), 0}, {"unknown", "10.0.0.1", time.Time{}, 0}, {"old", "10.0.0.1", time.Unix(10, 0), 0},
		{"other", "10.0.0.2", time.Unix(1, 0), 0}, {"second", "10.0.0.3", time.Unix(1, 0), 9}, {"third", "10.0.0.3", time.Unix(1, 0), 9},
		{"zero", "10.0.0.3", time.Unix(1, 0), 8},
	}
	fill := func(batch *Services, from, to int) {
		for _, s := range services[from:to] {
			batch.Add(s.address, nil)
			batch.Name("ns", s.name, s.created, s.revision)
		}
	}
	if err := audit.ObserveAll(len(services), fill); err != nil {
		t.Fatal(err)
	}
	report := must(audit.Finish())
	subjects := func() (all []uint64) {
		for _, f := range must(report.Findings()) {
			if f.Reason == ReasonClusterIPAlreadyAllocated {
				all = append(all, f.Subject.Ordinal)
			}
		}
		return all
	}
	if before := subjects(); !slices.Equal(before, []uint64{1, 2, 5, 6}) {
		t.Error(before)
	}
	if err := report.ObserveClaimants(len(services), fill); err != nil {
		t.Fatal(err)
	}
	if after := subjects(); !slices.Equal(after, []uint64{0, 1, 4, 5}) {
		t.Error(after)
	}
	for _, f := range must(report.Findings()) {
		var want []Claimant
		switch {
		case f.Reason != ReasonClusterIPAlreadyAllocated:
		case f.Value == "10.0.0.3":
			want = []Claimant{{6, true, false}, {4, false, false}, {5, false, false}}
		default:
			want = []Claimant{{2, true, false}, {0, false, false}, {1, false, false}}
		}
		if !slices.Equal(f.Claimants, want) {
			t.Errorf("%+v", f)
		}
		for _, other := range must(report.Findings()) {
			if len(want) > 0 && f.Value == other.Value && f.Reason == other.Reason && len(other.Claimants) != len(want) {
				t.Errorf("%+v and %+v", f, other)
			}
		}
	}
	expectError(t, report.ObserveClaimants(1, fill), ErrInvalidArgument,
		"invalid argument: the audit has observed 7 Services, and all of them were observed a second time")
}
