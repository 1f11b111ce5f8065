package etcdstoretest_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	// ports is the range of a round: so few values that callers often find it full, or their value taken.
	ports   = "30000-30007"
	values  = 8
	callers = 8
	servers = 3
	// perCaller is how many operations a caller does in a round. Each round has a key of its own: the checker's time
	// grows fast with the length of a history.
	perCaller = 25
	// parallel is how many rounds run at once, so that callers do not all wait for the same disk.
	parallel = 4
	// patience is the deadline of an operation that is not meant to run into it.
	patience = 3 * time.Minute
	// interval is that of repair passes while etcd answers at once. The grace of allocations is two of them.
	interval = 100 * time.Millisecond
	// checkTime bounds the checker; a history that it has not finished by then counts as failed.
	checkTime = 5 * time.Minute
)

// TestLinearizable lets 8 callers work over 3 servers on one etcd. A few of them do
// not wait for the answer.
func TestLinearizable(t *testing.T) {
	l := newLoad(t, etcdtest.Start(t, "").Endpoints(), etcdtest.Cases(5_000))
	l.deadline = func(random *rand.Rand) time.Duration {
		if random.IntN(30) == 0 {
			return time.Duration(random.IntN(int(5 * time.Millisecond)))
		}
		return patience
	}
	l.run(func() {})
}

// TestLinearizableWithLostAnswers takes away some answers of etcd: the request has
// been carried out, and the server does not know. Repair passes free what that leaks.
func TestLinearizableWithLostAnswers(t *testing.T) {
	l := newLoad(t, etcdtest.Start(t, "").Endpoints(), etcdtest.Cases(2_000))
	l.lossy, l.network.loseOneOf, l.leastLost, l.repairs = true, 40, int64(etcdtest.Cases(10)), true
	l.run(func() {})
	if l.network.lost.Load() < l.leastLost {
		t.Error("too few answers were lost")
	}
}

// TestLinearizableInCluster kills and pauses the leader of three members in the run,
// again and again. Repair passes run all the time.
func TestLinearizableInCluster(t *testing.T) {
	t.Parallel() // it mostly waits, and so does TestKill
	cluster := etcdtest.StartCluster(t, 3)
	l := newLoad(t, cluster.Endpoints(), etcdtest.Cases(3_000))
	l.lossy, l.repairs = true, true
	l.deadline = func(random *rand.Rand) time.Duration {
		if random.IntN(4) == 0 {
			return time.Duration(random.IntN(int(2 * time.Second)))
		}
		return patience
	}
	faults := etcdtest.Cases(2)
	l.run(func() {
		for range faults {
			time.Sleep(randomTime(2 * time.Second))
			leader := cluster.Leader()
			cluster.Kill(leader)
			time.Sleep(randomTime(3 * time.Second))
			cluster.Restart(leader)

			time.Sleep(randomTime(2 * time.Second))
			leader = cluster.Leader()
			cluster.Pause(leader)
			time.Sleep(randomTime(4 * time.Second))
			cluster.Resume(leader)
		}
	})
	t.Logf("the leader was killed %d times and paused %d times", faults, faults)
}

func randomTime(most time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(max(most, 1))))
}

// load runs rounds of operations and checks each.
type load struct {
	t       *testing.T
	clients []*clientv3.Client
	network *network
	values  rangekeeper.Range
	// least is how many operations there must be, and leastLost how many answers must be lost.
	least     int
	leastLost int64
	// lossy says that answers of etcd may be lost.
	lossy bool
	// repairs says that each server makes repair passes. Then callers write Services for what they get, and lose
	// some of it.
	repairs  bool
	deadline func(random *rand.Rand) time.Duration
	// start is the zero of the clock.
	start time.Time

	mu                                sync.Mutex
	rounds, operations, leaks, ghosts int
	checking                          time.Duration
	outcomes                          [kinds][outcomes]int
	// took is what half of the operations of the last round took at most.
	took time.Duration
}

