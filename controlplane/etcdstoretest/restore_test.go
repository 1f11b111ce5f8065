package etcdstoretest_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestRestored puts an etcd restored from a backup in the place of the one that two
// servers work on. It may show that by its cluster id, by its raft term, by its revision
// or by that of the key, and others may have written to it before the servers come back.
func TestRestored(t *testing.T) {
	for _, c := range []struct {
		name     string
		restarts int // of the first etcd: each is one more raft term
		how      etcdtest.Restoration
		// meanwhile is what others do before the servers come back. behind is how many
		// revisions the restored etcd lies behind the first one, all of them writes of the key.
		meanwhile func(ctx context.Context, s *server, behind int)
	}{
		{name: "its revision shows it", meanwhile: func(context.Context, *server, int) {}},
		{name: "its raft term shows it", restarts: 1, meanwhile: goOn},
		{name: "its cluster id shows it", how: etcdtest.Restoration{Token: "another"}, meanwhile: goOn},
		{name: "all three show it", restarts: 1, how: etcdtest.Restoration{Token: "another"}, meanwhile: func(context.Context, *server, int) {}},
		{name: "the key's revision shows it", meanwhile: goOn},
		{name: "the key's revision shows it, and its history is compacted", how: etcdtest.Restoration{Bump: 1000}, meanwhile: func(context.Context, *server, int) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits for etcd to start
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cluster := etcdtest.StartCluster(t, 1)
			for range c.restarts {
				cluster.Kill(0)
				cluster.Restart(0)
			}
			client := cluster.Client()
			a := startServer(t, cluster.Client())
			b := &server{Store: openStore(t, cluster.Client()), t: t, client: client}
			b.allocate()
			kept := a.held[0]
			backup := etcdtest.Save(t, client)
			before := header(t, client)

			// What comes now is lost.
			b.allocate()
			for len(a.held)+len(b.held) < values {
				a.allocate()
			}
			if got, err := b.AllocateNext(ctx); !errors.Is(err, rangekeeper.ErrFull) {
				t.Fatalf("all are held: %v, %v", got, err)
			}
			if ok, err := a.Release(ctx, a.held[1].Value, rangekeeper.OwnedSince(a.held[1].Revision)); err != nil || !ok {
				t.Fatalf("release: %v, %v", ok, err)
			}
			lostByA, lostByB := a.held[2:], b.held[1:]
			lost := header(t, client)
			cluster.Restore(backup, c.how, func() {})
			other := &server{Store: openStore(t, cluster.Client()), t: t, client: client}
			c.meanwhile(ctx, other, int(lost.Revision-before.Revision))

			after := header(t, client)
			t.Logf("cluster %x, then %x; raft term %d, then %d; revision %d, then %d",
				lost.ClusterId, after.ClusterId, lost.RaftTerm, after.RaftTerm, lost.Revision, after.Revision)
			if other := c.how.Token != ""; other != (after.ClusterId != lost.ClusterId) {
				t.Fatal("the wrong cluster id")
			}

			b.fill(ctx, lostByB, 1)
			for _, x := range lostByA {
				if a.isStored(x.Value) {
					continue
				}
				if _, err := b.Allocate(ctx, x.Value); err != nil {
					t.Errorf("%v is free: %v", x.Value, err)
				}
				break
			}
			for _, x := range slices.Concat(lostByA, lostByB) {
				stored := a.isStored(x.Value)
				ok, err := a.Release(ctx, x.Value, rangekeeper.OwnedSince(x.Revision))
				if ok || err != nil && !errors.Is(err, etcdstore.ErrDeferred) {
					t.Errorf("release of %v, lost in revision %v: %v, %v", x.Value, x.Revision, ok, err)
				}
				if stored && !a.isStored(x.Value) {
					t.Errorf("%v was taken from its owner", x.Value)
				}
			}
			a.fill(ctx, lostByA, values)
			for _, x := range slices.Concat(other.held, b.held[:1], []etcdstore.Allocation{kept}, lostByA) {
				if !a.isStored(x.Value) {
					t.Errorf("%v is somebody's, and free", x.Value)
				}
			}

			goOn(ctx, other, int(lost.Revision))
			asOf := header(t, client).Revision
			if ok, err := a.Release(ctx, kept.Value, rangekeeper.OwnedSince(asOf)); err != nil || !ok {
				t.Errorf("release of %v: %v, %v", kept.Value, ok, err)
			}
			if _, err := b.Allocate(ctx, kept.Value); err != nil {
				t.Error(err)
			}
		})
	}
}

