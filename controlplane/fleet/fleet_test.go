package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	interval = 100 * time.Millisecond
	// patience bounds what takes seconds on a machine that has nothing else to do.
	patience = 5 * time.Minute
)

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// cluster is the etcd of all tenants, which have prefixes of their own, and their Services.
type cluster struct {
	client *clientv3.Client
	mu     sync.Mutex
	// services are those of each tenant, and lists how often they were listed.
	services map[string][]*corev1.Service
	lists    map[string]int
}

func newCluster(t testing.TB) *cluster {
	return &cluster{client: etcdtest.Start(t, "").Client(), services: map[string][]*corev1.Service{}, lists: map[string]int{}}
}

func (c *cluster) key(tenant, name string) string { return "/" + tenant + "/ranges/" + name }

func (c *cluster) tenant(name string) Tenant {
	config := func(key string, values rangekeeper.Range) etcdstore.Config {
		return etcdstore.Config{
			Client: c.client, Key: c.key(name, key), Range: values, Strategy: rangekeeper.DynamicBandFirst,
			Grace: interval, Replace: rangekeeper.ReplaceAlways,
		}
	}
	return Tenant{
		Name: name,
		Ranges: []etcdstore.Config{
			config("serviceips", must(rangekeeper.ParseCIDR("10.0.0.0/24"))),
			config("servicenodeports", must(rangekeeper.ParsePortRange("30000-32767"))),
		},
		Services: func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
			now, err := c.client.Get(ctx, "/now")
			if err != nil {
				return nil, 0, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lists[name]++
			return slices.Clone(c.services[name]), max(at, now.Header.Revision), nil
		},
	}
}

// create creates a Service of a tenant, without a word to its ranges.
func (c *cluster) create(tenant, name, ip string, port int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(tenant, name, ip, port)
}

// add adds a Service. The caller has locked the cluster, so that no pass lists meanwhile.
func (c *cluster) add(tenant, name, ip string, port int32) {
	c.services[tenant] = append(c.services[tenant], &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: port, Protocol: corev1.ProtocolTCP}},
		},
	})
}

// createUntil creates a Service with a node port, unless it is too late, and returns whether it has.
func (c *cluster) createUntil(until time.Time, tenant string, port rangekeeper.Value) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().After(until) {
		return false
	}
	c.add(tenant, port.String(), corev1.ClusterIPNone, int32(port.Port()))
	return true
}

// stored returns the values that are recorded in a range of a tenant.
func (c *cluster) stored(t *testing.T, tenant, name string, r rangekeeper.Range) (values []string) {
	t.Helper()
	got, err := c.client.Get(t.Context(), c.key(tenant, name))
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(tenant, name, got, err)
	}
	return valuesIn(got.Kvs[0].Value, r)
}

// valuesIn returns the values that are recorded in a stored range.
func valuesIn(stored []byte, r rangekeeper.Range) (values []string) {
	object := must(rangekeeper.DecodeRangeAllocation(stored))
	defer object.Close()
	a := must(rangekeeper.NewAllocator(r, rangekeeper.Contiguous, 1))
	defer a.Close()
	if err := a.Restore(r.String(), must(object.Data(nil))); err != nil {
		panic(err)
	}
	for value := range a.All() {
		values = append(values, value.String())
	}
	return values
}

// run runs a fleet until stop.
func run(f *Fleet) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// start runs a fleet until the test ends.
func start(t testing.TB, config Config) *Fleet {
	t.Helper()
	f, _ := startUntil(t, config)
	return f
}

// startUntil runs a fleet until stop, or until the test ends.
func startUntil(t testing.TB, config Config) (f *Fleet, stop func()) {
	t.Helper()
	f = must(New(config))
	stop = run(f)
	t.Cleanup(func() {
		stop()
		closing, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.Close(closing); err != nil {
			t.Error(err)
		}
	})
	return f, stop
}

// passes counts the passes of tenants, and keeps those that are not as they should be.
type passes struct {
	mu     sync.Mutex
	counts map[string]int
	last   map[string]Pass
}

func newPasses() *passes { return &passes{counts: map[string]int{}, last: map[string]Pass{}} }

