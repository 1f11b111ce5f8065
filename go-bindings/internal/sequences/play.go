package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// sum stands for bytes that may be many.
func sum(b []byte) string { return fmt.Sprint(len(b), crc32.ChecksumIEEE(b)) }

var cidrs = []string{"10.96.0.0/24", "10.0.0.0/20", "fd00::/112", "192.168.1.0/30", "0.0.0.0/31", "fd00:1::/120"}
var ports = []string{"30000-32767", "80", "1-100", "8000+16"}

// someRange returns a range of addresses or ports.
func (s *sequence) someRange() rangekeeper.Range {
	var r rangekeeper.Range
	var err error
	if s.IntN(16) == 0 {
		size := s.IntN(3000)
		r, err = rangekeeper.Numbers(uint32(size), uint32(s.IntN(max(size, 1))))
	} else if s.IntN(4) == 0 {
		r, err = rangekeeper.ParsePortRange(ports[s.IntN(len(ports))])
	} else if s.IntN(100) == 0 {
		r, err = rangekeeper.ParseCIDR("10.96.0.0/12")
	} else {
		r, err = rangekeeper.ParseCIDR(cidrs[s.IntN(len(cidrs))])
	}
	s.answer("range", r, r.Size(), r.StaticBand(), err)
	return r
}

// someValue returns a value that is mostly in the range, and near its beginning.
func (s *sequence) someValue(r rangekeeper.Range) rangekeeper.Value {
	switch s.IntN(12) {
	case 0:
		return rangekeeper.PortValue(uint16(s.Uint32()))
	case 1:
		return rangekeeper.Value{}
	default:
		value, _ := r.ValueAt(s.Uint32N(min(r.Size(), 64) + 1))
		return value
	}
}

func allocations(s *sequence) {
	r := s.someRange()
	a, err := rangekeeper.NewAllocator(r, rangekeeper.Strategy(s.IntN(4)), s.Uint64())
	s.answer("new", err)
	if err != nil {
		return
	}
	defer a.Close()
	var kept []byte
	for range 20 + s.IntN(60) {
		switch s.IntN(12) {
		case 0, 1, 2, 3:
			s.answer("next", fmt.Sprint(a.AllocateNext()))
		case 4, 5:
			s.answer("allocate", a.Allocate(s.someValue(r)))
		case 6, 7:
			s.answer("release", fmt.Sprint(a.Release(s.someValue(r))))
		case 8:
			s.answer("has", a.Has(s.someValue(r)), a.Used(), a.Free())
		case 9:
			requests := make([]rangekeeper.Request, s.IntN(6))
			for i := range requests {
				if s.IntN(2) == 0 {
					requests[i] = rangekeeper.Named(s.someValue(r))
				}
			}
			s.answer("batch", fmt.Sprint(a.AllocateBatch(requests)))
		case 10:
			before := kept
			kept, err = a.Snapshot(nil)
			s.answer("snapshot", sum(kept), err)
			changes, err := r.Changes(before, kept)
			s.answer("changes", len(changes), changes[:min(len(changes), 100)], err)
			s.answer("excludes", r.Excludes(r), r.Excludes(rangekeeper.Range{}), rangekeeper.ClusterIPRecordsOf(s.IntN(2), rangekeeper.Presence(s.IntN(5))),
				rangekeeper.StoreContentOf(s.IntN(2), s.IntN(2), s.IntN(2)))
		case 11:
			if s.IntN(8) == 0 {
				kept = append([]byte{byte(s.Uint32())}, kept...)
			}
			dry, err := a.DryRun()
			s.answer("dry run", err)
			s.answer("restore", dry.Restore(r.String(), kept), dry.Used())
			s.answer("restore of another range", dry.Restore("10.0.0.0/8", kept))
			s.answer("dry", fmt.Sprint(dry.AllocateNext()))
			dry.Close()
		}
	}
	for value := range a.All() {
		s.answer("in use", value)
	}
	a.Close()
	s.answer("closed", a.Allocate(s.someValue(r)), a.Used())
}

func (s *sequence) someAddr() netip.Addr {
	if s.IntN(3) == 0 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(s.IntN(40)), 14: byte(s.IntN(2))})
	}
	return netip.AddrFrom4([4]byte{10, byte(s.IntN(2)), 0, byte(s.IntN(40))})
}