// fill allocates up to n values, until there is none left: they must be free and not
// lost.
func (s *server) fill(ctx context.Context, lost []etcdstore.Allocation, n int) {
	s.t.Helper()
	for range n {
		before := s.used()
		got, err := s.AllocateNext(ctx)
		if errors.Is(err, rangekeeper.ErrFull) {
			if used := s.used(); used.Cmp(big.NewInt(1<<values-1)) != 0 {
				s.t.Errorf("full, with %b in use", used)
			}
			return
		}
		if err != nil {
			s.t.Error(err)
			return
		}
		offset, _ := s.Range().OffsetOf(got.Value)
		if before.Bit(int(offset)) == 1 {
			s.t.Errorf("%v was in use and is handed out", got.Value)
		}
		if slices.ContainsFunc(lost, func(x etcdstore.Allocation) bool { return x.Value == got.Value }) {
			s.t.Errorf("%v was handed out before the restore and is again", got.Value)
		}
	}
}

func (s *server) isStored(value rangekeeper.Value) bool {
	s.t.Helper()
	offset, _ := s.Range().OffsetOf(value)
	return s.used().Bit(int(offset)) == 1
}

func header(t *testing.T, client *clientv3.Client) *etcdserverpb.ResponseHeader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := client.Get(ctx, faultKey)
	if err != nil {
		t.Fatal(err)
	}
	return got.Header
}