func (p *passes) add(pass Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[pass.Tenant]++
	p.last[pass.Tenant] = pass
}

// await waits until each of these tenants has had n passes.
func (p *passes) await(t *testing.T, n int, tenants ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		late := slices.IndexFunc(tenants, func(name string) bool { return p.counts[name] < n })
		p.mu.Unlock()
		if late < 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("tenant %s has had %d passes, want %d", tenants[late], p.counts[tenants[late]], n)
		}
	}
}

// opened returns how many ranges are open.
func (f *Fleet) opened() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tenants {
		t.mu.Lock()
		n += len(t.opened)
		t.mu.Unlock()
	}
	return n
}

// TestPasses repairs the ranges of many tenants: each has one list of Services for a pass over both of its ranges, its
// Events, and nothing that stays open.
func TestPasses(t *testing.T) {
	c, p := newCluster(t), newPasses()
	f, stop := startUntil(t, Config{Interval: interval, Timeout: time.Minute, Passed: p.add})
	const tenants = 40
	recorders := map[string]*events.FakeRecorder{}
	var names []string
	for i := range tenants {
		name := fmt.Sprint("t", i)
		names = append(names, name)
		c.create(name, "a", fmt.Sprint("10.0.0.", 10+i), int32(30000+i))
		c.create(name, "b", "10.0.0.7", 31000)
		c.create(name, "c", "10.0.0.7", 0)
		tenant := c.tenant(name)
		recorders[name] = events.NewFakeRecorder(1000)
		tenant.Recorder = recorders[name]
		if err := f.Add(tenant); err != nil {
			t.Fatal(err)
		}
	}
	p.await(t, 3, names...)
	for i, name := range names {
		ips, ports := c.stored(t, name, "serviceips", c.tenant(name).Ranges[0].Range), c.stored(t, name, "servicenodeports", c.tenant(name).Ranges[1].Range)
		if want := []string{"10.0.0.7", fmt.Sprint("10.0.0.", 10+i)}; !slices.Equal(ips, want) {
			t.Errorf("%s: %v, want %v", name, ips, want)
		}
		if want := []string{fmt.Sprint(30000 + i), "31000"}; !slices.Equal(ports, want) {
			t.Errorf("%s: %v, want %v", name, ports, want)
		}
		// Both at once: passes go on, and a list is that of a pass that has ended or of the one under way.
		p.mu.Lock()
		c.mu.Lock()
		last, count, lists := p.last[name], p.counts[name], c.lists[name]
		c.mu.Unlock()
		p.mu.Unlock()
		if last.Err != nil || last.Result.Services != 3 || len(last.Result.Findings) != 1 || last.Result.Findings[0].Value != "10.0.0.7" {
			t.Errorf("%+v", last)
		}
		if lists < count || lists > count+1 {
			t.Errorf("%s: %d lists in %d passes", name, lists, count)
		}
		if event := <-recorders[name].Events; !strings.Contains(event, "NotAllocated") && !strings.Contains(event, "AlreadyAllocated") {
			t.Error(event)
		}
	}
	// What was open was open for a pass. On a busy machine there is always one under way.
	stop()
	if n := f.opened(); n > 0 {
		t.Errorf("%d ranges are open after all passes", n)
	}
}

// awaitNone waits until no node port of a tenant is recorded.
func awaitNone(t *testing.T, c *cluster, tenant string) {
	t.Helper()
	ports := c.tenant(tenant).Ranges[1].Range
	for deadline := time.Now().Add(patience); len(c.stored(t, tenant, "servicenodeports", ports)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the leak was not cleaned")
		}
	}
}

// TestLeaks cleans a leak in the third pass that does not fail, as its ranges stay open until then.
func TestLeaks(t *testing.T) {
	for _, failing := range []int{0, 3, 2} {
		t.Run(fmt.Sprintf("list %d of each fails", failing), func(t *testing.T) { testLeaks(t, failing) })
	}
}

