// Package fleet keeps the stored ranges of thousands of clusters in one process, as the host of many control planes
// does: one driver makes the repair passes of all, spread over the interval, and a range that nobody uses costs some
// hundred bytes.
//
// A tenant is a cluster: its ranges are repaired in one pass, for which its Services are listed once. A range is open
// while it is used, for its grace after that, and as long as a pass has leaks to clean; else it is closed, and opened
// for the length of a pass. So it does not notice all restores of its etcd, and needs no notice: a pass reads Services
// in that etcd as well.
//
// Each pass has a goroutine and a time limit of its own. One that takes long gives its place to another tenant, so that
// a tenant whose etcd or API server does not answer delays no other one.
package fleet

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// DefaultParallel is how many passes are under way at once, at most.
const DefaultParallel = 64

// Config configures a Fleet.
type Config struct {
	// Interval is the time between two passes of a tenant; 0 for repair.DefaultInterval. A leak is cleaned in the pass
	// that sees it for the Passes-th time in a row; 0 for repair.DefaultPasses.
	Interval time.Duration
	Passes   uint8
	// Timeout is how long a pass may take; 0 for a quarter of the interval.
	Timeout time.Duration
	// Parallel is how many passes are under way at once; 0 for DefaultParallel. One that has not ended after a tenth of
	// the timeout, or 2 seconds, does not count any more. So that those which do not answer leave these places to the
	// others, tenants whose last pass was slow or has failed have as many of their own.
	Parallel int
	// Passed, if not nil, is called after each pass, also by several goroutines at once.
	Passed func(Pass)
}

// Pass is a repair pass that has ended.
type Pass struct {
	// Tenant is the name of the tenant.
	Tenant string
	// Result is what was found and done.
	Result repaircontroller.Result
	// Err is why the pass failed, or could not repair all ranges; the next one tries again.
	Err  error
	Took time.Duration
}

// Tenant is a cluster, by the name that Use and Remove need.
type Tenant struct {
	Name string
	// Ranges are its stored ranges; the first one of addresses is the primary range.
	Ranges []etcdstore.Config
	// Services reads those of the tenant in the etcd of the ranges, once for each pass: clusterstate.StoredServices.
	Services repaircontroller.ListStored
	// Recorder records findings as Events; nil for nobody.
	Recorder repaircontroller.Recorder
}

// Fleet keeps the ranges of its tenants. All methods may be called from several goroutines at once.
type Fleet struct {
	config Config
	wake   chan struct{}
	// places has a place for each pass that may be under way, and slow for each of a tenant whose last one was slow.
	places, slow chan struct{}

	mu      sync.Mutex
	closed  bool
	tenants map[string]*tenant
	due     schedule
	added   uint64
}

// ErrNoTenant: the fleet has no tenant of this name, or the tenant no range with this key.
var ErrNoTenant = errors.New("no such tenant or range")

// New makes a Fleet without tenants. The error is rangekeeper.ErrInvalidArgument.
func New(config Config) (*Fleet, error) {
	if config.Interval == 0 {
		config.Interval = repair.DefaultInterval
	}
	if config.Passes == 0 {
		config.Passes = repair.DefaultPasses
	}
	if config.Timeout == 0 {
		config.Timeout = config.Interval / 4
	}
	if config.Parallel == 0 {
		config.Parallel = DefaultParallel
	}
	if config.Interval < 0 || config.Timeout < 0 || config.Parallel < 0 {
		return nil, fmt.Errorf("fleet: %w: interval %s, timeout %s, %d passes at once", rangekeeper.ErrInvalidArgument, config.Interval, config.Timeout, config.Parallel)
	}
	return &Fleet{
		config: config, wake: make(chan struct{}, 1), tenants: map[string]*tenant{},
		places: make(chan struct{}, config.Parallel), slow: make(chan struct{}, config.Parallel),
	}, nil
}