func newLoad(t *testing.T, endpoints []string, least int) *load {
	t.Helper()
	r, err := rangekeeper.ParsePortRange(ports)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{
		t: t, network: new(network), values: r, least: least, start: time.Now(),
		deadline: func(*rand.Rand) time.Duration { return patience },
	}
	for range servers {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: endpoints, Logger: zap.NewNop(),
			DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.network.intercept)},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		l.clients = append(l.clients, client)
	}
	return l
}

// run does rounds until there are enough operations and disturb has returned.
func (l *load) run(disturb func()) {
	var disturbing atomic.Bool
	disturbing.Store(true)
	var workers sync.WaitGroup
	for worker := range parallel {
		workers.Go(func() {
			for i := 0; !l.t.Failed() && (disturbing.Load() || !l.enough()); i++ {
				l.round(fmt.Sprintf("/registry/ranges/round-%d-%d", worker, i))
			}
		})
	}
	disturb()
	disturbing.Store(false)
	workers.Wait()
	l.report()
}

func (l *load) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.operations >= l.least && l.network.lost.Load() >= l.leastLost
}

// interval returns that of the repair passes of the next round. An answer that takes half of the grace counts as none,
// so a busy machine needs a longer one: else hardly an allocation would succeed there.
func (l *load) interval() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(interval, 4*l.took)
}

func (l *load) report() {
	l.t.Logf("%d operations in %d rounds of %d callers over %d servers in %v, %v of it checking in %d workers",
		l.operations, l.rounds, callers, servers, time.Since(l.start).Round(time.Millisecond), l.checking.Round(time.Millisecond), parallel)
	l.t.Logf("transactions: %d, of them %d conflicts, %d without an answer, %d answers taken away",
		l.network.transactions.Load(), l.network.conflicts.Load(), l.network.failed.Load(), l.network.lost.Load())
	for k, name := range [kinds]string{"allocate next", "allocate", "release", "batch", "clean"} {
		n := l.outcomes[k]
		l.t.Logf("%-13s %6d done, %6d refused, %5d deferred, %5d expired, %5d unknown", name, n[done], n[refused], n[deferred], n[expired], n[unknown])
	}
	l.t.Logf("%d changes that no acknowledged operation has made, %d of them leaks", l.ghosts, l.leaks)
	if l.operations < l.least {
		l.t.Errorf("%d operations, at least %d are wanted", l.operations, l.least)
	}
	for _, floor := range []struct {
		what      string
		n, partOf int
	}{
		{"allocate next that found the range full", l.outcomes[allocateNext][refused], 50},
		{"allocate whose value was taken", l.outcomes[allocate][refused], 50},
		{"releases", l.outcomes[release][done], 8},
		{"releases of what was free", l.outcomes[release][refused], 200},
		{"batches", l.outcomes[allocateBatch][done], 200},
		{"batches that could not be had", l.outcomes[allocateBatch][refused], 50},
	} {
		if floor.n*floor.partOf < l.operations {
			l.t.Errorf("%d %s, at least one operation in %d is wanted", floor.n, floor.what, floor.partOf)
		}
	}
	if l.repairs && l.outcomes[clean][done] < l.rounds {
		l.t.Errorf("%d values cleaned in %d rounds", l.outcomes[clean][done], l.rounds)
	}
}

