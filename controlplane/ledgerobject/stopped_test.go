package ledgerobject

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

// impatient is a store whose program waits a second for an answer.
type impatient struct{ ledgerstore.Store }

func (s impatient) Get(ctx context.Context) (value, token []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.Store.Get(ctx)
}

func (s impatient) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.Store.Put(ctx, value, token)
}

// program has a ledger, which it may open again, as after a restart.
type program struct {
	open   func() *ledgerstore.Ledger
	mutex  sync.Mutex
	ledger *ledgerstore.Ledger
}

func (p *program) current() *ledgerstore.Ledger {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.ledger
}

func (p *program) restart() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	_ = p.ledger.Close()
	p.ledger = p.open()
}

// TestStoppedServer has programs allocate and release values in one ConfigMap while its API server is paused for longer
// than they wait, is killed, and while they restart. No value may have two owners, and none may stay in use: an owner
// without an answer asks again.
func TestStoppedServer(t *testing.T) {
	const programs, callers, values = 3, 6, 24
	server := startServer(t)
	pool := rangekeeper.Pool{Range: fmt.Sprintf("4096-%d", 4096+values-1), Choice: rangekeeper.Lowest}
	var all []*program
	for range programs {
		p := &program{open: func() *ledgerstore.Ledger {
			objects, _ := clients(t, server)
			ledger, err := ledgerstore.New(impatient{ConfigMap(objects, "default", "vnis", "ledger")}, pool)
			if err != nil {
				panic(err)
			}
			return ledger
		}}
		p.ledger = p.open()
		defer func() { _ = p.current().Close() }()
		all = append(all, p)
	}
	var mutex sync.Mutex
	owners := map[uint64]string{}
	var given, released, unanswered atomic.Int64
	// repeat calls until there is an answer.
	repeat := func(call func() error) {
		for err := call(); err != nil && t.Context().Err() == nil; err = call() {
			unanswered.Add(1)
			time.Sleep(10 * time.Millisecond)
		}
	}
	var work sync.WaitGroup
	worked, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range programs * callers {
		work.Go(func() {
			owner := fmt.Sprint("object-", i)
			for worked.Err() == nil {
				var got rangekeeper.Allocation
				repeat(func() (err error) {
					got, err = all[rand.IntN(programs)].current().Allocate(t.Context(), rangekeeper.WantAny(), owner)
					return err
				})
				mutex.Lock()
				if other := owners[got.First.Integer()]; other != "" {
					t.Errorf("%s and %s have %v", other, owner, got.First)
				}
				owners[got.First.Integer()] = owner
				mutex.Unlock()
				given.Add(1)
				time.Sleep(rand.N(20 * time.Millisecond))
				mutex.Lock()
				delete(owners, got.First.Integer())
				mutex.Unlock()
				repeat(func() error {
					_, err := all[rand.IntN(programs)].current().ReleaseOwner(t.Context(), owner)
					return err
				})
				released.Add(1)
			}
		})
	}
	// progress waits until each caller can have had a value since.
	progress := func() {
		for before := given.Load(); given.Load() < before+programs*callers && t.Context().Err() == nil; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	awaitUnanswered := func() {
		for before := unanswered.Load(); unanswered.Load() < before+programs*callers && t.Context().Err() == nil; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	progress()
	server.Pause()
	awaitUnanswered()
	all[0].restart()
	server.Resume()
	progress()
	if etcdtest.Cases(1) > 1 { // at night, as a start takes seconds
		server.Kill()
		all[1].restart()
		awaitUnanswered()
		server.Restart()
		progress()
	}
	stop()
	work.Wait()
	known, err := all[2].current().Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	if usage, err := known.Usage(); err != nil || usage.Used != 0 {
		t.Errorf("all is released, and %d values are in use: %v", usage.Used, err)
	}
	t.Logf("%d values given, %d released, %d calls without an answer", given.Load(), released.Load(), unanswered.Load())
}
