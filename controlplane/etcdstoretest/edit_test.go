package etcdstoretest

import (
	"context"
	"errors"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const editServices = "/registry/services/specs/"

// openForEdits opens the range of the other tests, with Services in the same etcd.
func openForEdits(t *testing.T, etcd *embedded.Etcd) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(etcdstore.Config{
		Client: etcd.Client(), Key: key, Range: must(rangekeeper.ParseCIDR("10.0.0.0/24")), Strategy: rangekeeper.DynamicBandFirst, Services: editServices,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func revisionOf(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	got, err := client.Get(t.Context(), key, clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	return got.Header.Revision
}

func fates(edited rangekeeper.Edited) (all []rangekeeper.Fate) {
	for _, one := range edited.Values {
		all = append(all, one.Fate)
	}
	return all
}

// TestEndLooks ends the look of an edit before that is written.
func TestEndLooks(t *testing.T) {
	etcd := startEtcd(t)
	s := openForEdits(t, etcd)
	must(s.Init(t.Context()))
	value := must(rangekeeper.ParseValue("10.0.0.77"))
	must(s.Allocate(t.Context(), value))
	look := must(s.Look(t.Context()))
	if err := etcdstore.EndLooks(t.Context(), etcd.Client(), key); err != nil {
		t.Fatal(err)
	}
	change := rangekeeper.Edit{Kind: rangekeeper.EditForce, Clear: []rangekeeper.Value{value}}
	if edited, err := s.Edit(t.Context(), look, change); !errors.Is(err, rangekeeper.ErrServicesWritten) {
		t.Error(edited, err)
	}
	look = must(s.Look(t.Context()))
	defer look.End(t.Context())
	if edited := must(s.Edit(t.Context(), look, change)); !edited.Done {
		t.Error(edited)
	}
}

// TestLooksOfAPassEndTogether ends the last look of a pass over several ranges: none of the others stays in etcd.
func TestLooksOfAPassEndTogether(t *testing.T) {
	etcd := startEtcd(t)
	looks := func() int64 {
		return must(etcd.Client().Get(t.Context(), key, clientv3.WithPrefix(), clientv3.WithCountOnly())).Count
	}
	var look *etcdstore.Look
	for n := range int64(3) {
		look = must(etcdstore.BeginLook(t.Context(), etcd.Client(), key, look))
		if there := looks(); there != n+1 {
			t.Fatalf("%d looks are there, not %d", there, n+1)
		}
	}
	look.End(t.Context())
	if there := looks(); there != 0 {
		t.Errorf("%d looks have not ended", there)
	}
}

// TestEditThroughEtcd frees a value that another store has recorded before, whose history etcd has, has compacted, or
// shows to have a break. What is freed is fenced off, and nothing is written once a Service was written.
func TestEditThroughEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	value, other := must(rangekeeper.ParseValue("10.0.0.77")), must(rangekeeper.ParseValue("10.0.0.78"))
	for name, c := range map[string]struct {
		before func(etcd *embedded.Etcd, theirs *etcdstore.Store, since etcdstore.Allocation)
		want   rangekeeper.Fate
	}{
		"recorded all the time": {
			func(_ *embedded.Etcd, theirs *etcdstore.Store, _ etcdstore.Allocation) {
				for range 20 {
					a := must(theirs.Allocate(ctx, other))
					must(theirs.Release(ctx, other, a.Owner()))
				}
			}, rangekeeper.FateCleared,
		},
		"free for a moment": {
			func(_ *embedded.Etcd, theirs *etcdstore.Store, since etcdstore.Allocation) {
				must(theirs.Release(ctx, value, since.Owner()))
				must(theirs.Allocate(ctx, value))
			}, rangekeeper.FateReallocated,
		},
		"compacted": {
			func(etcd *embedded.Etcd, theirs *etcdstore.Store, _ etcdstore.Allocation) {
				must(theirs.Allocate(ctx, other))
				must(etcd.Client().Compact(ctx, revisionOf(t, etcd.Client())))
			}, rangekeeper.FateUnsure,
		},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := startEtcd(t)
			theirs := openForEdits(t, etcd)
			must(theirs.Init(ctx))
			since := must(theirs.Allocate(ctx, value))
			c.before(etcd, theirs, since)
			ours := openForEdits(t, etcd)
			change := rangekeeper.Edit{Kind: rangekeeper.EditUndo, Clear: []rangekeeper.Value{value}, Since: since.Revision}

			edit := func(isLate bool) (rangekeeper.Edited, error) {
				look := must(ours.Look(ctx))
				defer look.End(ctx)
				if isLate {
					must(etcd.Client().Put(ctx, editServices+"default/late", "a Service"))
				}
				return ours.Edit(ctx, look, change)
			}
			_, err := edit(true)
			if isWritten := c.want == rangekeeper.FateCleared; errors.Is(err, rangekeeper.ErrServicesWritten) != isWritten {
				t.Error(err)
			}
			change.Listed = revisionOf(t, etcd.Client())
			if dry := must(ours.Edit(ctx, nil, change)); !slices.Equal(fates(dry), []rangekeeper.Fate{c.want}) {
				t.Errorf("a dry run: %v, want %v", fates(dry), c.want)
			}
			edited := must(edit(false))
			if !edited.Done || !slices.Equal(fates(edited), []rangekeeper.Fate{c.want}) {
				t.Errorf("%+v, want %v", edited, c.want)
			}
			state := must(theirs.Read(ctx))
			a := must(rangekeeper.NewAllocator(ours.Range(), rangekeeper.Contiguous, 0))
			defer a.Close()
			must(0, a.Restore(ours.Range().String(), state.Snapshot))
			if a.Has(value) != (c.want != rangekeeper.FateCleared) {
				t.Errorf("recorded: %t", a.Has(value))
			}
			witness := must(etcd.Client().Get(ctx, etcdstore.WitnessKey(key)))
			if isFenced := len(witness.Kvs) == 0; isFenced != (c.want == rangekeeper.FateCleared) {
				t.Errorf("fenced: %t", isFenced)
			}
		})
	}
}

// TestEditOfALookOfAnotherEtcd makes an edit by a look that the etcd does not have any more, as if it had been restored
// to a state from before it, with the range and the Services as the edit expects them.
func TestEditOfALookOfAnotherEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	etcd := startEtcd(t)
	s := openForEdits(t, etcd)
	must(s.Init(ctx))
	change := rangekeeper.Edit{Pick: 1, InUse: nil}
	for _, isThere := range []bool{false, true} {
		look := must(s.Look(ctx))
		if !isThere {
			must(etcd.Client().Delete(ctx, key+"/look/", clientv3.WithPrefix()))
		}
		edited, err := s.Edit(ctx, look, change)
		if isThere && (err != nil || !edited.Done) || !isThere && !errors.Is(err, rangekeeper.ErrServicesWritten) {
			t.Errorf("%+v, %v; the look is there: %t", edited, err, isThere)
		}
		look.End(ctx)
	}
	if left := must(etcd.Client().Get(ctx, key+"/look/", clientv3.WithPrefix())); len(left.Kvs) > 0 {
		t.Error("a look is left:", left.Kvs)
	}
}

// TestTooLarge writes a bitmap that the client does not send: the store is known to have refused it.
func TestTooLarge(t *testing.T) {
	values := must(rangekeeper.ParseCIDR("8.0.0.0/5"))
	client := etcdtest.Start(t, "").Client()
	store := must(etcdstore.Open(etcdstore.Config{Client: client, Key: "/range", Range: values}))
	defer store.Close(t.Context())
	must(store.Init(t.Context()))
	for _, address := range []string{"15.255.255.254", "11.0.0.0"} { // the client refuses the first, and etcd the second
		if _, err := store.Allocate(t.Context(), must(rangekeeper.ParseValue(address))); !errors.Is(err, rangekeeper.ErrRefused) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestEditNeedsServices refuses an edit of a store that does not know where Services are.
func TestEditNeedsServices(t *testing.T) {
	s := open(t, startEtcd(t), "10.0.0.0/24")
	if _, err := s.Edit(t.Context(), must(s.Look(t.Context())), rangekeeper.Edit{}); !errors.Is(err, rangekeeper.ErrInvalidArgument) {
		t.Error(err)
	}
}
