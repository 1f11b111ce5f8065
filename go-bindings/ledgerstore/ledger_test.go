package ledgerstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

var pool = rangekeeper.Pool{Range: "1-400", Choice: rangekeeper.Lowest}

func open(t *testing.T, store Store) *Ledger {
	t.Helper()
	ledger, err := New(store, pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	return ledger
}

// usage returns how many values are in use in what is stored.
func usage(t *testing.T, ledger *Ledger) uint64 {
	t.Helper()
	known, err := ledger.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	usage, err := known.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return usage.Used
}

var errLost = errors.New("the answer is lost")

// faulty loses requests and answers, and delays writes.
type faulty struct {
	Store
	mutex sync.Mutex
	late  []func()
	lost  int
}

func (f *faulty) fate() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	fate := rand.IntN(10)
	if fate < 4 {
		f.lost++
	}
	// A write that is late arrives some time.
	if len(f.late) > 0 && rand.IntN(3) == 0 {
		f.late[0]()
		f.late = f.late[1:]
	}
	return fate
}

func (f *faulty) Get(ctx context.Context) (value, token []byte, err error) {
	if f.fate() == 0 {
		return nil, nil, errLost
	}
	return f.Store.Get(ctx)
}

func (f *faulty) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	switch f.fate() {
	case 0, 1:
		return nil, errLost
	case 2:
		_, _ = f.Store.Put(ctx, value, token)
		return nil, errLost
	case 3:
		f.mutex.Lock()
		defer f.mutex.Unlock()
		f.late = append(f.late, func() { _, _ = f.Store.Put(context.Background(), value, token) })
		return nil, errLost
	default:
		return f.Store.Put(ctx, value, token)
	}
}