// round lets the callers work on a fresh key and checks what they saw.
func (l *load) round(key string) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*patience)
	defer cancel()
	r := &round{load: l, key: key, interval: l.interval()}
	config := etcdstore.Config{Key: key, Range: l.values, Strategy: rangekeeper.DynamicBandFirst}
	if l.repairs {
		config.Grace = 2 * r.interval
	}
	for i, client := range l.clients {
		config.Client = client
		store, err := etcdstore.Open(config)
		if err != nil {
			l.t.Errorf("%s: %v", key, err)
			return
		}
		r.stores = append(r.stores, store)
		// Each of them may be the one that makes the object, and must not mind another's.
		_, err = store.Init(ctx)
		for errors.Is(err, etcdstore.ErrUnknown) {
			_, err = store.Init(ctx)
		}
		if err != nil {
			l.t.Errorf("%s, server %d: %v", key, i, err)
			return
		}
	}
	var work, repairs sync.WaitGroup
	var over atomic.Bool
	for range callers {
		work.Go(func() { r.call(ctx) })
	}
	if l.repairs {
		for _, store := range r.stores {
			repairs.Go(func() { r.repair(ctx, store, &over) })
		}
	}
	work.Wait()
	over.Store(true)
	repairs.Wait()
	for _, store := range r.stores {
		if err := store.Close(ctx); err != nil {
			l.t.Errorf("%s: close: %v", key, err)
		}
	}
	changes, _, err := readHistory(ctx, l.clients[0], key, l.values, state{})
	if err != nil {
		l.t.Error(err)
		return
	}
	ghosts, leaks, err := explain(changes, r.operations, holders{}, l.lossy)
	if err != nil {
		l.t.Errorf("%s: %v\n%s", key, err, r)
		return
	}
	began := time.Now()
	r.check(ghosts, changes)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.checking += time.Since(began)
	l.rounds++
	l.operations += len(r.operations)
	l.ghosts += len(ghosts)
	l.leaks += leaks
	var took []time.Duration
	for _, o := range r.operations {
		l.outcomes[o.kind][o.outcome]++
		took = append(took, o.end-o.call)
	}
	slices.Sort(took)
	l.took = took[len(took)/2]
}

// round is the history of one key.
type round struct {
	*load
	key      string
	interval time.Duration // of repair passes
	stores   []*etcdstore.Store

	mu         sync.Mutex
	operations []*operation
	// owners says which offsets are a caller's at the moment: from the answer to its allocation to its call of release.
	owners [values]*operation
	// services says which offsets have a Service.
	services [values]bool
}

func (r *round) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s strings.Builder
	for _, o := range r.operations {
		fmt.Fprintln(&s, o)
	}
	return s.String()
}

// owned is one of the offsets that an operation was given.
type owned struct {
	*operation
	offset uint32
}

// call is what one caller does: it allocates and releases values, through any server.
// Now and then it repeats a release, with the as-of revision that it
// used then: the value's present owner must keep it.
func (r *round) call(ctx context.Context) {
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	var held []owned
	var spent []*operation
	for range perCaller {
		var o *operation
		switch n := random.IntN(100); {
		case len(spent) > 0 && n < 8:
			again := spent[random.IntN(len(spent))]
			o = &operation{kind: release, offset: again.offset, asOf: again.asOf}
			r.do(ctx, random, o)
		case len(held) > 0 && n < 70 || len(held) >= 3:
			i := random.IntN(len(held))
			mine := held[i]
			held = append(held[:i], held[i+1:]...)
			o = &operation{kind: release, offset: mine.offset, asOf: mine.revision}
			if random.IntN(2) == 0 {
				// Not a rollback: the Service was written, and has been deleted in a later revision.
				if now, err := r.clients[random.IntN(servers)].Get(ctx, "/registry/services"); err == nil {
					o.asOf = now.Header.Revision
				}
			}
			r.disown(mine)
			r.do(ctx, random, o)
			spent = append(spent, o)
		default:
			o = &operation{kind: allocateNext}
			switch random.IntN(5) {
			case 0, 1:
				o = &operation{kind: allocate, offset: uint32(random.IntN(values))}
			case 2:
				o = &operation{kind: allocateBatch}
				for _, offset := range random.Perm(values)[:2+random.IntN(2)] {
					if random.IntN(3) > 0 {
						o.wanted = append(o.wanted, anyOffset)
					} else {
						o.wanted = append(o.wanted, uint32(offset))
					}
				}
			}
			r.do(ctx, random, o)
			if o.outcome != done {
				continue
			}
			for _, offset := range o.offsets() {
				r.own(owned{o, offset})
			}
			if r.repairs && random.IntN(3) == 0 {
				time.Sleep(randomTime(time.Until(o.useUntil))) // the Service comes late, and in time
			}
			for _, offset := range o.offsets() {
				one := owned{o, offset}
				if r.repairs && (random.IntN(20) == 0 || !r.writeService(one)) {
					r.disown(one) // it is never given back
					continue
				}
				held = append(held, one)
			}
		}
	}
}