// goOn writes something else, so many times.
func goOn(ctx context.Context, s *server, times int) {
	s.t.Helper()
	for i := range times + 1 {
		if _, err := s.client.Put(ctx, "/registry/services/specs/default/web", fmt.Sprint(i)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// write changes the object so many times.
func write(ctx context.Context, s *server, times int) {
	s.t.Helper()
	for range times {
		if free := values - bitCount(s.used()); free > 1 {
			s.allocate()
			continue
		}
		last := s.held[len(s.held)-1]
		s.held = s.held[:len(s.held)-1]
		if ok, err := s.Release(ctx, last.Value, rangekeeper.OwnedSince(last.Revision)); err != nil || !ok {
			s.t.Fatalf("release %v: %v, %v", last.Value, ok, err)
		}
	}
}

func bitCount(n *big.Int) int {
	count := 0
	for i := range n.BitLen() {
		count += int(n.Bit(i))
	}
	return count
}

// nodePorts is the range of kube-apiserver: so large that what leaks in a restore does not fill it.
const nodePorts = "30000-32767"

// TestRestoredWhileAllocating restores a backup while callers work over two servers: they
// go on, and the content of the restored etcd matches the answers to the callers.
func TestRestoredWhileAllocating(t *testing.T) {
	for name, how := range map[string]etcdtest.Restoration{"the same cluster id": {}, "another cluster id": {Token: "another"}} {
		t.Run(name, func(t *testing.T) {
			cluster := etcdtest.StartCluster(t, 1)
			// One more raft term: by its revision alone the restored etcd could not be distinguished from the first one
			// any more where one server comes back so late that the other has already written as much as was lost.
			cluster.Kill(0)
			cluster.Restart(0)
			client := cluster.Client()
			w := newUpheaval(t, client, cluster.Client(), cluster.Client())
			var backup string
			w.run(func() {
				backup = etcdtest.Save(t, client)
				w.wait(func() bool { return w.acknowledged > 500 })
				cluster.Restore(backup, how, func() { w.startAgain(0) })
			})
			status, err := snapshot.NewV3(zap.NewNop()).Status(backup)
			if err != nil {
				t.Fatal(err)
			}
			w.check(status.Revision)
		})
	}
}

// TestReleaseAfterDeletion releases what was allocated before the key was deleted, and was
// given to somebody else after it was recreated.
func TestReleaseAfterDeletion(t *testing.T) {
	for _, watched := range []bool{false, true} {
		t.Run(fmt.Sprintf("watched: %v", watched), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client := etcdtest.Start(t, "").Client()
			a := startServer(t, client)
			b := &server{Store: openStore(t, client), t: t, client: client}
			if watched {
				// A release over several changes by another server needs a watch, which then goes on for a while.
				write(ctx, b, 3)
				a.keep(1)
			}
			mine := a.held[0]
			if _, err := client.Delete(ctx, faultKey); err != nil {
				t.Fatal(err)
			}
			if created, err := b.Init(ctx); err != nil || !created {
				t.Fatalf("created: %v, %v", created, err)
			}
			if _, err := b.Allocate(ctx, mine.Value); err != nil {
				t.Fatal(err)
			}
			ok, err := a.Release(ctx, mine.Value, rangekeeper.OwnedSince(mine.Revision))
			if ok || err != nil && !errors.Is(err, etcdstore.ErrDeferred) {
				t.Errorf("release of %v: %v, %v", mine.Value, ok, err)
			}
			if !a.isStored(mine.Value) {
				t.Errorf("%v was taken from its owner", mine.Value)
			}
			a.fill(ctx, a.held, values)
		})
	}
}

// TestDeletedWhileAllocating deletes the key while callers work over two servers, and one
// of these recreates it.
func TestDeletedWhileAllocating(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	client := etcd.Client()
	w := newUpheaval(t, client, client, client)
	w.run(func() {
		deleted, err := client.Delete(t.Context(), faultKey)
		if err != nil {
			t.Fatal(err)
		}
		w.startAgain(deleted.Header.Revision)
		if created, err := w.servers[0].Init(t.Context()); err != nil || !created {
			t.Fatalf("created: %v, %v", created, err)
		}
	})
	w.check(0)
}

// upheaval is what callers know about a key that begins again while they work.
type upheaval struct {
	t       *testing.T
	client  *clientv3.Client
	values  rangekeeper.Range
	servers []*oneOfTwo
	start   time.Time

	mu         sync.Mutex
	operations []*operation
	// newStart is since when it may have begun again, 0 before; newAfter is a revision before
	// that, or 0 if revisions begin again as well.
	newStart time.Duration
	newAfter int64
	// shared are offsets that both servers have handed out: the one could not know of the other's.
	shared map[uint32]bool
	// acknowledged operations, those of the new beginning, and releases among these.
	acknowledged, acknowledgedNew, releasedNew int
	// lostAsOf counts releases after the new beginning as of a revision before it.
	lostAsOf int
}

type oneOfTwo struct {
	*etcdstore.Store
	// owners are those whom this server has given an offset.
	owners map[uint32]*operation
}

func newUpheaval(t *testing.T, client *clientv3.Client, ofServers ...*clientv3.Client) *upheaval {
	r, err := rangekeeper.ParsePortRange(nodePorts)
	if err != nil {
		t.Fatal(err)
	}
	w := &upheaval{t: t, client: client, values: r, start: time.Now(), shared: map[uint32]bool{}}
	for _, client := range ofServers {
		store := openRange(t, client, r)
		if _, err := store.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, &oneOfTwo{store, map[uint32]*operation{}})
	}
	return w
}

// run lets the callers work until enough has been done after beginAgain has returned.
func (w *upheaval) run(beginAgain func()) {
	var work sync.WaitGroup
	stop := make(chan struct{})
	defer work.Wait()
	defer close(stop)
	for i := range callers {
		work.Go(func() { w.call(w.servers[i%len(w.servers)], stop) })
	}
	w.wait(func() bool { return w.acknowledged > 200 })
	beginAgain()
	w.wait(func() bool { return w.acknowledgedNew > 1000 && w.releasedNew > 200 })
}

// call allocates and releases at one server, until stop is closed.
func (w *upheaval) call(s *oneOfTwo, stop <-chan struct{}) {
	var held []*operation
	for {
		select {
		case <-stop:
			return
		default:
		}
		o := &operation{kind: allocateNext}
		var mine *operation
		if len(held) > 0 && rand.IntN(2) == 0 || len(held) == 4 {
			mine, held = held[0], held[1:]
			o = &operation{kind: release, offset: mine.offset, asOf: mine.revision}
			w.disown(s, mine)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		now := time.Duration(0)
		if mine != nil && rand.IntN(2) == 0 {
			// The Service was written, and has been deleted in a later revision.
			now = time.Since(w.start)
			if got, err := w.client.Get(ctx, "/registry/services"); err == nil {
				o.asOf = got.Header.Revision
			} else {
				now = 0
			}
		}
		o.call = time.Since(w.start)
		err := perform(ctx, s.Store, w.values, o)
		o.end = time.Since(w.start)
		cancel()
		if errors.Is(err, rangekeeper.ErrNotInitialised) {
			o.outcome = expired // it did nothing
		} else if err != nil {
			w.t.Errorf("%v: %v", o, err)
			return
		}
		w.note(s, o, mine, now)
		if o.kind == allocateNext && o.outcome == done {
			held = append(held, o)
		}
	}
}

// note records an operation. A release is of mine; asOfRead is when its as-of revision was read,
// 0 if it is the revision of the allocation.
func (w *upheaval) note(s *oneOfTwo, o, mine *operation, asOfRead time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.operations = append(w.operations, o)
	isNew := w.isNew(o.end) && (o.kind == release || o.outcome != done || o.revision > w.newAfter)
	if o.outcome != unknown && o.outcome != expired {
		w.acknowledged++
		if isNew {
			w.acknowledgedNew++
		}
	}
	if o.outcome == done && o.kind == allocateNext {
		for _, other := range w.servers {
			if owner := other.owners[o.offset]; owner != nil && other != s && isNew {
				w.shared[o.offset] = true
			}
		}
		if owner := s.owners[o.offset]; owner != nil && !w.shared[o.offset] {
			w.t.Errorf("one server has two owners of an offset: %v; %v", owner, o)
		}
		s.owners[o.offset] = o
	}
	if o.kind != release || !isNew {
		return
	}
	if o.outcome == done {
		w.releasedNew++
	}
	if lost := asOfRead == 0 && !w.isNew(mine.end) || asOfRead > 0 && !w.isNew(asOfRead); lost && w.isNew(o.call) {
		w.lostAsOf++
		if o.outcome == done {
			w.t.Errorf("an as-of revision from before the new beginning counts: %v", o)
		}
	}
}

// isNew says of a time whether it is one after the new beginning; the lock is held.
func (w *upheaval) isNew(at time.Duration) bool { return w.newStart > 0 && at >= w.newStart }

func (w *upheaval) disown(s *oneOfTwo, o *operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.owners[o.offset] == o {
		delete(s.owners, o.offset)
	}
}

// startAgain notes that the key may begin again from now on, after this revision.
func (w *upheaval) startAgain(after int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newStart, w.newAfter = time.Since(w.start), after
}

// wait lets the callers work until enough is done.
func (w *upheaval) wait(enough func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		is := enough()
		w.mu.Unlock()
		if is || w.t.Failed() {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d operations acknowledged, %d of them and %d releases after the new beginning", w.acknowledged, w.acknowledgedNew, w.releasedNew)
		}
	}
}

// check compares the answers to the callers with the history of the key: up to a revision
// that of before, then that of the new beginning.
func (w *upheaval) check(old int64) {
	all, _, err := readHistory(w.t.Context(), w.client, faultKey, w.values, state{})
	if err != nil {
		w.t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(c change) bool { return c.revision > old })
	if at < 0 {
		w.t.Fatal("nothing was written after the new beginning")
	}
	var before, after []*operation
	handedOut := map[uint32]bool{}
	for _, o := range w.operations {
		maybe := *o // what it did may have been undone, or it may have done it to the other one
		maybe.outcome = unknown
		isAllocated := o.kind == allocateNext && o.outcome == done
		switch {
		case w.isNew(o.call):
			after = append(after, o)
		case isAllocated && w.isNew(o.end) && o.revision > w.newAfter:
			before, after = append(before, &maybe), append(after, o)
		case isAllocated:
			handedOut[o.offset] = true
			if o.revision <= old {
				before = append(before, o)
			}
		default:
			before = append(before, &maybe)
			if w.isNew(o.end) {
				after = append(after, &maybe)
			}
		}
	}
	held := holders{}
	if old > 0 {
		if _, _, err := explain(all[:at], before, held, true); err != nil {
			w.t.Errorf("up to revision %d: %v", old, err)
		}
	}
	ghosts, _, err := explain(all[at:], after, held, true)
	if err != nil {
		w.t.Errorf("after the new beginning: %v", err)
	}
	again := 0
	for _, g := range ghosts {
		if g.kind == allocate && handedOut[g.offset] {
			again++
		}
	}
	w.t.Logf("%d operations acknowledged, %d of them after the new beginning; %d releases as of a revision before it; %d offsets set that nobody was given, %d of them had been handed out before",
		w.acknowledged, w.acknowledgedNew, w.lostAsOf, len(ghosts), again)
	// Either is up to chance; TestRestored has both for certain.
	if w.lostAsOf+again == 0 {
		w.t.Error("no release as of a revision before the new beginning, and nothing was set again")
	}
}
