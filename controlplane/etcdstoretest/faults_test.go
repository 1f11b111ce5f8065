package etcdstoretest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const faultKey = "/registry/ranges/servicenodeports"

// server is a store, and what was allocated from it and is held.
type server struct {
	*etcdstore.Store
	t      *testing.T
	client *clientv3.Client
	held   []etcdstore.Allocation
}

// startServer makes the object with two values in use.
func startServer(t *testing.T, client *clientv3.Client) *server {
	t.Helper()
	s := &server{Store: openStore(t, client), t: t, client: client}
	if created, err := s.Init(t.Context()); err != nil || !created {
		t.Fatalf("created: %v, %v", created, err)
	}
	s.allocate()
	s.allocate()
	return s
}

func openStore(t *testing.T, client *clientv3.Client) *etcdstore.Store {
	t.Helper()
	r, err := rangekeeper.ParsePortRange(ports)
	if err != nil {
		t.Fatal(err)
	}
	return openRange(t, client, r)
}

func openRange(t *testing.T, client *clientv3.Client, r rangekeeper.Range) *etcdstore.Store {
	t.Helper()
	store, err := etcdstore.Open(etcdstore.Config{
		Client: client, Key: faultKey, Range: r, Strategy: rangekeeper.DynamicBandFirst,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return store
}

func (s *server) allocate() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	got, err := s.AllocateNext(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.holds(got.Value) {
		s.t.Fatalf("%v is held and was handed out again", got.Value)
	}
	s.held = append(s.held, got)
}

// works checks that all operations succeed, and that nothing was lost: a value that is
// held can be released, and what is free is all that is not held.
func (s *server) works() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	now, err := s.client.Get(ctx, faultKey)
	if err != nil {
		s.t.Fatal(err)
	}
	released := s.held[0]
	if ok, err := s.Release(ctx, released.Value, rangekeeper.OwnedSince(now.Header.Revision)); err != nil || !ok {
		s.t.Fatalf("release %v: %v, %v", released.Value, ok, err)
	}
	s.held = s.held[1:]
	if got, err := s.Allocate(ctx, released.Value); err != nil {
		s.t.Fatal(err)
	} else {
		s.held = append(s.held, got)
	}
	kept := len(s.held)
	for len(s.held) < values {
		s.allocate()
	}
	if got, err := s.AllocateNext(ctx); !errors.Is(err, rangekeeper.ErrFull) {
		s.t.Fatalf("all are held: %v, %v", got, err)
	}
	s.keep(kept)
	s.holdsExactly()
}

// keep releases what was allocated last.
func (s *server) keep(n int) {
	s.t.Helper()
	for _, a := range s.held[n:] {
		if ok, err := s.Release(s.t.Context(), a.Value, rangekeeper.OwnedSince(a.Revision)); err != nil || !ok {
			s.t.Fatalf("release %v: %v, %v", a.Value, ok, err)
		}
	}
	s.held = s.held[:n]
}

// used reads what is stored.
func (s *server) used() *big.Int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	got, err := s.client.Get(ctx, faultKey)
	if err != nil || len(got.Kvs) != 1 {
		s.t.Fatal(got, err)
	}
	used, err := decode(got.Kvs[0].Value, s.Range())
	if err != nil {
		s.t.Fatal(err)
	}
	return used
}

// holdsExactly checks what is stored against what is held.
func (s *server) holdsExactly() {
	s.t.Helper()
	used := s.used()
	want := new(big.Int)
	for _, a := range s.held {
		offset, _ := s.Range().OffsetOf(a.Value)
		want.SetBit(want, int(offset), 1)
	}
	if used.Cmp(want) != 0 {
		s.t.Fatalf("stored %b, held %b", used, want)
	}
}

// fails calls each operation and checks that it returns an error that names the key and
// has these words.
func (s *server) fails(timeout time.Duration, words ...string) {
	s.t.Helper()
	for name, call := range s.calls() {
		ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
		err := call(ctx)
		cancel()
		if err == nil {
			s.t.Errorf("%s: no error", name)
			continue
		}
		for _, word := range append(words, faultKey) {
			if !strings.Contains(err.Error(), word) {
				s.t.Errorf("%s: %q is not in %v", name, word, err)
			}
		}
	}
}