func indexes(s *sequence) {
	x, err := rangekeeper.NewIndex(s.Uint64())
	s.answer("new", err)
	defer x.Close()
	var all []rangekeeper.ServiceCIDR
	// The bitmap of a /8 is 2 MiB, which takes milliseconds.
	wide := "10.0.0.0/16"
	if s.IntN(100) == 0 {
		wide = "10.0.0.0/8"
	}
	for _, text := range []string{"10.0.0.0/24", "10.1.0.0/27", "fd00::/64", wide, "10.0.0.0/33"} {
		cidr, err := rangekeeper.ParseServiceCIDR(text)
		s.answer("cidr", cidr.Size(), cidr.StaticBand(), err)
		all = append(all, cidr)
	}
	var now time.Duration
	var revision uint64
	var reserved []rangekeeper.Reservation
	keep := func(r rangekeeper.Reservation, err error) {
		s.answer("reserved", r.Addr, err)
		if err == nil {
			reserved = append(reserved, r)
		}
	}
	for range 20 + s.IntN(60) {
		now += time.Duration(s.IntN(1000))
		revision += s.Uint64N(3)
		cidr := all[s.IntN(len(all))]
		one := rangekeeper.Reservation{Addr: s.someAddr()} // of no index
		if len(reserved) > 0 && s.IntN(5) > 0 {
			one = reserved[s.IntN(len(reserved))]
		}
		switch s.IntN(14) {
		case 0, 1:
			s.answer("insert", fmt.Sprint(x.InsertCIDR(cidr)))
		case 2:
			s.answer("remove", fmt.Sprint(x.RemoveCIDR(cidr)))
		case 3, 4, 5:
			keep(x.Reserve(all[:s.IntN(5)], now+5000))
		case 6:
			keep(x.ReserveAddr(s.someAddr(), now+5000))
		case 7:
			s.answer("confirm", x.Confirm(one, revision))
		case 8:
			s.answer("created", x.Created(s.someAddr(), revision))
		case 9:
			s.answer("abort", x.Abort(one), x.AlreadyExists(one))
		case 10:
			s.answer("expire", fmt.Sprint(x.Expire(now)))
		case 11:
			s.answer("added", x.Added(s.someAddr(), revision), x.Removed(s.someAddr(), revision))
		case 12:
			addrs := make([]netip.Addr, s.IntN(30))
			for i := range addrs {
				addrs[i] = s.someAddr()
			}
			s.answer("replace", fmt.Sprint(x.Replace(addrs, revision)))
		case 13:
			used, free := x.Usage(cidr)
			offset, in := cidr.OffsetOf(s.someAddr())
			addr, ok := cidr.ValueAt(s.Uint64N(300))
			s.answer("usage", used, free, x.IsTaken(s.someAddr()), offset, in, addr, ok)
		}
	}
}

func leaks(s *sequence) {
	r := s.someRange()
	c, err := rangekeeper.NewLeakCounters(r, uint8(s.IntN(5)))
	s.answer("new", err)
	if err != nil {
		return
	}
	defer c.Close()
	for range 10 + s.IntN(10) {
		leaked := make([]rangekeeper.Value, s.IntN(10))
		for i := range leaked {
			leaked[i], _ = r.ValueAt(s.Uint32N(min(r.Size(), 12) + 1))
		}
		if s.IntN(10) == 0 {
			leaked = append(leaked, s.someValue(r))
		}
		s.answer("due", fmt.Sprint(c.Advance(leaked)))
		s.answer("count", c.Count(s.someValue(r)))
	}
}

// someText returns a ClusterIP as Services have it.
func (s *sequence) someText() string {
	switch s.IntN(12) {
	case 0:
		return "None"
	case 1:
		return ""
	case 2:
		return "10.96.0.01" + string([]byte{byte(s.Uint32())})
	default:
		return fmt.Sprintf("10.96.%d.%d", s.IntN(2), s.IntN(30))
	}
}

func audits(s *sequence) {
	create := rangekeeper.NewLeakTracker
	if s.IntN(3) == 0 {
		create = rangekeeper.NewLeakTrackerKeepingLeaks
	}
	passes, err := create(uint8(1+s.IntN(3)), time.Minute)
	s.answer("passes", err)
	defer passes.Close()
	for range 1 + s.IntN(3) {
		s.audit(passes)
	}
}