// Add adds a tenant. Its first pass is within the interval: where, is spread evenly over all tenants. Nothing is read
// or written before. The error is rangekeeper.ErrInvalidArgument, or rangekeeper.ErrClosed.
func (f *Fleet) Add(t Tenant) error {
	if len(t.Ranges) == 0 || t.Services == nil {
		return fmt.Errorf("add tenant %q: %w: it has no ranges, or no list of Services", t.Name, rangekeeper.ErrInvalidArgument)
	}
	for i, config := range t.Ranges {
		if err := config.Check(); err != nil {
			return fmt.Errorf("add tenant %q: range %q: %w", t.Name, config.Key, err)
		}
		if slices.ContainsFunc(t.Ranges[:i], func(other etcdstore.Config) bool {
			return other.Key == config.Key || other.Range.Excludes(config.Range)
		}) {
			return fmt.Errorf("add tenant %q: %w: range %q is there twice, or one of its kind is", t.Name, rangekeeper.ErrInvalidArgument, config.Key)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("add tenant %q: the fleet: %w", t.Name, rangekeeper.ErrClosed)
	}
	if f.tenants[t.Name] != nil {
		return fmt.Errorf("add tenant %q: %w: there is one of this name", t.Name, rangekeeper.ErrInvalidArgument)
	}
	added := &tenant{Tenant: t, due: time.Now().Add(f.offset())}
	f.tenants[t.Name] = added
	heap.Push(&f.due, added)
	f.notify()
	return nil
}

// offset returns how long after its addition the next tenant has its first pass: the multiples of the golden ratio
// without their whole part are spread evenly, however many there are. The caller has locked the Fleet.
func (f *Fleet) offset() time.Duration {
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	f.added++
	return time.Duration(float64(f.added*golden>>11) / (1 << 53) * float64(f.config.Interval))
}

// notify has Run look which pass is due. The caller has locked the Fleet.
func (f *Fleet) notify() {
	select {
	case f.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// Remove removes a tenant, once its pass and the operations under way have ended, or the context has: those that had
// not ended then return etcdstore.ErrUnknown. Later ones, of uses that go on, return rangekeeper.ErrClosed. What is
// stored stays. The error is ErrNoTenant, or that of the context.
func (f *Fleet) Remove(ctx context.Context, name string) error {
	f.mu.Lock()
	t := f.tenants[name]
	if t == nil {
		f.mu.Unlock()
		return fmt.Errorf("remove tenant %q: %w", name, ErrNoTenant)
	}
	delete(f.tenants, name)
	if t.index >= 0 {
		heap.Remove(&f.due, t.index)
	}
	f.mu.Unlock()
	return t.remove(ctx)
}

// Use calls work with the range of this key, which stays open meanwhile. Between two uses the range may have been
// closed, and its etcd restored: a release that names a store of an earlier one (rangekeeper.Ownership) is then
// etcdstore.ErrDeferred. The error is ErrNoTenant, one of etcdstore.Open, or that of work.
func (f *Fleet) Use(tenant, key string, work func(*etcdstore.Store) error) error {
	f.mu.Lock()
	t := f.tenants[tenant]
	f.mu.Unlock()
	if t == nil {
		return fmt.Errorf("use %q of tenant %q: %w", key, tenant, ErrNoTenant)
	}
	index := slices.IndexFunc(t.Ranges, func(config etcdstore.Config) bool { return config.Key == key })
	if index < 0 {
		return fmt.Errorf("use %q of tenant %q: %w", key, tenant, ErrNoTenant)
	}
	if err := t.use(index, work); err != nil {
		return fmt.Errorf("tenant %q: %w", tenant, err)
	}
	return nil
}

// Run makes the passes of all tenants until the context ends, and waits for those under way then. It may be called
// again after that.
func (f *Fleet) Run(ctx context.Context) {
	var passes sync.WaitGroup
	defer passes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		t, wait := f.next()
		if t != nil {
			passes.Go(func() { f.pass(ctx, t) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// next returns the tenant whose pass is due, or how long to wait.
func (f *Fleet) next() (*tenant, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.due) == 0 {
		return nil, f.config.Interval
	}
	if wait := time.Until(f.due[0].due); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&f.due).(*tenant), 0
}

// pass makes a pass of a tenant, and has the next one an interval later.
func (f *Fleet) pass(ctx context.Context, t *tenant) {
	defer f.reschedule(t)
	places := f.places
	if t.slow {
		places = f.slow
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	leave := sync.OnceFunc(func() { <-places })
	defer leave()
	t.began = time.Now()
	slow := time.AfterFunc(min(f.config.Timeout/10, 2*time.Second), leave)
	result, err := t.pass(ctx, f.config)
	if ctx.Err() != nil {
		return // it has ended too early, and says nothing about the tenant
	}
	t.slow = !slow.Stop() || err != nil
	if f.config.Passed != nil && !errors.Is(err, ErrNoTenant) {
		f.config.Passed(Pass{t.Name, result, err, time.Since(t.began)})
	}
}

// reschedule puts a tenant back whose pass has ended. The next one is not much less than an interval after the
// beginning of this one, which may have waited for its place: else the core would not count what it finds leaked.
func (f *Fleet) reschedule(t *tenant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tenants[t.Name] != t {
		return // it was removed
	}
	t.due = t.due.Add(f.config.Interval)
	if soonest := t.began.Add(f.config.Interval * 19 / 20); t.due.Before(soonest) {
		t.due = soonest
	}
	heap.Push(&f.due, t)
	f.notify()
}

// Close removes all tenants, as Remove does, at once. Run must have returned. Nothing can be added any more.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	tenants := f.tenants
	f.tenants, f.due, f.closed = map[string]*tenant{}, nil, true
	f.mu.Unlock()
	errs := make(chan error, len(tenants))
	for _, t := range tenants {
		go func() { errs <- t.remove(ctx) }()
	}
	var all []error
	for range tenants {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// schedule has the tenants that wait for a pass, the next one first.
type schedule []*tenant

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *schedule) Push(t any) {
	added := t.(*tenant)
	added.index = len(*s)
	*s = append(*s, added)
}

func (s *schedule) Pop() any {
	last := len(*s) - 1
	t := (*s)[last]
	(*s)[last] = nil
	*s, t.index = (*s)[:last], -1
	return t
}