// calls are operations that would change something.
func (s *server) calls() map[string]func(ctx context.Context) error {
	free := s.freeValue()
	return map[string]func(ctx context.Context) error{
		"allocate next": func(ctx context.Context) error { _, err := s.AllocateNext(ctx); return err },
		"allocate":      func(ctx context.Context) error { _, err := s.Allocate(ctx, free); return err },
		"release": func(ctx context.Context) error {
			_, err := s.Release(ctx, s.held[0].Value, rangekeeper.OwnedSince(s.held[0].Revision))
			return err
		},
	}
}

func (s *server) freeValue() rangekeeper.Value {
	for offset := range s.Range().Size() {
		if value, _ := s.Range().ValueAt(offset); !s.holds(value) {
			return value
		}
	}
	panic("all are held")
}

// TestUnreadable puts something else under the key: it must stay there, and when the
// object is back the same store goes on.
func TestUnreadable(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	client := etcd.Client()
	s := startServer(t, client)
	good := stored(t, client)
	for name, c := range map[string]struct {
		value []byte
		words []string
		is    error
	}{
		"empty":         {value: nil, words: []string{"empty"}, is: rangekeeper.ErrUnreadable},
		"garbage":       {value: []byte("garbage"), words: []string{"not a RangeAllocation", "garbage"}, is: rangekeeper.ErrUnreadable},
		"cut off":       {value: good[:len(good)/2], words: []string{"at byte"}, is: rangekeeper.ErrUnreadable},
		"flipped bytes": {value: bytes.ReplaceAll(good, []byte("v1"), []byte("\xff\xff")), words: []string{"at byte"}, is: rangekeeper.ErrUnreadable},
		"protobuf of another kind": {
			value: object(t, "Service", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}),
			words: []string{`"Service"`, "RangeAllocation"}, is: rangekeeper.ErrUnreadable,
		},
		"JSON of another kind": {
			value: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web"}}`),
			words: []string{`"ConfigMap"`, "RangeAllocation"}, is: rangekeeper.ErrUnreadable,
		},
		"encrypted": {
			value: append([]byte("k8s:enc:aescbc:v1:key1:"), good...),
			words: []string{"encrypted", "aescbc"}, is: rangekeeper.ErrUnreadable,
		},
		"another kind of range": {
			value: object(t, "RangeAllocation", &corev1.RangeAllocation{Range: "10.96.0.0/12"}),
			words: []string{"10.96.0.0/12", ports}, is: rangekeeper.ErrUnreadable,
		},
		"another range": {
			value: object(t, "RangeAllocation", &corev1.RangeAllocation{Range: "30000-30015", Data: []byte{1}}),
			words: []string{"30000-30015", ports},
		},
		"bits past the range": {
			value: object(t, "RangeAllocation", &corev1.RangeAllocation{Range: ports, Data: []byte{1, 0}}),
			words: []string{"offset 8"}, is: rangekeeper.ErrUnreadable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			put(t, client, c.value)
			before := keyState(t, client)
			s.fails(patience, c.words...)
			for name, call := range s.calls() {
				if err := call(t.Context()); c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%s: %v is not %v", name, err, c.is)
				} else if mismatch := new(*rangekeeper.MismatchedRangeError); c.is == nil && !errors.As(err, mismatch) {
					t.Errorf("%s: %v is no MismatchedRangeError", name, err)
				}
			}
			if created, err := s.Init(t.Context()); created || err == nil || !strings.Contains(err.Error(), faultKey) {
				t.Errorf("init: %v, %v", created, err)
			}
			if after := keyState(t, client); after != before {
				t.Errorf("changed: %+v, was %+v", after, before)
			}
			put(t, client, good)
			s.works()
		})
	}
}