func (s *sequence) audit(passes *rangekeeper.LeakTracker) {
	created := time.Unix(1_700_000_000, 0)
	objects, counts := s.IntN(2) == 0, s.IntN(3) > 0
	now := created.Add(time.Minute)
	var audit *rangekeeper.Audit
	var err error
	switch {
	case objects && counts:
		audit, err = passes.NewIPAddressAudit(now)
	case objects:
		audit, err = rangekeeper.NewIPAddressAudit(now)
	case counts:
		audit, err = passes.NewAudit()
	default:
		audit, err = rangekeeper.NewAudit()
	}
	s.answer("audit", err)
	defer audit.Close()
	bitmap := make([]byte, s.IntN(4))
	for i := range bitmap {
		bitmap[i] = byte(s.Uint32())
	}
	addresses, _ := rangekeeper.ParseCIDR("10.96.0.0/24")
	nodePorts, _ := rangekeeper.ParsePortRange("30000-30063")
	if objects {
		s.answer("add", fmt.Sprint(audit.AddServiceCIDR("10.96.0.0/24", true)))
		var batch rangekeeper.IPAddresses
		for range s.IntN(12) {
			batch.Add(&rangekeeper.IPAddress{
				Name: s.someText(), ManagedBy: "ipallocator.k8s.io", Created: created, Revision: s.Uint64N(50),
				ParentResource: "services", ParentNamespace: "ns", ParentName: fmt.Sprint("service", s.IntN(20)),
			})
		}
		s.answer("objects", audit.ObserveIPAddresses(&batch))
	} else if s.IntN(4) > 0 {
		s.answer("add", fmt.Sprint(audit.AddBitmap(addresses, rangekeeper.Stored{Range: "10.96.0.0/24", Data: bitmap})))
	} else {
		s.answer("add", fmt.Sprint(audit.AddUnseen(addresses, nil)))
	}
	s.answer("add", fmt.Sprint(audit.AddBitmap(nodePorts, rangekeeper.Stored{Range: "30000-30063", Data: bitmap})))
	s.answer("add", fmt.Sprint(audit.AddBitmap(nodePorts, rangekeeper.Stored{})))
	seed := s.Uint64()
	services := 1 + s.IntN(30)
	if s.IntN(400) == 0 {
		services = 9000
	}
	fill := func(batch *rangekeeper.Services, from, to int) {
		for i := from; i < to; i++ {
			one := &sequence{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
			address := one.someText()
			batch.Add(address, []string{address}[:one.IntN(2)])
			for range one.IntN(3) {
				batch.AddPort([]string{"TCP", "UDP", "SCTP", "HTTP"}[one.IntN(4)], int32(29990+one.IntN(80)))
			}
			if one.IntN(8) == 0 {
				batch.SetHealthCheckNodePort(int32(30000 + one.IntN(70)))
			}
			batch.Name("ns", fmt.Sprint("service", i), created.Add(-time.Duration(one.IntN(9))*time.Second), uint64(one.IntN(3)))
		}
	}
	err = audit.ObserveAll(services, fill)
	s.answer("services", err)
	var batch rangekeeper.Services
	fill(&batch, 0, services)
	claims, err := batch.Claims()
	s.answer("claims", sum(fmt.Append(nil, claims)), err)
	var values []rangekeeper.Value
	for _, claim := range claims {
		if claim.Value.IsValid() {
			values = append(values, claim.Value)
		}
	}
	s.answer("ranges", fmt.Sprint(rangekeeper.JudgeRanges([]string{"10.0.0.0/24"}, []string{"10.0.0.0/26"}, []string{"30000-30069"}, values)))
	if s.IntN(4) == 0 {
		s.answer("unreadable", audit.ObserveUnreadable(rangekeeper.SubjectKind(s.IntN(4)), fmt.Sprint("10.0.0.", s.IntN(64))))
	}
	// The message has the index, which 32 bits do not hold.
	s.answer("far", errors.Is(audit.CompareBitmap(s.farIndex(), s.Uint64(), s.Uint64()), rangekeeper.ErrInvalidArgument))
	s.answer("cluster", audit.CheckCluster(rangekeeper.Bitmaps{ServiceIPs: rangekeeper.Presence(s.IntN(3)), ServiceNodePorts: rangekeeper.Initialised}, uint64(s.IntN(2)), s.IntN(2) == 0))
	report, err := audit.Finish()
	s.answer("finish", err)
	if err != nil {
		return
	}
	defer report.Close()
	if s.IntN(2) == 0 {
		s.answer("warn free", report.FindFullRanges(uint8(s.IntN(120))))
	}
	forms := make([]rangekeeper.ServiceForm, services+s.IntN(8)/7)
	for i := range forms {
		forms[i] = rangekeeper.ServiceForm{
			NodePort: s.IntN(3) == 0, LoadBalancer: s.IntN(3) == 0, OneAddress: s.IntN(2) == 0, TwoAddresses: s.IntN(4) == 0, LacksNodePort: s.IntN(2) == 0,
			RequiresDualStack: s.IntN(3) == 0, Local: s.IntN(3) == 0,
		}
	}
	s.answer("forms", report.ObserveForms(forms))
	for round := range 2 {
		s.answer("findings", fmt.Sprint(report.Findings()))
		s.answer("leaks", fmt.Sprint(report.Leaks()))
		s.answer("objects", fmt.Sprint(report.ObjectRepairs()))
		for _, i := range []int{0, 1, 2, s.farIndex()} {
			s.answer("range", report.Services(), report.Range(i))
			for set := rangekeeper.ValuesSet; set <= rangekeeper.ValuesNext; set++ {
				for run := range report.Runs(i, set, true) {
					s.answer("run", set, run)
				}
			}
			s.answer("occupancy", fmt.Sprint(report.Occupancy(i, s.IntN(9))))
			snapshot, err := report.Snapshot(i, rangekeeper.ValuesNext, nil)
			s.answer("snapshot", sum(snapshot), err)
			value := s.someValue(addresses)
			state, ok := report.State(i, value)
			s.answer("state", value, state, ok)
		}
		if round == 0 && services < 100 {
			s.answer("claimants", report.ObserveClaimants(services, fill))
		}
	}
}

// farIndex returns an index that no list has. Its low 32 bits are those of a place.
func (s *sequence) farIndex() int {
	return int(int64(1+s.IntN(1<<20))<<32|int64(s.IntN(3))) * (1 - 2*s.IntN(2))
}

// commits plays a committer against a key in memory that others change, too.
func commits(s *sequence) {
	r := s.someRange()
	c, err := rangekeeper.NewCommitter(r, rangekeeper.CommitterConfig{
		Strategy: rangekeeper.Strategy(s.IntN(3)), Grace: time.Minute, Seed: s.Uint64(),
	})
	s.answer("new", err)
	if err != nil {
		return
	}
	defer c.Close()
	var now time.Duration
	var key rangekeeper.KeyState
	var value []byte
	var changes []rangekeeper.Change
	revision := int64(1)
	put := func(next []byte) {
		revision++
		if key.Version == 0 {
			key.CreateRevision = revision
		}
		key.ModRevision, key.Version, value = revision, key.Version+1, bytes.Clone(next)
		changes = append(changes, rangekeeper.Change{Key: key, Value: value})
	}
	for range 20 + s.IntN(40) {
		now += time.Duration(s.IntN(5)) * time.Millisecond
		var operations []rangekeeper.Operation
		for range s.IntN(4) {
			deadline := now + time.Duration(s.IntN(100))*time.Millisecond
			switch s.IntN(6) {
			case 0, 1:
				operations = append(operations, rangekeeper.AllocateOperation(deadline, make([]rangekeeper.Request, 1+s.IntN(3))...))
			case 2:
				operations = append(operations, rangekeeper.AllocateOperation(rangekeeper.NoDeadline, rangekeeper.Named(s.someValue(r))))
			case 3:
				operations = append(operations, rangekeeper.ReleaseOperation(deadline, s.someValue(r), rangekeeper.OwnedSince(revision-int64(s.IntN(3)))))
			case 4:
				operations = append(operations, rangekeeper.ReadOperation(deadline))
			case 5:
				operations = append(operations, rangekeeper.CreateOperation(deadline))
			}
		}
		tickets, err := c.Submit(operations...)
		s.answer("submit", tickets, err)
		if len(tickets) > 0 && s.IntN(8) == 0 {
			s.answer("cancel", c.Cancel(tickets[0]))
		}
		if s.IntN(4) == 0 {
			ticket, err := c.SubmitEdit(now+time.Duration(s.IntN(200))*time.Millisecond, s.edit(r, revision))
			s.answer("edit", ticket, err)
		}
		if s.IntN(20) == 0 && len(value) > 0 {
			put(value)
		}
		for range 1 + s.IntN(6) {
			step, err := c.Poll(now)
			for i, finished := range step.Finished {
				if state, ok := finished.Outcome.(rangekeeper.View); ok {
					state.Snapshot = []byte(sum(state.Snapshot))
					step.Finished[i].Outcome = state
				}
			}
			s.answer("step", fmt.Sprintf("%+v", step), err, c.Known())
			answer := rangekeeper.Answer{ClusterID: 1, RaftTerm: 2}
			switch step.Kind {
			case rangekeeper.StepWait:
				now = min(step.Until, now+time.Second)
				continue
			case rangekeeper.StepWatch:
				for i := range changes {
					if changes[i].Key.ModRevision >= step.WatchFrom {
						s.answer("watched", c.Watched(now, changes[i:]...))
						break
					}
				}
				continue
			case rangekeeper.StepReadAt:
				past := -1
				for i := range changes {
					if changes[i].Key.ModRevision <= step.At {
						past = i
					}
				}
				if answer.Revision = revision; past < 0 || s.IntN(4) == 0 {
					s.answer("compacted", c.Compacted(now))
				} else {
					answer.Key, answer.Value = changes[past].Key, changes[past].Value
					s.answer("past", c.Past(now, answer))
				}
				continue
			case rangekeeper.StepSwap, rangekeeper.StepConfirm, rangekeeper.StepRead:
			default:
				for _, finished := range step.Finished {
					if allocated, ok := finished.Outcome.(rangekeeper.Allocated); ok && s.IntN(6) == 0 {
						s.answer("abandon", c.Abandon(allocated))
					}
				}
				continue
			}
			if s.IntN(12) == 0 {
				s.answer("unknown", c.Unknown(now), c.Reconnected(now))
				continue
			}
			if s.IntN(12) == 0 {
				s.answer("refused", c.Refused(now, "no \xff space"))
				continue
			}
			if step.Kind != rangekeeper.StepRead && step.Guard == key {
				answer.Held = true
				if step.Kind == rangekeeper.StepSwap {
					next, err := c.Value(nil)
					s.answer("value", sum(next), err)
					put(next)
				}
			} else {
				answer.Key, answer.Value = key, value
			}
			answer.Revision = revision
			s.answer("answered", c.Answered(now, answer))
		}
	}
}

// edit returns a change by hand, mostly one that can be made.
func (s *sequence) edit(r rangekeeper.Range, revision int64) rangekeeper.Edit {
	edit := rangekeeper.Edit{
		Kind: rangekeeper.EditKind(s.IntN(5)), Pick: uint32(s.IntN(3)), Look: uint64(s.IntN(4)),
		Listed: revision - int64(s.IntN(3)), Since: revision - int64(s.IntN(8)),
		InUse: make([]byte, s.IntN(int(r.Size()+7)/8+1)),
	}
	for i := range edit.InUse {
		edit.InUse[i] = byte(s.IntN(256))
	}
	for range s.IntN(3) {
		edit.Set = append(edit.Set, s.someValue(r))
		edit.Clear = append(edit.Clear, s.someValue(r))
	}
	return edit
}

const storedJSON = `{"kind":"RangeAllocation","apiVersion":"v1","metadata":{"name":"old"},"range":"1-10","data":"BQ==","x":1}`

func decodings(s *sequence) {
	stored := []byte(storedJSON)
	if len(s.stored) > 0 && s.IntN(2) == 0 {
		stored = bytes.Clone(s.stored[s.IntN(len(s.stored))])
	}
	for range s.IntN(3) {
		switch at := s.IntN(min(len(stored), 200)); s.IntN(3) {
		case 0:
			stored[at] ^= 1 << s.IntN(8)
		case 1:
			stored = append(stored[:at], stored[at+1:]...)
		case 2:
			stored = stored[:len(stored)-at]
		}
		if len(stored) == 0 {
			break
		}
	}
	decode(s, stored)
}

// parsings reads texts that are nearly ranges and values.
func parsings(s *sequence) {
	for range 10 {
		near := []byte(append(cidrs, ports...)[s.IntN(len(cidrs)+len(ports))])
		for range s.IntN(3) {
			near[s.IntN(len(near))] = "0123456789abcdef:./-+ \x80"[s.IntN(23)]
		}
		text(s, near)
		s.answer("judge", rangekeeper.JudgeClusterIP(nil), rangekeeper.Reason(s.IntN(14)), rangekeeper.Reason(s.IntN(14)).Severity())
		verdict, wait := rangekeeper.JudgeIPAddress(s.IntN(2) == 0, rangekeeper.Parent(s.IntN(6)), time.Duration(s.IntN(9)), time.Duration(s.IntN(9)))
		s.answer("judge", verdict, wait)
	}
}
