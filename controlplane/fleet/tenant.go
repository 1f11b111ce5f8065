package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// tenant is a Tenant and what is open of it.
type tenant struct {
	Tenant
	// due is when the next pass begins, and index the place in the schedule; -1 while a pass is under way. The Fleet's
	// lock guards both.
	due   time.Time
	index int
	// Of passes only, which go one after another: when the last one began, whether it was slow or has failed, what
	// counts leaks, nil if there were none, and whether there are some by the last pass that did not fail. The ranges
	// that it repairs stay open.
	began    time.Time
	slow     bool
	repairer *repaircontroller.Repairer
	leaks    bool

	mu sync.Mutex
	// opened has the ranges that are open, by their place in Ranges; nil if none is.
	opened map[int]*openRange
	// removed: nothing is opened any more.
	removed bool
	// ended is closed when the pass under way, or the last one, has ended; nil before the first.
	ended chan struct{}
}

// openRange is a range that is open.
type openRange struct {
	store *etcdstore.Store
	// users is how many uses are under way.
	users int
	// used is when the last one has ended; zero if only passes have used it.
	used time.Time
}

// open returns a range that is open. The caller has locked the tenant.
func (t *tenant) open(index int) (*openRange, error) {
	if t.removed {
		return nil, ErrNoTenant
	}
	if one := t.opened[index]; one != nil {
		return one, nil
	}
	store, err := etcdstore.Open(t.Ranges[index])
	if err != nil {
		return nil, err
	}
	if t.opened == nil {
		t.opened = make(map[int]*openRange, len(t.Ranges))
	}
	t.opened[index] = &openRange{store: store}
	return t.opened[index], nil
}

// use calls work with a range.
func (t *tenant) use(index int, work func(*etcdstore.Store) error) error {
	t.mu.Lock()
	one, err := t.open(index)
	if err != nil {
		t.mu.Unlock()
		return err
	}
	one.users++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		one.users--
		one.used = time.Now()
	}()
	return work(one.store)
}

// pass makes a pass over all ranges, and closes those that nobody needs after it.
func (t *tenant) pass(ctx context.Context, config Config) (result repaircontroller.Result, err error) {
	ended := make(chan struct{})
	defer close(ended)
	if err := t.begin(config, ended); err != nil {
		return result, errors.Join(err, t.closeIdle(ctx, config))
	}
	passing, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	result, err = t.repairer.Pass(passing)
	t.leaks = t.leaks && err != nil
	for _, r := range result.Ranges {
		t.leaks = t.leaks || r.Leaked > r.Cleared
	}
	return result, errors.Join(err, t.endPass(ctx, config))
}

// begin opens all ranges for a pass.
func (t *tenant) begin(config Config, ended chan struct{}) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = ended
	ranges := make([]repair.Range, len(t.Ranges))
	for i := range t.Ranges {
		one, err := t.open(i)
		if err != nil {
			return fmt.Errorf("open %s: %w", t.Ranges[i].Key, err)
		}
		ranges[i] = one.store
	}
	if t.repairer != nil {
		return nil
	}
	var err error
	t.repairer, err = repaircontroller.New(repaircontroller.Config{
		Ranges: ranges, Services: t.Services, Recorder: t.Recorder,
		Interval: config.Interval, Passes: config.Passes,
	})
	return err
}

// endPass closes the ranges that nobody needs, unless leaks are counted: that depends on what the ranges have seen.
func (t *tenant) endPass(ctx context.Context, config Config) error {
	if t.leaks {
		return nil
	}
	err := t.repairer.Close()
	t.repairer = nil
	return errors.Join(err, t.closeIdle(ctx, config))
}

// closeIdle closes the ranges that nobody uses.
func (t *tenant) closeIdle(ctx context.Context, config Config) error {
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	var errs []error
	for _, one := range t.takeIdle() {
		errs = append(errs, one.store.Close(ctx))
	}
	return errors.Join(errs...)
}

// takeIdle takes the ranges that were not used for their grace: until then a Store protects what it has handed out.
func (t *tenant) takeIdle() (idle []*openRange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for index, one := range t.opened {
		grace := t.Ranges[index].Grace
		if grace == 0 {
			grace = etcdstore.DefaultGrace
		}
		if one.users == 0 && (one.used.IsZero() || time.Since(one.used) > grace) {
			delete(t.opened, index)
			idle = append(idle, one)
		}
	}
	if len(t.opened) == 0 {
		t.opened = nil
	}
	return idle
}

// remove closes all ranges, once the pass and the operations under way have ended, or the context has.
func (t *tenant) remove(ctx context.Context) error {
	t.mu.Lock()
	t.removed = true
	ended := t.ended
	t.mu.Unlock()
	if ended != nil {
		select {
		case <-ended:
		case <-ctx.Done(): // closing the ranges ends the pass
		}
	}
	t.mu.Lock()
	opened := t.opened
	t.opened = nil
	t.mu.Unlock()
	var errs []error
	for _, one := range opened {
		errs = append(errs, one.store.Close(ctx))
	}
	go func() {
		if ended != nil {
			<-ended
		}
		if t.repairer != nil {
			_ = t.repairer.Close() // it has no errors but a fault of Rangekeeper, which all calls report
		}
	}()
	return errors.Join(errs...)
}