// TestMissing takes the object away: nothing is allocated until it is recreated, and what
// was handed out a short while before stays taken.
func TestMissing(t *testing.T) {
	client := etcdtest.Start(t, "").Client()
	remove := func() {
		if _, err := client.Delete(t.Context(), faultKey); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name      string
		fault     func()
		byAnother bool // whether another server recreates it
	}{
		{name: "deleted", fault: remove},
		{name: "deleted, and recreated by another server", fault: remove, byAnother: true},
		{
			name:  "emptied",
			fault: func() { put(t, client, object(t, "RangeAllocation", &corev1.RangeAllocation{})) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			remove()
			s := startServer(t, client)
			by := s.Store
			if c.byAnother {
				by = openStore(t, client)
			}
			c.fault()
			before := keyState(t, client)
			for name, call := range s.calls() {
				// A release would find the value free, and its owner would have it no more.
				if name == "release" {
					continue
				}
				if err := call(t.Context()); !errors.Is(err, rangekeeper.ErrNotInitialised) || !strings.Contains(err.Error(), faultKey) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if after := keyState(t, client); after != before {
				t.Errorf("changed: %+v, was %+v", after, before)
			}
			if created, err := by.Init(t.Context()); err != nil || !created {
				t.Fatalf("created: %v, %v", created, err)
			}
			for len(s.held) < values {
				s.allocate()
			}
			s.holdsExactly()
		})
	}
}

// TestRestart kills etcd: operations end by their deadline, those that have the time
// wait, and the same store goes on.
func TestRestart(t *testing.T) {
	cluster := etcdtest.StartCluster(t, 1)
	s := startServer(t, cluster.Client())
	for range 3 {
		cluster.Kill(0)
		uncertain := 0
		for name, call := range s.calls() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			err := call(ctx)
			cancel()
			if err == nil || !strings.Contains(err.Error(), faultKey) || !strings.Contains(err.Error(), "deadline") {
				t.Errorf("%s: %v", name, err)
			}
			if errors.Is(err, etcdstore.ErrUnknown) {
				uncertain++
				if name == "release" {
					s.held = s.held[1:]
				}
			}
		}
		var waiting sync.WaitGroup
		allocated := make(chan etcdstore.Allocation, 3)
		for range cap(allocated) {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // etcd has to start meanwhile
				defer cancel()
				got, err := s.AllocateNext(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				allocated <- got
			})
		}
		cluster.Restart(0)
		waiting.Wait()
		close(allocated)
		for got := range allocated {
			s.held = append(s.held, got)
		}
		s.settle(uncertain)
		s.works()
		s.keep(2)
	}
}

// settle releases what is stored and not held: so many operations may or may not have
// left something behind.
func (s *server) settle(most int) {
	s.t.Helper()
	now, err := s.client.Get(s.t.Context(), faultKey)
	if err != nil || len(now.Kvs) != 1 {
		s.t.Fatal(now, err)
	}
	used, err := decode(now.Kvs[0].Value, s.Range())
	if err != nil {
		s.t.Fatal(err)
	}
	left := 0
	for offset := range s.Range().Size() {
		value, _ := s.Range().ValueAt(offset)
		if used.Bit(int(offset)) == 0 || s.holds(value) {
			continue
		}
		left++
		if ok, err := s.Release(s.t.Context(), value, rangekeeper.OwnedSince(now.Header.Revision)); err != nil || !ok {
			s.t.Fatalf("release %d: %v, %v", value, ok, err)
		}
	}
	if left > most {
		s.t.Fatalf("%d values are allocated and nobody has them; %d operations were unknown", left, most)
	}
	s.holdsExactly()
}

func (s *server) holds(value rangekeeper.Value) bool {
	return slices.ContainsFunc(s.held, func(a etcdstore.Allocation) bool { return a.Value == value })
}

