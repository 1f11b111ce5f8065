// Package ledgerstoretest checks a store of ledgers, also one that you have written.
package ledgerstoretest

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

// Check checks the stores that open returns, each as a program of its own has it, of values with different names, which
// are missing before.
func Check(t *testing.T, open func(name string) ledgerstore.Store) {
	t.Helper()
	checkTokens(t, open("tokens"), open("tokens"))
	checkEmptied(t, open("emptied"))
	checkPrograms(t, func() ledgerstore.Store { return open("programs") })
}

// checkTokens plays two programs that write one value by turns.
func checkTokens(t *testing.T, one, other ledgerstore.Store) {
	t.Helper()
	ctx := t.Context()
	refused := func(token []byte) {
		t.Helper()
		if token, err := other.Put(ctx, []byte("refused"), token); !errors.Is(err, ledgerstore.ErrChanged) {
			t.Fatalf("put: %q, %v", token, err)
		}
	}
	if value, token, err := one.Get(ctx); value != nil || token != nil || err != nil {
		t.Fatalf("got %q, %q, %v", value, token, err)
	}
	seen := map[string]bool{}
	var token []byte
	for n, value := range []string{"k8s\x00\xff", "k8s\x00\xff", "last"} {
		put, err := one.Put(ctx, []byte(value), token)
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(put)] {
			t.Errorf("write %d has the token %q of an earlier one", n, put)
		}
		seen[string(put)] = true
		refused(nil)
		refused(token)
		got, again, err := other.Get(ctx)
		if err != nil || string(got) != value || string(again) != string(put) {
			t.Fatalf("got %q, %q, %v, and not %q, %q", got, again, err, value, put)
		}
		token = again
		one, other = other, one
	}
}

// checkEmptied empties a value, as people can with the tools of a store. A program that has not read it before would
// begin with a new ledger, and give all values again.
func checkEmptied(t *testing.T, store ledgerstore.Store) {
	t.Helper()
	token, err := store.Put(t.Context(), []byte("ledger"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), []byte{}, token); err != nil {
		return // the store keeps no empty value
	}
	if value, token, err := store.Get(t.Context()); err == nil {
		t.Errorf("got %q, %q of a value that was emptied, and no error", value, token)
	}
}

// checkPrograms has four programs hand out values to many callers.
func checkPrograms(t *testing.T, open func() ledgerstore.Store) {
	t.Helper()
	const programs, callers, rounds = 4, 8, 3
	pool := rangekeeper.Pool{Range: "4096-16777215", Choice: rangekeeper.Lowest}
	var group sync.WaitGroup
	var mutex sync.Mutex
	told := map[string]string{}
	start := func() *ledgerstore.Ledger {
		ledger, err := ledgerstore.New(open(), pool)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ledger.Close() })
		return ledger
	}
	for p := range programs {
		ledger := start()
		for c := range callers {
			group.Go(func() {
				for r := range rounds {
					owner := fmt.Sprintf("%d/%d/%d", p, c, r)
					got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
					if err != nil {
						t.Error(owner, err)
						return
					}
					if r == 1 {
						if released, err := ledger.ReleaseOwner(t.Context(), owner); err != nil || len(released) != 1 || released[0] != got {
							t.Error(owner, released, err)
						}
						continue
					}
					mutex.Lock()
					told[got.First.String()] += owner
					mutex.Unlock()
				}
			})
		}
	}
	group.Wait()
	known, err := start().Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	stored := map[string]string{}
	for value := range known.Values() {
		owner, _, err := known.OwnerOf(value)
		if err != nil {
			t.Error(err)
		}
		stored[value.String()] = owner
	}
	if len(stored) != programs*callers*(rounds-1) || !maps.Equal(stored, told) {
		t.Errorf("stored is %v, and told was %v", stored, told)
	}
}
