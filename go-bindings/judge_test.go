package rangekeeper

import (
	"slices"
	"testing"
	"time"
)

func TestJudgeIPAddress(t *testing.T) {
	const grace = time.Minute
	for _, c := range []struct {
		managed   bool
		owner     Parent
		unusedFor time.Duration
		verdict   IPAddressVerdict
		wait      time.Duration
	}{
		{true, ParentUses, grace, IPAddressKeep, 0},
		{false, ParentMissing, grace, IPAddressKeep, 0},
		{true, ParentNoService, 0, IPAddressNoService, 0},
		{true, ParentMissing, 20 * time.Second, IPAddressWait, 40 * time.Second},
		{true, ParentOther, -time.Second, IPAddressWait, grace},
		{true, ParentMissing, grace, IPAddressLeaked, 0},
		{true, ParentOther, grace, IPAddressWrongReference, 0},
	} {
		if verdict, wait := JudgeIPAddress(c.managed, c.owner, c.unusedFor, grace); verdict != c.verdict || wait != c.wait {
			t.Errorf("%+v: %v, %v", c, verdict, wait)
		}
	}
}

func TestJudgeClusterIP(t *testing.T) {
	for verdict, object := range map[ClusterIPVerdict]*AddressObject{
		ClusterIPKeep:    {Managed: true, Labelled: true, RefersHere: true},
		ClusterIPWait:    {Managed: true, Labelled: true, Parent: ParentOther},
		ClusterIPCreate:  nil,
		ClusterIPReshape: {Managed: true, RefersHere: true},
		ClusterIPReplace: {Managed: true, Labelled: true, Parent: ParentMissing},
		ClusterIPTaken:   {Managed: true, Labelled: true, Parent: ParentUses},
	} {
		if got := JudgeClusterIP(object); got != verdict {
			t.Errorf("%+v: %v, want %v", object, got, verdict)
		}
	}
}

func TestChanges(t *testing.T) {
	nodePorts := must(ParsePortRange("30000-32767"))
	before, after := storedOf(nodePorts, ports(30000, 30001)...).Data, storedOf(nodePorts, ports(30001, 30002, 32767)...).Data
	want := []ChangedValue{{PortValue(30000), false}, {PortValue(30002), true}, {PortValue(32767), true}}
	if got := must(nodePorts.Changes(before, after)); !slices.Equal(got, want) {
		t.Error(got)
	}
	if got := must(nodePorts.Changes(after, after)); len(got) != 0 {
		t.Error(got)
	}
	var all []Value
	for port := range 2768 {
		all = append(all, PortValue(uint16(30000+port)))
	}
	if got := must(nodePorts.Changes(nil, storedOf(nodePorts, all...).Data)); len(got) != len(all) || got[2767] != (ChangedValue{PortValue(32767), true}) {
		t.Error(len(got))
	}
	if _, err := must(ParsePortRange("1-8")).Changes(nil, []byte{1, 0}); err == nil {
		t.Error("a snapshot with bits past the range is accepted")
	}
}