// TestNoSpace fills the database up to its quota, and then makes room again.
func TestNoSpace(t *testing.T) {
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(t.TempDir(), "etcd"), Quota: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	client := etcd.Client()
	s := startServer(t, client)
	filling := strings.Repeat("x", 1<<18)
	for i := 0; !errors.Is(err, rpctypes.ErrNoSpace); i++ {
		if _, err = client.Put(t.Context(), "/filling", filling); i > 1000 {
			t.Fatalf("the quota is not reached: %v", err)
		}
	}
	before := keyState(t, client)
	s.fails(patience, "space")
	if after := keyState(t, client); after != before {
		t.Errorf("changed: %+v, was %+v", after, before)
	}

	now, err := client.Delete(t.Context(), "/filling")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(t.Context(), etcd.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	s.fails(patience, "space") // room alone is not enough
	if _, err := client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	s.works()
}

// TestNoSpaceWhileAllocating reaches the quota while callers allocate and release. etcd
// may carry a transaction out and answer that there is no space (its quota is checked
// before it is proposed, and again where it is applied): the answer to a caller must be
// true nevertheless.
func TestNoSpaceWhileAllocating(t *testing.T) {
	for range 5 {
		etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(t.TempDir(), "etcd"), Quota: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer etcd.Close()
		client := etcd.Client()
		store := openStore(t, client)
		if _, err := store.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		var (
			work       sync.WaitGroup
			mu         sync.Mutex
			operations []*operation
		)
		filling := strings.Repeat("x", 1<<14)
		for range callers {
			work.Go(func() {
				for {
					if _, err := client.Put(t.Context(), "/filling", filling); errors.Is(err, rpctypes.ErrNoSpace) {
						return
					}
				}
			})
		}
		for range callers {
			work.Go(func() {
				var mine *operation
				for {
					o := &operation{kind: allocate, offset: rand.Uint32N(values)}
					if mine != nil {
						o = &operation{kind: release, offset: mine.offset, asOf: mine.revision}
					}
					err := perform(t.Context(), store, store.Range(), o)
					if err != nil {
						o.outcome = expired // it says that it did nothing
					}
					mu.Lock()
					operations = append(operations, o)
					mu.Unlock()
					switch {
					case err != nil && strings.Contains(err.Error(), "space"), o.outcome == unknown:
						return
					case err != nil:
						t.Error(err)
						return
					case o.outcome == done && o.kind == allocate:
						mine = o
					case o.kind == release:
						mine = nil
					}
				}
			})
		}
		work.Wait()
		changes, _, err := readHistory(t.Context(), client, faultKey, store.Range(), state{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := explain(changes, operations, holders{}, true); err != nil {
			t.Error(err)
		}
	}
}

// TestCompacted takes the history away that a release needs: it does nothing and reports
// so. With an as-of revision that is known again, it frees the value.
func TestCompacted(t *testing.T) {
	client := etcdtest.Start(t, "").Client()
	s := startServer(t, client)
	other := openStore(t, client)
	for range 20 { // the object goes on, and s does not see it
		got, err := other.AllocateNext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := other.Release(t.Context(), got.Value, rangekeeper.OwnedSince(got.Revision)); err != nil || !ok {
			t.Fatalf("release %v: %v, %v", got.Value, ok, err)
		}
	}
	compacted := keyState(t, client)
	if _, err := client.Compact(t.Context(), compacted.revision); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*etcdstore.Store{"the one that has it": s.Store, "one that is new": openStore(t, client)} {
		ok, err := store.Release(t.Context(), s.held[0].Value, rangekeeper.OwnedSince(s.held[0].Revision))
		if ok || !errors.Is(err, etcdstore.ErrDeferred) || !strings.Contains(err.Error(), faultKey) {
			t.Errorf("release over a gap, by %s: %v, %v", name, ok, err)
		}
		if after := keyState(t, client); after != compacted {
			t.Errorf("changed: %+v, was %+v", after, compacted)
		}
	}
	s.works()
}

// revisionAndValue is the state of the key.
type revisionAndValue struct {
	revision int64
	value    string
}

func keyState(t *testing.T, client *clientv3.Client) revisionAndValue {
	t.Helper()
	got, err := client.Get(t.Context(), faultKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) == 0 {
		return revisionAndValue{}
	}
	return revisionAndValue{got.Kvs[0].ModRevision, string(got.Kvs[0].Value)}
}

func stored(t *testing.T, client *clientv3.Client) []byte {
	t.Helper()
	return []byte(keyState(t, client).value)
}

func put(t *testing.T, client *clientv3.Client, value []byte) {
	t.Helper()
	if _, err := client.Put(t.Context(), faultKey, string(value)); err != nil {
		t.Fatal(err)
	}
}

// object encodes an object as kube-apiserver stores it.
func object(t *testing.T, kind string, content interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := content.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	b, err := envelope.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Append(nil, "k8s\x00", string(b))
}
