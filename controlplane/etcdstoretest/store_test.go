package etcdstoretest

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore/storemetrics"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

const key = "/registry/ranges/serviceips"

// patience is the time limit of a test that takes a few seconds on a machine that has nothing else to do.
const patience = 5 * time.Minute

func startEtcd(t *testing.T) *embedded.Etcd {
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	return etcd
}

func open(t *testing.T, etcd *embedded.Etcd, cidr string) *etcdstore.Store {
	s, err := etcdstore.Open(etcdstore.Config{Client: etcd.Client(), Key: key, Range: must(rangekeeper.ParseCIDR(cidr)), Strategy: rangekeeper.DynamicBandFirst})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestOpenRefuses opens stores that no etcd could serve: they would try for ever.
func TestOpenRefuses(t *testing.T) {
	good := etcdstore.Config{Client: startEtcd(t).Client(), Key: key, Range: must(rangekeeper.ParseCIDR("10.0.0.0/24"))}
	for message, spoil := range map[string]func(*etcdstore.Config){
		"the client is nil":            func(c *etcdstore.Config) { c.Client = nil },
		"the key is empty":             func(c *etcdstore.Config) { c.Key = "" },
		"the range is missing":         func(c *etcdstore.Config) { c.Range = rangekeeper.Range{} },
		"the grace of -1s is negative": func(c *etcdstore.Config) { c.Grace = -time.Second },
		"strategy 9 is unknown":        func(c *etcdstore.Config) { c.Strategy = 9 },
	} {
		config := good
		spoil(&config)
		s, err := etcdstore.Open(config)
		if !errors.Is(err, rangekeeper.ErrInvalidArgument) || !strings.Contains(err.Error(), message) {
			t.Errorf("%v, want %q", err, message)
		}
		if s != nil {
			s.Close(t.Context())
		}
	}
}

// TestZeroStore calls each method of a Store that was not opened.
func TestZeroStore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	passes := must(rangekeeper.NewLeakTracker(3, time.Minute))
	defer passes.Close()
	var s etcdstore.Store
	_, created := s.Init(ctx)
	_, next := s.AllocateNext(ctx)
	_, allocated := s.Allocate(ctx, rangekeeper.PortValue(1))
	_, batch := s.AllocateBatch(ctx)
	_, released := s.Release(ctx, rangekeeper.PortValue(1), rangekeeper.OwnedSince(1))
	_, read := s.Read(ctx)
	_, _, readForPass := s.ReadForPass(ctx, must(passes.Start()))
	_, fenced := s.Fence(ctx, must(passes.Start()), nil)
	_, looked := s.Look(ctx)
	_, edited := s.Edit(ctx, nil, rangekeeper.Edit{})
	s.Written(rangekeeper.PortValue(1))
	_, repaired := s.Repair(ctx, must(passes.Start()), nil, rangekeeper.ServiceList{})
	for i, err := range []error{created, next, allocated, batch, released, read, readForPass, fenced, looked, edited, repaired} {
		if !errors.Is(err, rangekeeper.ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if s.Key() != "" || s.Range() != (rangekeeper.Range{}) || s.Known() != (rangekeeper.Known{}) || s.Stats() != (etcdstore.Stats{}) {
		t.Error("a zero Store has a state")
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestAllocateThroughEtcd(t *testing.T) {
	etcd := startEtcd(t)
	first, second := open(t, etcd, "10.0.0.0/24"), open(t, etcd, "10.0.0.0/24")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := first.AllocateNext(ctx); !errors.Is(err, rangekeeper.ErrNotInitialised) {
		t.Fatal(err)
	}
	if !must(first.Init(ctx)) || must(second.Init(ctx)) {
		t.Fatal("created not once")
	}
	var mu sync.Mutex
	owned := make(map[rangekeeper.Value]etcdstore.Allocation)
	var group sync.WaitGroup
	for _, s := range []*etcdstore.Store{first, second} {
		for range 127 {
			group.Go(func() {
				a, err := s.AllocateNext(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if _, twice := owned[a.Value]; twice {
					t.Errorf("%v was handed out twice", a.Value)
				}
				owned[a.Value] = a
			})
		}
	}
	group.Wait()
	if len(owned) != 254 {
		t.Fatal(len(owned))
	}
	if _, err := second.AllocateNext(ctx); !errors.Is(err, rangekeeper.ErrFull) {
		t.Error(err)
	}
	addr := must(rangekeeper.ParseValue("10.0.0.77"))
	if _, err := first.Allocate(ctx, addr); !errors.Is(err, rangekeeper.ErrAlreadyAllocated) {
		t.Error(err)
	}
	// Released by the server that did not allocate it, at a time when both have gone on.
	if !must(second.Release(ctx, addr, rangekeeper.OwnedSince(owned[addr].Revision))) {
		t.Error("not released")
	}
	if must(first.Release(ctx, addr, rangekeeper.OwnedSince(owned[addr].Revision))) {
		t.Error("released twice")
	}
	if a := must(first.Allocate(ctx, addr)); a.Value != addr || time.Until(a.UseUntil) < 5*time.Minute {
		t.Error(a)
	}
	if swaps := first.Stats().Swaps + second.Stats().Swaps; swaps > 60 {
		t.Errorf("%d swaps: operations did not share them", swaps)
	}
	// The last to write knows what is stored.
	if known, view := first.Known(), must(first.Read(ctx)); !known.Initialised || known.Used != 254 || known.Revision > view.Revision {
		t.Errorf("%+v at %d", known, view.Revision)
	}
	t.Logf("%+v, %+v", first.Stats(), second.Stats())
}

// Passes over what is stored, while other callers go on.
func TestRepairThroughEtcd(t *testing.T) {
	const interval = 100 * time.Millisecond
	etcd := startEtcd(t)
	theirs := open(t, etcd, "10.0.0.0/22")
	ours := must(etcdstore.Open(etcdstore.Config{Client: etcd.Client(), Key: key, Range: theirs.Range(), Grace: 2 * interval}))
	defer ours.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(ours.Init(ctx))
	var owned []etcdstore.Allocation
	for i := range byte(20) {
		owned = append(owned, must(theirs.Allocate(ctx, rangekeeper.AddrValue(netip.AddrFrom4([4]byte{10, 0, 1, i})))))
	}
	lost, busy := must(rangekeeper.ParseValue("10.0.3.1")), must(rangekeeper.ParseValue("10.0.3.2"))
	var group sync.WaitGroup
	stop := make(chan struct{})
	// It takes one address again and again: any address could be the lost one.
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				a := must(theirs.Allocate(ctx, busy))
				must(theirs.Release(ctx, a.Value, rangekeeper.OwnedSince(a.Revision)))
			}
		}
	})
	passes := must(rangekeeper.NewLeakTracker(3, interval))
	pass := func() rangekeeper.Repaired {
		t.Helper()
		pass, look, audit := readForPass(t, ours, passes)
		var services rangekeeper.Services
		services.Add(lost.String(), []string{lost.String()})
		for _, a := range owned[10:] {
			services.Add(a.Value.String(), []string{a.Value.String()})
		}
		if err := audit.Observe(&services); err != nil {
			t.Fatal(err)
		}
		must(pass.Finish(audit))
		return must(ours.Repair(ctx, pass, look, rangekeeper.ServiceList{}))
	}
	// The first two of the leaks change hands, once before the second pass and once before the third.
	var free []rangekeeper.Value
	for _, a := range owned[:10] {
		free = append(free, a.Value)
	}
	for i, want := range []rangekeeper.Repaired{{Set: []rangekeeper.Value{lost}}, {}, {Cleared: free[2:]}, {Cleared: free[:1]}, {Cleared: free[1:2]}} {
		repaired := pass()
		if !slices.Equal(repaired.Set, want.Set) || !slices.Equal(repaired.Cleared, want.Cleared) || repaired.Changed > 0 {
			t.Errorf("pass %d: %+v", i, repaired)
		}
		if i < 2 {
			must(theirs.Release(ctx, owned[i].Value, rangekeeper.OwnedSince(owned[i].Revision)))
			must(theirs.Allocate(ctx, owned[i].Value))
		}
		time.Sleep(interval)
	}
	// One more at once: it is no pass for the counters.
	if repaired := pass(); len(repaired.Set)+len(repaired.Cleared)+repaired.Changed > 0 {
		t.Errorf("%+v", repaired)
	}
	close(stop)
	group.Wait()
	after := must(rangekeeper.NewAllocator(ours.Range(), rangekeeper.Contiguous, 1))
	if err := after.Restore(ours.Range().String(), must(ours.Read(ctx)).Snapshot); err != nil {
		t.Fatal(err)
	}
	for i, a := range owned {
		if has := after.Has(a.Value); has != (i >= 10) {
			t.Errorf("%v: %v", a.Value, has)
		}
	}
	if !after.Has(lost) {
		t.Error("the lost address is not set")
	}
	late := must(passes.Start())
	late.Close()
	if _, _, err := ours.ReadForPass(ctx, late); !errors.Is(err, rangekeeper.ErrClosed) {
		t.Error(err)
	}
}

// readForPass starts a pass and brings what is stored to its audit.
func readForPass(t *testing.T, store *etcdstore.Store, passes *rangekeeper.LeakTracker) (*rangekeeper.RepairPass, *etcdstore.Look, *rangekeeper.Audit) {
	t.Helper()
	pass := must(passes.Start())
	_, needsFence, err := store.ReadForPass(t.Context(), pass)
	var look *etcdstore.Look
	if err == nil && needsFence {
		look, err = store.Fence(t.Context(), pass, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { look.End(context.Background()) })
	return pass, look, must(pass.Audit())
}

// TestPassOfALookOfAnotherEtcd repairs by looks that the etcd does not have any more, as if it had been restored to a
// state from before them, with the range as the passes expect it.
func TestPassOfALookOfAnotherEtcd(t *testing.T) {
	const interval = 20 * time.Millisecond
	etcd := startEtcd(t)
	ours := must(etcdstore.Open(etcdstore.Config{Client: etcd.Client(), Key: key, Range: must(rangekeeper.ParseCIDR("10.0.0.0/24")), Grace: interval}))
	defer ours.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	passes := must(rangekeeper.NewLeakTracker(2, interval))
	defer passes.Close()
	pass := func(isThere bool) (rangekeeper.Repaired, error) {
		time.Sleep(interval)
		pass, look, audit := readForPass(t, ours, passes)
		must(pass.Finish(audit))
		if !isThere {
			must(etcd.Client().Delete(ctx, key+"/look/", clientv3.WithPrefix()))
			if _, err := ours.Fence(ctx, pass, look); !errors.Is(err, etcdstore.ErrRestored) {
				t.Error("a fence after a look that is gone:", err)
			}
		}
		return ours.Repair(ctx, pass, look, rangekeeper.ServiceList{Revision: cmp.Or(look.At(), revisionOf(t, etcd.Client()))})
	}
	// The range is not there, and is created only by a look that is there.
	for _, isThere := range []bool{false, true} {
		must(pass(isThere))
		if state := must(ours.Read(ctx)); state.Initialised != isThere {
			t.Fatalf("initialised: %t", state.Initialised)
		}
	}
	leak := must(open(t, etcd, "10.0.0.0/24").AllocateNext(ctx)).Value
	must(pass(true)) // counts
	if repaired := must(pass(false)); repaired.Changed != 1 || len(repaired.Cleared) > 0 {
		t.Errorf("%+v", repaired)
	}
	must(pass(true)) // counts again
	if repaired := must(pass(true)); !slices.Equal(repaired.Cleared, []rangekeeper.Value{leak}) {
		t.Errorf("%+v", repaired)
	}
}

// A Service that is written after the list may have what looks leaked: the creator was slower than the grace.
func TestRepairGuardedByServices(t *testing.T) {
	const interval, services = 20 * time.Millisecond, "/registry/services/specs/"
	etcd := startEtcd(t)
	theirs := open(t, etcd, "10.0.0.0/24")
	ours := must(etcdstore.Open(etcdstore.Config{Client: etcd.Client(), Key: key, Range: theirs.Range(), Services: services, Grace: interval}))
	defer ours.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(ours.Init(ctx))
	leak := must(theirs.AllocateNext(ctx))
	write := func(name string) int64 {
		return must(etcd.Client().Put(ctx, name, "a Service")).Header.Revision
	}
	write(services + "default/before")
	passes := must(rangekeeper.NewLeakTracker(2, interval))
	for i, want := range []rangekeeper.Repaired{{}, {Changed: 1}, {Cleared: []rangekeeper.Value{leak.Value}}} {
		before := must(ours.Read(ctx)).Revision - 1
		pass, look, audit := readForPass(t, ours, passes)
		must(pass.Finish(audit))
		listed := rangekeeper.ServiceList{Revision: cmp.Or(look.At(), before+1), Guards: true}
		if _, err := ours.Repair(ctx, pass, look, rangekeeper.ServiceList{Revision: before}); !errors.Is(err, rangekeeper.ErrStaleList) {
			t.Error(err)
		}
		if i == 1 {
			write(services + "default/late")
		} else {
			write("/registry/services/endpoints/default/other")
		}
		if repaired := must(ours.Repair(ctx, pass, look, listed)); !slices.Equal(repaired.Cleared, want.Cleared) || len(repaired.Set) > 0 || repaired.Changed != want.Changed {
			t.Errorf("pass %d: %+v", i, repaired)
		}
		if _, err := theirs.Repair(ctx, pass, look, listed); !errors.Is(err, rangekeeper.ErrInvalidArgument) {
			t.Error(err)
		}
		time.Sleep(interval)
	}
}

func TestMetrics(t *testing.T) {
	etcd := startEtcd(t)
	s := open(t, etcd, "10.0.0.0/24")
	must(s.Init(t.Context()))
	must(s.AllocateNext(t.Context()))
	other := must(etcdstore.Open(etcdstore.Config{Client: etcd.Client(), Key: "/registry/ranges/other", Range: s.Range()}))
	defer other.Close(context.Background())
	registry := prometheus.NewPedanticRegistry()
	for _, s := range []*etcdstore.Store{s, other} {
		if err := registry.Register(storemetrics.Of(s)); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]float64{}
	for _, family := range must(registry.Gather()) {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += " " + label.GetValue()
			}
			found[name] = metric.Counter.GetValue()
		}
	}
	stats := s.Stats()
	operations, swaps := found["rangekeeper_store_operations_total "+key], found["rangekeeper_store_requests_total "+key+" swap"]
	if len(found) != 2*9 || operations != 2 || swaps != float64(stats.Swaps) || stats.Swaps != 2 {
		t.Error(found, stats)
	}
}

