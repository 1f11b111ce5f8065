package rangekeeper

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// memoryKey is one key of a store, as etcd keeps it, with all its changes.
type memoryKey struct {
	revision int64
	state    KeyState
	value    []byte
	changes  []Change
	now      time.Duration
}

func (k *memoryKey) put(value []byte) {
	k.revision++
	if k.state.Version == 0 {
		k.state.CreateRevision = k.revision
	}
	k.state.Version++
	k.state.ModRevision = k.revision
	k.value = bytes.Clone(value)
	k.changes = append(k.changes, Change{Key: k.state, Value: k.value})
}

func (k *memoryKey) delete() {
	k.revision++
	k.state, k.value = KeyState{}, nil
	k.changes = append(k.changes, Change{Key: KeyState{ModRevision: k.revision}})
}

// run does what a committer asks for until there is nothing to do, and returns what ended.
func run(t *testing.T, k *memoryKey, c *Committer) (finished []Finished) {
	t.Helper()
	for {
		step := must(c.Poll(k.now))
		answer := Answer{ClusterID: 1, RaftTerm: 2}
		switch step.Kind {
		case StepIdle:
			return finished
		case StepWait:
			k.now = step.Until
			continue
		case StepFinished:
			finished = append(finished, step.Finished...)
			continue
		case StepWatch:
			from := slices.IndexFunc(k.changes, func(change Change) bool { return change.Key.ModRevision >= step.WatchFrom })
			if from >= 0 {
				if err := c.Watched(k.now, k.changes[from:]...); err != nil {
					t.Fatal(err)
				}
			}
			continue
		case StepStopWatch:
			continue
		}
		if step.Kind != StepRead && step.Guard == k.state {
			answer.Held = true
			if step.Kind == StepSwap {
				k.put(must(c.Value(nil)))
			}
		} else {
			answer.Key, answer.Value = k.state, k.value
		}
		answer.Revision = k.revision
		if err := c.Answered(k.now, answer); err != nil {
			t.Fatal(err)
		}
	}
}

// errOf returns the error of an operation that failed.
func errOf(f Finished) error {
	failed, _ := f.Outcome.(Failed)
	return failed.Err
}

func one(t *testing.T, k *memoryKey, c *Committer, operation Operation) Finished {
	t.Helper()
	// What others have written since the last operation is in a new watch.
	if err := c.WatchEnded(k.now); err != nil {
		t.Fatal(err)
	}
	ticket := must(c.Submit(operation))[0]
	finished := run(t, k, c)
	if len(finished) != 1 || finished[0].Ticket != ticket {
		t.Fatalf("%+v", finished)
	}
	return finished[0]
}

// TestManyReads has more reads end at once than fit into one step: each has a bitmap of 128 KiB.
func TestManyReads(t *testing.T) {
	c := must(NewCommitter(must(ParseCIDR("10.96.0.0/12")), CommitterConfig{Strategy: Contiguous, Grace: time.Minute}))
	defer c.Close()
	k := new(memoryKey)
	submit := func(operations ...Operation) int {
		must(c.Submit(operations...))
		return len(run(t, k, c))
	}
	if n := submit(CreateOperation(NoDeadline)) + submit(AllocateOperation(NoDeadline, Named(ip("10.111.255.254")))); n != 2 {
		t.Fatalf("%d operations ended", n)
	}
	reads := make([]Operation, 1100)
	for i := range reads {
		reads[i] = ReadOperation(NoDeadline)
	}
	if n := submit(reads...); n != len(reads) {
		t.Errorf("%d reads of %d ended", n, len(reads))
	}
}