// TestManyCallers has callers of three programs ask for values until they get them, over a store that loses answers,
// and give half of them back.
func TestManyCallers(t *testing.T) {
	const programs, callers, rounds = 3, 20, 5
	var store Memory
	var group sync.WaitGroup
	var mutex sync.Mutex
	has := map[uint64]string{}
	var stores [programs]faulty
	for p := range programs {
		f := &stores[p]
		f.Store = &store
		ledger := open(t, f)
		for c := range callers {
			group.Go(func() {
				for r := range rounds {
					owner := fmt.Sprintf("%d/%d/%d", p, c, r)
					got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
					for ; errors.Is(err, errLost); got, err = ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner) {
					}
					if err != nil {
						t.Error(err)
						return
					}
					mutex.Lock()
					value := got.First.Integer()
					if other := has[value]; other != "" {
						t.Errorf("%s and %s have %d", other, owner, value)
					}
					has[value] = owner
					mutex.Unlock()
					if r%2 == 1 {
						mutex.Lock()
						delete(has, value) // from now on somebody else can get it
						mutex.Unlock()
						_, err := ledger.ReleaseOwner(t.Context(), owner)
						for ; errors.Is(err, errLost); _, err = ledger.ReleaseOwner(t.Context(), owner) {
						}
						if err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	group.Wait()
	if lost := stores[0].lost + stores[1].lost + stores[2].lost; lost < 5 {
		t.Errorf("only %d requests were lost", lost)
	}
	ledger := open(t, &store)
	known, err := ledger.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	n := 0
	for value := range known.Values() {
		owner, _, err := known.OwnerOf(value)
		if err != nil || has[value.Integer()] != owner {
			t.Errorf("%v belongs to %q, and was given to %q: %v", value, owner, has[value.Integer()], err)
		}
		n++
	}
	if n != len(has) || n != programs*callers*3 {
		t.Errorf("%d values are stored, and %d were given", n, len(has))
	}
}

func TestErrors(t *testing.T) {
	if _, err := New(&Memory{}, rangekeeper.Pool{Range: "x", Choice: rangekeeper.Lowest}); !errors.Is(err, rangekeeper.ErrInvalidArgument) {
		t.Error(err)
	}
	ctx := t.Context()
	var store Memory
	ledger := open(t, &store)
	if got, err := ledger.Allocate(ctx, rangekeeper.WantRun(400), "all"); err != nil || got.Len != 400 {
		t.Fatal(got, err)
	}
	if _, err := ledger.Allocate(ctx, rangekeeper.WantAny(), ""); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error(err)
	}
	if _, err := ledger.Release(ctx, rangekeeper.IntegerValue(7)); !errors.Is(err, rangekeeper.ErrOwned) || !strings.Contains(err.Error(), "all") {
		t.Error(err)
	}
	if all, err := ledger.ReleaseOwner(ctx, "all"); err != nil || len(all) != 1 || all[0].Len != 400 {
		t.Error(all, err)
	}
	if got, err := ledger.Allocate(ctx, rangekeeper.WantAny(), ""); err != nil || got.First != rangekeeper.IntegerValue(1) {
		t.Error(got, err)
	}
	if released, err := ledger.Release(ctx, rangekeeper.IntegerValue(1)); err != nil || !released {
		t.Error(released, err)
	}
	if n := usage(t, ledger); n != 0 {
		t.Errorf("%d values are in use", n)
	}
	_ = ledger.Close()
	if _, err := ledger.Allocate(ctx, rangekeeper.WantAny(), ""); !errors.Is(err, rangekeeper.ErrClosed) {
		t.Error(err)
	}
}

// scripted is a store whose next call returns fault, if it is not nil, and that answers a put when it is told to.
type scripted struct {
	Memory
	mutex    sync.Mutex
	fault    error
	requests int
	putting  chan struct{}
	answer   chan struct{}
}

func (s *scripted) next() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests++
	return s.fault
}

func (s *scripted) set(fault error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fault = fault
}

func (s *scripted) Get(ctx context.Context) (value, token []byte, err error) {
	if err := s.next(); err != nil {
		return nil, nil, err
	}
	return s.Memory.Get(ctx)
}

func (s *scripted) Put(ctx context.Context, value, token []byte) ([]byte, error) {
	newToken, err := s.Memory.Put(ctx, value, token)
	if s.putting != nil {
		s.putting <- struct{}{}
		select {
		case <-s.answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return newToken, errors.Join(err, s.next())
}

// idle waits until the ledger asks nothing, and checks that nobody waits.
func idle(t *testing.T, ledger *Ledger) {
	t.Helper()
	for {
		ledger.mutex.Lock()
		running, waiting := ledger.running, len(ledger.waiting)
		ledger.mutex.Unlock()
		if !running {
			if waiting != 0 {
				t.Errorf("%d calls wait", waiting)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAStoreThatFails(t *testing.T) {
	store := &scripted{fault: errors.New("configmaps is forbidden")}
	ledger := open(t, store)
	for _, owner := range []string{"a", ""} {
		if _, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner); err == nil || err.Error() != "read the ledger: configmaps is forbidden" {
			t.Error(err)
		}
	}
	// What was refused is not made later.
	store.set(nil)
	if n := usage(t, ledger); n != 0 {
		t.Errorf("%d values are in use", n)
	}
	// A put whose answer is lost: the owner repeats its call, and for nobody the outcome is unknown.
	if _, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "first"); err != nil {
		t.Fatal(err)
	}
	store.set(errLost)
	if _, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "b"); err == nil || err.Error() != "write the ledger: the answer is lost" {
		t.Error(err)
	}
	store.set(nil)
	if got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "b"); err != nil || got.First != rangekeeper.IntegerValue(2) {
		t.Error(got, err)
	}
	store.set(errLost)
	if _, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), ""); !errors.Is(err, rangekeeper.ErrUnanswered) || !errors.Is(err, errLost) {
		t.Error(err)
	}
	store.set(nil)
	// A read needs no write.
	_, before, _ := store.Memory.Get(t.Context())
	if n := usage(t, ledger); n != 3 {
		t.Errorf("%d values are in use", n)
	}
	if _, after, _ := store.Memory.Get(t.Context()); string(after) != string(before) {
		t.Error("a read has written")
	}
	idle(t, ledger)

	// A value that is not a ledger, or too large for the library, and later the ledger again.
	good, _, _ := store.Memory.Get(t.Context())
	for _, bad := range [][]byte{[]byte("no ledger"), make([]byte, 130<<20), nil} {
		store.Memory.mutex.Lock()
		store.Memory.value = bad
		store.Memory.version++
		store.Memory.mutex.Unlock()
		for range 2 {
			if got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "c"); err == nil || errors.Is(err, rangekeeper.ErrFull) {
				t.Errorf("%d bytes: %v", len(bad), got)
			}
		}
		store.Memory.mutex.Lock()
		store.Memory.value = good
		store.Memory.version++
		store.Memory.mutex.Unlock()
		if got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "b"); err != nil || got.First != rangekeeper.IntegerValue(2) {
			t.Errorf("after %d bytes: %v, %v", len(bad), got, err)
		}
	}
}

// TestACallerThatGoes while its write is under way: what it was given for nobody is released, what an owner has is not.
// A store that fails meanwhile is not asked again and again.
func TestACallerThatGoes(t *testing.T) {
	for owner, want := range map[string]uint64{"": 0, "owner": 1} {
		store := &scripted{putting: make(chan struct{}, 10), answer: make(chan struct{}, 10)}
		ledger := open(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := ledger.Allocate(ctx, rangekeeper.WantAny(), owner)
			ended <- err
		}()
		<-store.putting
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for range 10 {
			store.answer <- struct{}{}
		}
		idle(t, ledger)
		stored, _, err := store.Memory.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		opened, err := rangekeeper.OpenLedger(pool, stored, 1)
		if err != nil {
			t.Fatal(err)
		}
		if usage, err := opened.Usage(); err != nil || usage.Used != want {
			t.Errorf("owner %q: %+v, %v, and not %d values", owner, usage, err, want)
		}
	}
	store := &scripted{putting: make(chan struct{}, 10), answer: make(chan struct{}, 10)}
	ledger := open(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := ledger.Allocate(ctx, rangekeeper.WantAny(), "")
		ended <- err
	}()
	<-store.putting
	cancel()
	<-ended
	store.answer <- struct{}{}
	<-store.putting // the release
	store.set(errLost)
	store.answer <- struct{}{}
	idle(t, ledger)
	if store.requests > 4 {
		t.Errorf("%d requests to a store that fails", store.requests)
	}
}

// limited takes values of so many bytes at most, once it has a limit.
type limited struct {
	scripted
	most int
}

func (l *limited) Put(ctx context.Context, value, token []byte) ([]byte, error) {
	l.mutex.Lock()
	most := l.most
	l.mutex.Unlock()
	if most > 0 && len(value) > most {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(value))
	}
	return l.scripted.Put(ctx, value, token)
}