// TestReplace repairs a range whose object is for another one.
func TestReplace(t *testing.T) {
	etcd := startEtcd(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := etcd.Client()
	stored := func() string { return string(must(client.Get(ctx, key)).Kvs[0].Value) }
	theirs := open(t, etcd, "10.0.0.0/24")
	must(theirs.Init(ctx))
	must(theirs.AllocateNext(ctx))
	for _, c := range []struct {
		replace    rangekeeper.Replace
		configured string
		// checks says that CheckRepair finds the range in use, and replaces that Repair replaces it.
		checks, replaces bool
	}{
		{rangekeeper.ReplaceIfUnused, "10.0.0.0/23", true, false},
		{rangekeeper.ReplaceOnce, "10.0.0.0/23", true, true},
		{rangekeeper.ReplaceAlways, "10.0.0.0/22", false, true},
	} {
		before := stored()
		ours := must(etcdstore.Open(etcdstore.Config{
			Client: client, Key: key, Range: must(rangekeeper.ParseCIDR(c.configured)), Replace: c.replace,
		}))
		defer ours.Close(context.Background())
		passes := must(rangekeeper.NewLeakTracker(3, time.Minute))
		defer passes.Close()
		pass, look, audit := readForPass(t, ours, passes)
		must(pass.Finish(audit))
		check := ours.CheckRepair(pass)
		_, err := ours.Repair(ctx, pass, look, rangekeeper.ServiceList{})
		if c.checks != (check != nil) || c.replaces != (err == nil) {
			t.Errorf("%v: %v, %v", c.replace, check, err)
		}
		for _, err := range []error{check, err} {
			if err == nil {
				continue
			}
			for _, words := range []string{"10.0.0.0/24 (values recorded: 1)", "10.0.0.0/23 (Services outside of it: 0)", key} {
				if !errors.Is(err, rangekeeper.ErrRangeInUse) || !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in %v", words, err)
				}
			}
		}
		if after := stored(); (after == before) == c.replaces {
			t.Errorf("%v: %q, was %q", c.replace, after, before)
		}
	}
}