func testLeaks(t *testing.T, failing int) {
	c, p := newCluster(t), newPasses()
	f := start(t, Config{Interval: interval, Timeout: time.Minute, Passed: p.add})
	// Passes wait with their lists until the test has seen the leak.
	var looking sync.Mutex
	lists := 0
	tenant := c.tenant("t")
	list := tenant.Services
	tenant.Services = func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
		looking.Lock()
		defer looking.Unlock()
		if lists++; failing > 0 && lists%failing == 0 {
			return nil, 0, errors.New("the API server is away")
		}
		return list(ctx, at)
	}
	if err := f.Add(tenant); err != nil {
		t.Fatal(err)
	}
	p.await(t, 1, "t")
	func() {
		looking.Lock()
		defer looking.Unlock()
		var leaked etcdstore.Allocation
		err := f.Use("t", c.key("t", "servicenodeports"), func(store *etcdstore.Store) (err error) {
			leaked, err = store.AllocateNext(t.Context())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.stored(t, "t", "servicenodeports", tenant.Ranges[1].Range); !slices.Equal(got, []string{leaked.Value.String()}) {
			t.Fatal(got)
		}
	}()
	awaitNone(t, c, "t")
	for f.opened() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// TestSlowTenants has tenants whose lists of Services never end, more of them than passes may be under way. The others
// go on.
func TestSlowTenants(t *testing.T) {
	c, p := newCluster(t), newPasses()
	const parallel = 4
	f := start(t, Config{Interval: interval, Passed: p.add, Parallel: parallel, Timeout: time.Hour})
	var hanging atomic.Int64
	for i := range 3 * parallel {
		slow := c.tenant(fmt.Sprint("slow", i))
		slow.Services = func(ctx context.Context, _ int64) ([]*corev1.Service, int64, error) {
			hanging.Add(1)
			<-ctx.Done()
			return nil, 0, ctx.Err()
		}
		if err := f.Add(slow); err != nil {
			t.Fatal(err)
		}
	}
	for hanging.Load() < parallel {
		time.Sleep(time.Millisecond)
	}
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("t", i))
		if err := f.Add(c.tenant(names[i])); err != nil {
			t.Fatal(err)
		}
	}
	p.await(t, 5, names...)
}

// TestLatePasses has passes begin late, as they waited for a place. The next one is on time again, but not much less
// than an interval after the late one: the core would begin to count leaks again.
func TestLatePasses(t *testing.T) {
	const interval = 100 * time.Second
	f := must(New(Config{Interval: interval}))
	now := time.Now()
	for _, late := range []time.Duration{0, 3 * time.Second, 40 * time.Second, 3 * interval} {
		one := &tenant{Tenant: Tenant{Name: "t"}, due: now, began: now.Add(late)}
		f.tenants["t"], f.due = one, nil
		f.reschedule(one)
		if next, want := one.due.Sub(now), max(interval, late+interval*95/100); next != want || f.due[0] != one {
			t.Errorf("%s late: the next pass is after %s, want %s", late, next, want)
		}
	}
	delete(f.tenants, "t")
	f.due = nil
	if f.reschedule(&tenant{Tenant: Tenant{Name: "t"}}); len(f.due) > 0 {
		t.Error("a tenant that was removed is scheduled")
	}
}

// TestRunAgain ends Run while a pass waits for a place. It is made by the next Run.
func TestRunAgain(t *testing.T) {
	c, p := newCluster(t), newPasses()
	f := must(New(Config{Interval: interval, Timeout: time.Minute, Parallel: 1, Passed: p.add}))
	hanging := make(chan struct{})
	first := c.tenant("first")
	list, hangs := first.Services, true
	first.Services = func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
		if hangs {
			hangs = false
			close(hanging)
			<-ctx.Done()
			return nil, 0, ctx.Err()
		}
		return list(ctx, at)
	}
	stop := run(f)
	if err := f.Add(first); err != nil {
		t.Fatal(err)
	}
	<-hanging
	if err := f.Add(c.tenant("second")); err != nil {
		t.Fatal(err)
	}
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		waiting = f.tenants["second"].index < 0
		f.mu.Unlock()
	}
	stop()
	defer run(f)()
	p.await(t, 2, "first", "second")
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := f.Add(c.tenant("third")); !errors.Is(err, rangekeeper.ErrClosed) {
		t.Error(err)
	}
}