// own checks the invariant I1 as the callers see it.
func (r *round) own(o owned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.owners[o.offset]; other != nil {
		r.t.Errorf("%s: two owners of %d at once: %v; %v", r.key, o.offset, other, o)
	}
	r.owners[o.offset] = o.operation
}

// writeService reports whether it was not too late.
func (r *round) writeService(o owned) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.services[o.offset] = time.Now().Before(o.useUntil)
	return r.services[o.offset]
}

// disown deletes the Service, too.
func (r *round) disown(o owned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.givenUp == nil {
		o.givenUp = map[uint32]time.Duration{}
	}
	o.givenUp[o.offset] = time.Since(r.start)
	if r.owners[o.offset] == o.operation {
		r.owners[o.offset] = nil
		r.services[o.offset] = false
	}
}

// repair makes passes at one server until the callers are done and there is nothing in use
// any more that has no Service.
func (r *round) repair(ctx context.Context, store *etcdstore.Store, over *atomic.Bool) {
	passes, err := rangekeeper.NewLeakTracker(3, r.interval)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer passes.Close()
	for isLast := false; ctx.Err() == nil && !r.t.Failed(); isLast = over.Load() {
		leaks, err := r.pass(ctx, store, passes)
		switch {
		case errors.Is(err, etcdstore.ErrUnknown), errors.Is(err, rangekeeper.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		case err != nil:
			r.t.Errorf("%s: a repair pass: %v", r.key, err)
			return
		case isLast && leaks == 0:
			return
		}
		time.Sleep(r.interval)
	}
	if ctx.Err() != nil {
		r.t.Errorf("%s: there are leaks still", r.key)
	}
}

// pass makes one repair pass and says how many leaks there were.
func (r *round) pass(ctx context.Context, store *etcdstore.Store, passes *rangekeeper.LeakTracker) (leaks int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pass, err := passes.Start()
	if err != nil {
		return 0, err
	}
	defer pass.Close()
	view, needsFence, err := store.ReadForPass(ctx, pass)
	var look *etcdstore.Look
	if err == nil && needsFence {
		look, err = store.Fence(ctx, pass, nil)
	}
	if err != nil {
		return 0, err
	}
	defer look.End(ctx)
	var services rangekeeper.Services
	used := new(big.Int).SetBytes(view.Snapshot)
	r.mu.Lock()
	for offset, has := range r.services {
		if value, _ := r.values.ValueAt(uint32(offset)); has {
			services.Add("", nil)
			services.AddPort("TCP", int32(value.Port()))
		} else if used.Bit(offset) == 1 {
			leaks++
		}
	}
	r.mu.Unlock()
	audit, err := pass.Audit()
	if err != nil {
		return 0, err
	}
	defer audit.Close()
	if err := audit.Observe(&services); err != nil {
		return 0, err
	}
	outcome, err := pass.Finish(audit)
	if err != nil {
		return 0, err
	}
	defer outcome.Close()
	call := time.Since(r.start)
	repaired, err := store.Repair(ctx, pass, look, rangekeeper.ServiceList{})
	end := time.Since(r.start)
	if len(repaired.Set) > 0 {
		return 0, fmt.Errorf("%d had a Service, and were free", repaired.Set)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	note := func(o operation) {
		o.kind, o.asOf, o.call, o.end = clean, view.Revision, call, end
		r.operations = append(r.operations, &o)
	}
	if errors.Is(err, etcdstore.ErrUnknown) || r.lossy && repaired.Changed > 0 {
		// What it found changed it may have changed itself: the answer was lost.
		note(operation{outcome: unknown})
	}
	for _, value := range repaired.Cleared {
		offset, _ := r.values.OffsetOf(value)
		note(operation{outcome: done, offset: offset})
	}
	return leaks, err
}

// do calls a server and notes what came of it.
func (r *round) do(ctx context.Context, random *rand.Rand, o *operation) {
	ctx, cancel := context.WithTimeout(ctx, r.deadline(random))
	defer cancel()
	store := r.stores[random.IntN(servers)]
	o.call = time.Since(r.start)
	err := perform(ctx, store, r.values, o)
	o.end = time.Since(r.start)
	if err != nil {
		r.t.Errorf("%s: %v: %v", r.key, o, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations = append(r.operations, o)
}

// perform calls a store and notes the outcome. The error is one that no caller should
// see.
func perform(ctx context.Context, store *etcdstore.Store, r rangekeeper.Range, o *operation) error {
	var err error
	value, _ := r.ValueAt(o.offset)
	switch o.kind {
	case release:
		var released bool
		released, err = store.Release(ctx, value, rangekeeper.OwnedSince(o.asOf))
		if err == nil && !released {
			o.outcome = refused
			return nil
		}
	case allocateBatch:
		err = performBatch(ctx, store, r, o)
	default:
		var got etcdstore.Allocation
		if o.kind == allocateNext {
			got, err = store.AllocateNext(ctx)
		} else {
			got, err = store.Allocate(ctx, value)
		}
		if err == nil {
			offset, inRange := r.OffsetOf(got.Value)
			if !inRange || o.kind == allocate && offset != o.offset {
				return fmt.Errorf("got %v", got.Value)
			}
			o.offset, o.revision, o.useUntil = offset, got.Revision, got.UseUntil
		}
	}
	isFull, isTaken := errors.Is(err, rangekeeper.ErrFull), errors.Is(err, rangekeeper.ErrAlreadyAllocated)
	switch {
	case err == nil:
		o.outcome = done
	case o.kind == release && errors.Is(err, etcdstore.ErrDeferred):
		o.outcome = deferred
	case o.kind == allocateNext && isFull, o.kind == allocate && isTaken, o.kind == allocateBatch && (isFull || isTaken):
		o.outcome, o.full = refused, isFull
	case errors.Is(err, etcdstore.ErrUnknown):
		o.outcome = unknown
	case errors.Is(err, rangekeeper.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		o.outcome = expired
	default:
		return err
	}
	return nil
}

func performBatch(ctx context.Context, store *etcdstore.Store, r rangekeeper.Range, o *operation) error {
	var requests []rangekeeper.Request
	for _, offset := range o.wanted {
		if value, inRange := r.ValueAt(offset); inRange {
			requests = append(requests, rangekeeper.Named(value))
		} else {
			requests = append(requests, rangekeeper.Any())
		}
	}
	all, err := store.AllocateBatch(ctx, requests...)
	if failed := new(rangekeeper.BatchError); errors.As(err, &failed) {
		o.place = failed.Index
	}
	for i, got := range all {
		offset, inRange := r.OffsetOf(got.Value)
		if !inRange || o.wanted[i] != anyOffset && o.wanted[i] != offset || got.Revision != all[0].Revision || slices.Contains(o.given, offset) {
			return fmt.Errorf("got %v", all)
		}
		o.given = append(o.given, offset)
		o.revision, o.useUntil = got.Revision, got.UseUntil
	}
	return err
}

// check returns the history to Porcupine.
func (r *round) check(ghosts []*operation, changes []change) {
	history := checkable(ghosts, r.operations)
	result, info := porcupine.CheckOperationsVerbose(model(), history, checkTime)
	if result == porcupine.Ok {
		return
	}
	path := filepath.Join(r.t.ArtifactDir(), strings.ReplaceAll(r.key, "/", "_")+".html")
	if err := porcupine.VisualizePath(model(), info, path); err != nil {
		path = err.Error()
	}
	r.t.Errorf("%s: Porcupine says %s, picture: %s (kept with -artifacts)\n%sfrom the history: %v\n%v", r.key, result, path, r, ghosts, changes)
}

// checkable is what Porcupine is to find an order for. What unknown operations have done
// is among the ghosts.
func checkable(ghosts, operations []*operation) []porcupine.Operation {
	var history []porcupine.Operation
	var revisions []int64 // in which operations took effect
	for _, o := range slices.Concat(ghosts, operations) {
		if o.outcome == done || o.outcome == refused {
			history = append(history, porcupine.Operation{Input: o, Call: int64(o.call), Return: int64(o.end)})
		}
		if o.outcome == done {
			revisions = append(revisions, o.revision)
		}
	}
	slices.Sort(revisions)
	for _, one := range history {
		o := one.Input.(*operation)
		o.earlier, _ = slices.BinarySearch(revisions, o.revision)
		o.soFar, _ = slices.BinarySearch(revisions, o.revision+1)
	}
	return history
}

// set is a model's state: the revision in which each offset was set, 0 for one that is
// clear, and how many operations have taken effect.
type set struct {
	since  [values]int64
	effect int
}

// follows reports whether the operation may take effect next: after all that did in earlier revisions. Porcupine would
// find that out, too, when nothing else is left to try, which takes long where many requests got no answer.
func (s set) follows(o *operation) bool { return o.earlier <= s.effect && s.effect < o.soFar }

func (s set) free() int {
	n := 0
	for _, since := range s.since {
		if since == 0 {
			n++
		}
	}
	return n
}

// refuses reports whether what a batch was refused for is so. Names are served first.
func (s set) refuses(o *operation) bool {
	named, before := 0, 0
	for i, offset := range o.wanted {
		switch {
		case offset == anyOffset && i < o.place:
			before++
		case offset == anyOffset:
		case !o.full && i == o.place:
			return s.since[offset] != 0
		case s.since[offset] != 0:
			return false
		default:
			named++
		}
	}
	return o.full && s.free()-named == before
}

// model is a set of offsets. What changes it has a revision, and these only grow.
func model() porcupine.Model {
	step := func(s set, o *operation) (bool, set) {
		since := s.since[o.offset]
		switch {
		case o.kind == allocateBatch && o.outcome == refused:
			return s.refuses(o), s
		case o.kind == allocateNext && o.outcome == refused:
			return s.free() == 0, s
		case o.kind == allocate && o.outcome == refused:
			return since != 0, s
		case o.kind == clean && (since == 0 || since > o.asOf):
			return false, s
		case o.kind == release && (since == 0 || since > o.asOf):
			return o.outcome == refused, s
		case o.kind == release || o.kind == clean:
			if o.outcome == refused || !s.follows(o) {
				return false, s
			}
			s.since[o.offset] = 0
			s.effect++
			return true, s
		default:
			for _, offset := range o.offsets() {
				if s.since[offset] != 0 || !s.follows(o) {
					return false, s
				}
				s.since[offset] = o.revision
			}
			s.effect++
			return true, s
		}
	}
	return porcupine.Model{
		Init: func() any { return set{} },
		Step: func(state, input, _ any) (bool, any) {
			return step(state.(set), input.(*operation))
		},
		DescribeOperation: func(input, _ any) string { return input.(*operation).String() },
	}
}

// network stands between the servers and etcd.
type network struct {
	// loseOneOf says of how many transactions one loses its answer; 0 for none.
	loseOneOf                             int
	transactions, conflicts, failed, lost atomic.Int64
}

func (n *network) intercept(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, cc, options...)
	answer, isTransaction := reply.(*etcdserverpb.TxnResponse)
	if !isTransaction {
		return err
	}
	n.transactions.Add(1)
	switch {
	case err != nil:
		n.failed.Add(1)
	case n.loseOneOf > 0 && rand.IntN(n.loseOneOf) == 0:
		n.lost.Add(1)
		return status.Error(codes.Unavailable, "the answer was lost")
	case !answer.Succeeded:
		n.conflicts.Add(1)
	}
	return err
}