// TestTooLarge has one caller ask for more than fits into the store, beside others: they get an answer.
func TestTooLarge(t *testing.T) {
	store := &limited{scripted: scripted{putting: make(chan struct{}, 100), answer: make(chan struct{}, 100)}}
	ledger := open(t, store)
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "first"); err != nil {
			t.Error(err)
		}
	})
	<-store.putting
	stored, _, _ := store.Memory.Get(t.Context())
	store.mutex.Lock()
	store.most = len(stored) + 500
	store.mutex.Unlock()
	// All these wait, and become one write.
	waiting := func() int {
		ledger.mutex.Lock()
		defer ledger.mutex.Unlock()
		return len(ledger.waiting)
	}
	for n := range 6 {
		group.Go(func() {
			owner := fmt.Sprint(n)
			if n == 3 {
				owner = strings.Repeat("x", 1000)
			}
			_, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
			if refused := errors.Is(err, rangekeeper.ErrRefused); refused != (n == 3) || err != nil && !refused {
				t.Error(n, err)
			}
		})
	}
	group.Go(func() {
		if released, err := ledger.ReleaseOwner(t.Context(), "nobody"); err != nil || len(released) > 0 {
			t.Error(released, err)
		}
	})
	for waiting() < 8 {
		time.Sleep(time.Millisecond)
	}
	for range 100 {
		store.answer <- struct{}{}
	}
	group.Wait()
	if n := usage(t, ledger); n != 6 {
		t.Errorf("%d values are in use", n)
	}
}

// TestReadBesideWriters: a read ends, however busy the ledger is, and its copy is its own.
func TestReadBesideWriters(t *testing.T) {
	var store Memory
	ledger := open(t, &store)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				owner := fmt.Sprint(n)
				if _, err := ledger.Allocate(ctx, rangekeeper.WantAny(), owner); err == nil {
					_, _ = ledger.ReleaseOwner(ctx, owner)
				}
			}
		})
	}
	for range 50 {
		known, err := ledger.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if usage, err := known.Usage(); err != nil || usage.Used > 4 {
			t.Error(usage, err)
		}
		_ = known.Close()
	}
	cancel()
	group.Wait()
}

func TestCloseBesideACall(t *testing.T) {
	store := &scripted{putting: make(chan struct{}, 10), answer: make(chan struct{}, 10)}
	ledger := open(t, store)
	ended := make(chan error)
	go func() {
		_, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), "a")
		ended <- err
	}()
	<-store.putting
	_ = ledger.Close()
	if err := <-ended; !errors.Is(err, rangekeeper.ErrClosed) {
		t.Error(err)
	}
	idle(t, ledger)
}