// TestEndOfAPass ends a fleet while a pass lists Services: that says nothing about the tenant, and is not reported.
func TestEndOfAPass(t *testing.T) {
	c, p := newCluster(t), newPasses()
	tenant, listing := c.tenant("t"), make(chan struct{})
	tenant.Services = func(ctx context.Context, _ int64) ([]*corev1.Service, int64, error) {
		close(listing)
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	f, stop := startUntil(t, Config{Interval: 50 * time.Millisecond, Timeout: time.Minute, Passed: p.add})
	if err := f.Add(tenant); err != nil {
		t.Fatal(err)
	}
	<-listing
	stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.counts["t"]; n != 0 {
		t.Errorf("%d passes are reported, the last of which ended with %v", n, p.last["t"].Err)
	}
}

// TestUseLongerThanPasses uses a range while two passes end, which close the ranges that nobody uses.
func TestUseLongerThanPasses(t *testing.T) {
	c, p := newCluster(t), newPasses()
	f := start(t, Config{Interval: 50 * time.Millisecond, Timeout: time.Minute, Passed: p.add})
	if err := f.Add(c.tenant("t")); err != nil {
		t.Fatal(err)
	}
	p.await(t, 1, "t")
	err := f.Use("t", c.key("t", "servicenodeports"), func(store *etcdstore.Store) error {
		p.mu.Lock()
		passes := p.counts["t"]
		p.mu.Unlock()
		p.await(t, passes+2, "t")
		_, err := store.AllocateNext(t.Context())
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestUse allocates through ranges that are closed and opened again between uses: no value is given twice.
func TestUse(t *testing.T) {
	c, p := newCluster(t), newPasses()
	const tenants, rounds, callers, each, grace = 5, 2, 8, 30, 300 * time.Millisecond
	f := start(t, Config{Interval: grace / 2, Timeout: time.Minute, Passed: p.add})
	var names []string
	for i := range tenants {
		name := fmt.Sprint("t", i)
		names = append(names, name)
		tenant := c.tenant(name)
		tenant.Ranges = tenant.Ranges[1:]
		tenant.Ranges[0].Grace = grace
		if err := f.Add(tenant); err != nil {
			t.Fatal(err)
		}
	}
	p.await(t, 1, names...)
	var mu sync.Mutex
	given := map[string]bool{}
	seen := map[*etcdstore.Store]bool{}
	var all sync.WaitGroup
	for range rounds {
		for range callers {
			all.Go(func() {
				for range each {
					name := names[rand.IntN(tenants)]
					err := f.Use(name, c.key(name, "servicenodeports"), func(store *etcdstore.Store) error {
						a, err := store.AllocateNext(t.Context())
						// On a busy machine an answer can come too late for the grace, and a Service, too.
						for err == nil && !c.createUntil(a.UseUntil, name, a.Value) || errors.Is(err, etcdstore.ErrUnknown) {
							a, err = store.AllocateNext(t.Context())
						}
						mu.Lock()
						defer mu.Unlock()
						seen[store] = true
						value := name + " " + a.Value.String()
						if err == nil && given[value] {
							t.Errorf("%s was given twice", value)
						}
						given[value] = true
						return err
					})
					if err != nil {
						t.Error(err)
					}
					if rand.IntN(20) == 0 {
						time.Sleep(2 * grace) // so that ranges are closed while others are used
					}
				}
			})
		}
		all.Wait()
		for _, name := range names { // the next round has other stores
			for isNew := false; !isNew; {
				time.Sleep(2 * grace)
				err := f.Use(name, c.key(name, "servicenodeports"), func(store *etcdstore.Store) error {
					isNew = !seen[store]
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(given) != rounds*callers*each {
		t.Errorf("%d values, want %d", len(given), rounds*callers*each)
	}
	t.Logf("%d values of %d stores", len(given), len(seen))
	if len(seen) < rounds*tenants {
		t.Errorf("%d stores of %d ranges: none was closed and opened again", len(seen), tenants)
	}

	for _, c := range []struct{ tenant, key string }{{"none", c.key("t0", "servicenodeports")}, {"t0", "/none"}} {
		err := f.Use(c.tenant, c.key, func(*etcdstore.Store) error { t.Error("called"); return nil })
		if !errors.Is(err, ErrNoTenant) || !strings.Contains(err.Error(), c.tenant) {
			t.Error(err)
		}
	}
	if err := f.Remove(t.Context(), "t0"); err != nil {
		t.Error(err)
	}
	if err := f.Remove(t.Context(), "t0"); !errors.Is(err, ErrNoTenant) {
		t.Error(err)
	}
	if err := f.Use("t0", c.key("t0", "servicenodeports"), func(*etcdstore.Store) error { return nil }); !errors.Is(err, ErrNoTenant) {
		t.Error(err)
	}
}

// TestRefused adds tenants that cannot be repaired.
func TestRefused(t *testing.T) {
	c := newCluster(t)
	f := must(New(Config{}))
	if err := f.Add(c.tenant("t")); err != nil {
		t.Fatal(err)
	}
	without := func(change func(*Tenant)) Tenant {
		tenant := c.tenant("other")
		change(&tenant)
		return tenant
	}
	for what, tenant := range map[string]Tenant{
		"there is one of this name": c.tenant("t"),
		"it has no ranges":          without(func(t *Tenant) { t.Ranges = nil }),
		"no list of Services":       without(func(t *Tenant) { t.Services = nil }),
		"the client is nil":         without(func(t *Tenant) { t.Ranges[0].Client = nil }),
		"is there twice":            without(func(t *Tenant) { t.Ranges[1].Key = t.Ranges[0].Key }),
		"one of its kind":           without(func(t *Tenant) { t.Ranges[1].Range = must(rangekeeper.ParseCIDR("10.1.0.0/24")) }),
	} {
		err := f.Add(tenant)
		if !errors.Is(err, rangekeeper.ErrInvalidArgument) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), tenant.Name) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := New(Config{Interval: -1}); !errors.Is(err, rangekeeper.ErrInvalidArgument) {
		t.Error(err)
	}
}

// TestOffsets spreads tenants over the interval: no gap between two is much longer than the mean.
func TestOffsets(t *testing.T) {
	f := must(New(Config{}))
	for _, n := range []int{10, 100, 5000} {
		f.added = 0
		offsets := []time.Duration{0, f.config.Interval}
		for range n {
			offsets = append(offsets, f.offset())
		}
		slices.Sort(offsets)
		for i := range n + 1 {
			if gap := offsets[i+1] - offsets[i]; gap > 3*f.config.Interval/time.Duration(n) {
				t.Errorf("%d tenants: none from %s to %s", n, offsets[i], offsets[i+1])
			}
		}
	}
}

// TestIdle counts the memory of ranges that nobody uses, after a pass over each.
func TestIdle(t *testing.T) {
	const tenants, limit = 500, 4 << 10
	c := newCluster(t)
	var names []string
	for i := range tenants {
		names = append(names, fmt.Sprint("t", i))
		c.create(names[i], "a", "10.0.0.7", 30007)
	}
	var before int64
	for _, what := range []string{"with what the passes write", "for the ranges"} {
		p, f := newPasses(), must(New(Config{Interval: time.Hour, Timeout: time.Minute}))
		f.config.Passed = func(pass Pass) { p.add(Pass{Tenant: pass.Tenant, Err: pass.Err}) }
		for _, name := range names {
			if err := f.Add(c.tenant(name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range f.due {
			one.due = time.Now() // one pass of each, and no second one
		}
		stop := run(f)
		p.await(t, 1, names...)
		stop()
		if n := f.opened(); n > 0 {
			t.Errorf("%d ranges are open", n)
		}
		if what == "for the ranges" {
			each := (used() - before) / (2 * tenants)
			t.Logf("%d bytes for each of %d ranges", each, 2*tenants)
			if each > limit {
				t.Errorf("%d bytes for each of %d ranges, want at most %d", each, 2*tenants, limit)
			}
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		before = used()
	}
}

// used returns the memory of the heap and of stacks.
func used() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