func newCommitter(t *testing.T, ports string, seed uint64) *Committer {
	c := must(NewCommitter(must(ParsePortRange(ports)), CommitterConfig{Strategy: RandomScan, Grace: time.Minute, Seed: seed}))
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCommitter(t *testing.T) {
	k := &memoryKey{now: time.Second}
	first, second := newCommitter(t, "30000-30199", 1), newCommitter(t, "30000-30199", 2)
	if f := one(t, k, first, AllocateOperation(NoDeadline, Any())); !errors.Is(errOf(f), ErrNotInitialised) {
		t.Errorf("%+v", f)
	}
	if f := one(t, k, first, CreateOperation(NoDeadline)); f.Outcome != Outcome(Created{true}) {
		t.Errorf("%+v", f)
	}
	if f := one(t, k, second, CreateOperation(NoDeadline)); f.Outcome != Outcome(Created{false}) {
		t.Errorf("%+v", f)
	}
	// More operations, values and bytes than one crossing returns at once; all in one compare-and-swap.
	var operations []Operation
	for range 50 {
		operations = append(operations, AllocateOperation(NoDeadline, slices.Repeat([]Request{Any()}, 4)...))
	}
	number := first.Known().Store
	if known := first.Known(); number == 0 || known != (Known{Revision: k.revision, Initialised: true, Store: number}) {
		t.Errorf("%+v", known)
	}
	for range 300 {
		operations = append(operations, AllocateOperation(NoDeadline, Any()), ReadOperation(NoDeadline))
	}
	tickets, revision := must(first.Submit(operations...)), k.revision
	finished := run(t, k, first)
	if k.revision != revision+1 || len(finished) != len(tickets) {
		t.Fatalf("%d swaps, %d of %d operations", k.revision-revision, len(finished), len(tickets))
	}
	if known := first.Known(); known != (Known{Revision: k.revision, Used: 200, Initialised: true, Store: number}) {
		t.Errorf("%+v", known)
	}
	var ports []Value
	full, views := 0, 0
	for i, f := range finished {
		allocated, _ := f.Outcome.(Allocated)
		state, _ := f.Outcome.(View)
		switch {
		case f.Ticket != tickets[i]:
			t.Fatal(i, f.Ticket)
		case len(allocated.Values) == 4 && allocated.Revision == k.revision && allocated.UseUntil > time.Minute:
			ports = append(ports, allocated.Values...)
		case errors.Is(errOf(f), ErrFull):
			full++
		case state.Initialised && state.Revision == k.revision && bytes.Equal(state.Snapshot, bytes.Repeat([]byte{0xff}, 25)):
			views++
		default:
			t.Fatalf("%+v", f)
		}
	}
	slices.SortFunc(ports, func(a, b Value) int { return int(a.Port()) - int(b.Port()) })
	if len(slices.Compact(ports)) != 200 || full != 300 || views != 300 {
		t.Error(len(ports), full, views)
	}
	stored := must(DecodeRangeAllocation(k.value))
	if r, data := must(stored.Range()), must(stored.Data(nil)); r != "30000-30199" || len(data) != 25 {
		t.Error(r, data)
	}

	// Another server frees a port and takes it again; then the first owner's release comes too late.
	asOf := k.revision
	if f := one(t, k, second, ReleaseOperation(NoDeadline, PortValue(30007), OwnedSince(asOf))); f.Outcome != Outcome(Released{true}) {
		t.Errorf("%+v", f)
	}
	if f := one(t, k, second, AllocateOperation(NoDeadline, Named(PortValue(30007)))); errOf(f) != nil {
		t.Errorf("%+v", f)
	}
	if f := one(t, k, first, ReleaseOperation(NoDeadline, PortValue(30007), OwnedSince(asOf))); f.Outcome != Outcome(Released{false}) {
		t.Errorf("%+v", f)
	}
	var batch *BatchError
	if f := one(t, k, first, AllocateOperation(NoDeadline, Named(PortValue(30007)))); !errors.As(errOf(f), &batch) || *batch.Err.(*ValueError) != (ValueError{PortValue(30007), first.r, ErrAlreadyAllocated}) {
		t.Errorf("%+v", f)
	}
	var outside *ValueError
	if f := one(t, k, first, AllocateOperation(NoDeadline, Named(PortValue(29999)))); !errors.As(errOf(f), &outside) || outside.Value != PortValue(29999) {
		t.Errorf("%+v", f)
	}

	// Passes over no Services, when nothing is protected any more as handed out a moment ago: all is leaked, and
	// due in the second one but for what has changed hands meanwhile.
	k.now += time.Hour
	passes := must(NewLeakTracker(2, time.Minute))
	asOf = k.revision
	for i, cleared := range []int{0, 199, 1} {
		pass := must(passes.Start())
		if err := first.BeginPass(pass); err != nil {
			t.Fatal(err)
		}
		view := one(t, k, first, ReadOperation(NoDeadline)).Outcome.(View)
		if needsFence, err := first.PassRead(pass, view.Revision, view.Snapshot, k.now); err != nil || needsFence != (i > 0) {
			t.Fatal(i, needsFence, err)
		}
		audit := must(pass.Audit())
		if counts := must(pass.Finish(audit)).Range(0); counts.Size != 200 || counts.Leaked != counts.Stored {
			t.Errorf("%+v", counts)
		}
		ticket := must(first.SubmitRepair(NoDeadline, pass, ServiceList{}))
		repaired := run(t, k, first)
		if len(repaired) != 1 || repaired[0].Ticket != ticket {
			t.Fatalf("pass %d: %+v", i, repaired)
		}
		if of, ok := repaired[0].Outcome.(Repaired); !ok || len(of.Cleared) != cleared || i == 2 && of.Cleared[0] != PortValue(30008) || of.Changed != 0 {
			t.Errorf("pass %d: %+v", i, repaired)
		}
		k.now += time.Minute
		if i == 0 {
			one(t, k, second, ReleaseOperation(NoDeadline, PortValue(30008), OwnedSince(asOf)))
			one(t, k, second, AllocateOperation(NoDeadline, Named(PortValue(30008))))
		}
	}
	// What cannot be read is not overwritten.
	k.put([]byte("k8s:enc:aescbc:v1:key1:..."))
	if f := one(t, k, first, AllocateOperation(NoDeadline, Any())); !errors.Is(errOf(f), ErrUnreadable) {
		t.Errorf("%+v", f)
	}
	k.delete()
	if f := one(t, k, first, AllocateOperation(NoDeadline, Any())); !errors.Is(errOf(f), ErrNotInitialised) {
		t.Errorf("%+v", f)
	}
	var mismatched *MismatchedRangeError
	must(newCommitter(t, "30000-30199", 3).Submit())
	if f := one(t, k, newCommitter(t, "20000-20999", 3), CreateOperation(NoDeadline)); f.Outcome != Outcome(Created{true}) {
		t.Errorf("%+v", f)
	}
	if f := one(t, k, second, CreateOperation(NoDeadline)); !errors.As(errOf(f), &mismatched) || mismatched.Found != "20000-20999" {
		t.Errorf("%+v", f)
	}
}

// Requests that fail end their operations with the store's words, or keep them for another try.
func TestCommitterFailures(t *testing.T) {
	k := new(memoryKey)
	c := newCommitter(t, "1-100", 1)
	one(t, k, c, CreateOperation(NoDeadline))
	ticket := must(c.Submit(AllocateOperation(5*time.Second, Any())))[0]
	if step := must(c.Poll(time.Second)); step.Kind != StepSwap {
		t.Fatal(step)
	}
	if err := c.Refused(time.Second, "no space \xffleft"); err != nil {
		t.Fatal(err)
	}
	// A read shows that the compare-and-swap took no effect after all.
	if f := run(t, k, c); len(f) != 1 || f[0].Ticket != ticket || !errors.Is(errOf(f[0]), ErrRefused) || errOf(f[0]).Error() != "the store refused the request: no space \uFFFDleft" {
		t.Errorf("%+v", f)
	}
	if err := c.Reconnected(k.now); err != nil {
		t.Fatal(err)
	}
	late := must(c.Submit(AllocateOperation(time.Nanosecond, Any())))[0]
	if f := run(t, k, c); len(f) != 1 || f[0].Ticket != late || !errors.Is(errOf(f[0]), ErrDeadlineExceeded) {
		t.Errorf("%+v", f)
	}
	if err := c.WatchFailed(k.now); err != nil {
		t.Fatal(err)
	}
	if value, err := c.Value(nil); !errors.Is(err, ErrNoSwap) {
		t.Errorf("the value %q of a compare-and-swap that has ended: %v", value, err)
	}
	c.Close()
	for _, c := range []*Committer{c, {}, nil} {
		_, polled := c.Poll(0)
		_, submitted := c.Submit(CreateOperation(0))
		_, value := c.Value(nil)
		for _, err := range []error{polled, submitted, value, c.Cancel(1), c.Abandon(Allocated{}), c.Answered(0, Answer{}), c.Unknown(0), c.Refused(0, ""), c.Reconnected(0), c.Watched(0, Change{}), c.WatchEnded(0), c.WatchFailed(0)} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		c.Close()
	}
}

// A time before the driver's zero counts as zero: it is not one in the far future.
func TestNegativeTimes(t *testing.T) {
	c, k := newCommitter(t, "1-100", 1), &memoryKey{}
	for _, deadline := range []time.Duration{-1, -time.Second, math.MinInt64} {
		if f := one(t, k, c, CreateOperation(deadline)); !errors.Is(errOf(f), ErrDeadlineExceeded) {
			t.Errorf("deadline %v: %+v", deadline, f)
		}
	}
	must(c.Submit(CreateOperation(time.Minute)))
	if step := must(c.Poll(math.MinInt64)); step.Kind != StepRead {
		t.Errorf("%+v", step)
	}
	if err := c.Unknown(-1); err != nil {
		t.Error(err)
	}
	if step := must(c.Poll(-time.Second)); step.Kind != StepWait || step.Until > time.Second {
		t.Errorf("%+v", step)
	}

	none := must(NewCommitter(must(ParsePortRange("1-100")), CommitterConfig{Grace: -time.Minute}))
	defer none.Close()
	one(t, k, none, CreateOperation(NoDeadline))
	k.now += time.Second
	if f := one(t, k, none, AllocateOperation(NoDeadline, Any())); errOf(f) != nil || f.Outcome.(Allocated).UseUntil > k.now {
		t.Errorf("at %v: %+v", k.now, f)
	}

	b := must(NewBootstrap([]byte(`{"advertiseAddress":"192.0.2.10"}`)))
	defer b.Close()
	other := must(NewBootstrap([]byte(`{"advertiseAddress":"192.0.2.10"}`)))
	defer other.Close()
	if early, zero := must(b.Poll(-1, nil)), must(other.Poll(0, nil)); !bytes.Equal(early, zero) {
		t.Errorf("%s, want %s", early, zero)
	}
}

// A negative revision is none: it must not stand for one in the far future, before which nothing counts.
func TestNegativeOldest(t *testing.T) {
	c, k := newCommitter(t, "1-100", 1), &memoryKey{}
	one(t, k, c, CreateOperation(NoDeadline))
	allocate := func() Allocated {
		return one(t, k, c, AllocateOperation(NoDeadline, Named(PortValue(7)))).Outcome.(Allocated)
	}
	release := func(owner Ownership) Outcome {
		return one(t, k, c, ReleaseOperation(NoDeadline, PortValue(7), owner)).Outcome
	}
	first := allocate()
	release(OwnedSince(first.Revision))
	second := allocate()
	for _, oldest := range []int64{first.Revision, 0, -1, math.MinInt64} {
		if outcome, ok := release(Ownership{AsOf: second.Revision, Oldest: oldest}).(Released); !ok || outcome.Freed {
			t.Errorf("oldest %d: the value of another owner was released", oldest)
		}
	}
}
