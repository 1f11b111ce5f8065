package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	// stressPrefix is what the key of a stress test begins with: no server of a
	// cluster has anything there.
	stressPrefix = "/rangekeeper-stress/"
	// sizeTimeout is for a look at the size of the database, once a second.
	sizeTimeout = time.Second
	// maxCallers keeps the memory for callers below a gigabyte.
	maxCallers = 1 << 16
)

// stress is what a stress test is to do.
type stress struct {
	connection       connection
	callers, servers int
	duration         time.Duration
	spec             string
	releaseShare     float64
}

func newStress() *cobra.Command {
	s := new(stress)
	c := &cobra.Command{
		Use:   "stress",
		Short: "Measure how fast values are allocated, and check that none is handed out twice",
		Long: `Lets callers allocate values of a new range and release them again, one operation
after the other, spread over servers of which each has a connection and a cache of
its own. Prints how it goes once a second on stderr, and a summary at the end.

Without --endpoints an etcd in this process is used, with its data in a temporary
directory (below $TMPDIR) that is removed in the end: some hundred megabytes in ten
seconds with a /12. With --endpoints nothing is touched but one new key below
` + stressPrefix + `, which is deleted in the end.

Exit codes: 0 all is well, 1 a value was handed out twice or is not stored, 2 wrong
usage, or etcd refused a request, 3 etcd cannot be reached.`,
		Example: `  rangekeeper stress
  rangekeeper stress --callers 256 --servers 3 --duration 1m -o json
  rangekeeper stress --range 30000-32767 --endpoints http://127.0.0.1:2379`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := addFormat(c, formatTable, formatJSON)
	s.connection.addFlags(c, "use a running etcd at these URLs")
	f := c.Flags()
	f.IntVar(&s.callers, "callers", 64, "number of callers")
	f.IntVar(&s.servers, "servers", 1, "number of servers that they are spread over")
	f.DurationVar(&s.duration, "duration", 10*time.Second, "how long to go on")
	f.StringVar(&s.spec, "range", "10.96.0.0/12", "CIDR or range of ports to allocate from")
	f.Float64Var(&s.releaseShare, "release-share", 0.5, "share of releases among the operations, 0 to 1; a caller that has nothing allocates")
	completeNothing(c, "callers", "servers", "duration", "range", "release-share")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(format.check(), s.check()); err != nil {
			return err
		}
		report, runErr := s.run(c.Context(), c.ErrOrStderr())
		if report == nil {
			return runErr
		}
		// What was measured before it failed is of use, too.
		var err error
		if format.value == formatJSON {
			err = writeDocument(c.OutOrStdout(), report, formatJSON)
		} else {
			err = report.writeTable(c.OutOrStdout())
		}
		if err = errors.Join(runErr, err); err == nil && report.HandedOutTwice+report.Lost > 0 {
			return errFound
		}
		return err
	}
	return c
}

func (s *stress) check() error {
	switch {
	case s.callers < 1 || s.callers > maxCallers:
		return fmt.Errorf("--callers is 1 to %d", maxCallers)
	case s.servers < 1 || s.servers > s.callers:
		return errors.New("--servers is at least 1, and at most the number of callers")
	case s.duration <= 0:
		return errors.New("--duration is more than 0")
	case !(s.releaseShare >= 0 && s.releaseShare <= 1):
		return errors.New("--release-share is 0 to 1")
	}
	return s.connection.check()
}

// run gives a report unless nothing was measured.
func (s *stress) run(ctx context.Context, log io.Writer) (*stressReport, error) {
	if values, err := rangekeeper.ParsePortRange(s.spec); err == nil {
		return runStress(ctx, s, values, log)
	}
	values, err := rangekeeper.ParseCIDR(s.spec)
	if err != nil {
		return nil, fmt.Errorf("--range: %w", err)
	}
	return runStress(ctx, s, values, log)
}

// stressRun is a stress test under way.
type stressRun[V rangekeeper.Value] struct {
	*stress
	values rangekeeper.Range[V]
	key    string
	all    []*stressServer[V]
	// made says that something is stored under the key.
	made bool
	// owned says of each offset whether a caller has it.
	owned []atomic.Bool

	allocations, releases          histogram
	full, deferred, unknown, twice atomic.Int64
}

// stressServer is what a server has of its own.
type stressServer[V rangekeeper.Value] struct {
	client *clientv3.Client
	store  *etcdstore.Store[V]
	// seen is the latest revision at which it has allocated: all values that its
	// callers have were theirs then.
	seen atomic.Int64
}

func runStress[V rangekeeper.Value](ctx context.Context, s *stress, values rangekeeper.Range[V], log io.Writer) (report *stressReport, err error) {
	key := fmt.Sprintf("%s%016x", stressPrefix, rand.Uint64())
	r := &stressRun[V]{stress: s, values: values, key: key, owned: make([]atomic.Bool, values.Size())}
	connection, size, stop, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	// An interrupted test is finished in good order.
	background := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, r.close(background)) }()
	for range s.servers {
		if err := r.addServer(background, connection); err != nil {
			return nil, err
		}
	}
	m := &meter{log: log, size: size, read: r.reading}
	if err := m.begin(background); err != nil {
		return nil, err
	}
	runErr := r.drive(ctx, m)
	report, err = m.end(background)
	if err != nil {
		return nil, cmp.Or(runErr, err)
	}
	r.describe(report)
	if runErr != nil {
		return report, runErr
	}
	return report, r.compare(background, report)
}

// start gives an etcd, the bytes that its database takes, and how to end it. Those
// of a running one are without its free pages, which it may have plenty of.
func (s *stress) start(ctx context.Context) (*connection, func(context.Context) (int64, error), func() error, error) {
	if s.connection.given() {
		client, err := s.connection.connect(context.WithoutCancel(ctx))
		if err != nil {
			return nil, nil, nil, err
		}
		size := func(ctx context.Context) (int64, error) {
			ctx, cancel := context.WithTimeout(ctx, sizeTimeout)
			defer cancel()
			status, err := client.Status(ctx, client.Endpoints()[0])
			if err != nil {
				return 0, unreachable(err)
			}
			return status.DbSizeInUse, nil
		}
		return &s.connection, size, client.Close, nil
	}
	dir, err := os.MkdirTemp("", "rangekeeper-stress-")
	if err != nil {
		return nil, nil, nil, err
	}
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "etcd"), KeepHistory: true})
	if err != nil {
		return nil, nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	size := func(context.Context) (int64, error) { return etcd.DatabaseSize(), nil }
	stop := func() error {
		etcd.Close()
		return os.RemoveAll(dir)
	}
	return &connection{clusterstate.ConnectOptions{Endpoints: etcd.Endpoints()}}, size, stop, nil
}

func (r *stressRun[V]) addServer(ctx context.Context, connection *connection) error {
	client, err := connection.connect(ctx)
	if err != nil {
		return err
	}
	store, err := etcdstore.Open(etcdstore.Config[V]{
		Client: client, Key: r.key, Range: r.values, Strategy: rangekeeper.RandomScanSparingStaticBand,
	})
	if err != nil {
		return errors.Join(err, client.Close())
	}
	r.all = append(r.all, &stressServer[V]{client: client, store: store})
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	made, err := store.Init(ctx)
	r.made = r.made || made
	return unreachable(err)
}

// close ends the servers and deletes what they have stored.
func (r *stressRun[V]) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var errs []error
	for i, server := range r.all {
		errs = append(errs, server.store.Close(ctx))
		if i == len(r.all)-1 && r.made {
			if _, err := server.client.Delete(ctx, r.key); err != nil {
				errs = append(errs, unreachable(fmt.Errorf("delete %s: %w", r.key, err)))
			}
		}
		errs = append(errs, server.client.Close())
	}
	return errors.Join(errs...)
}

// drive lets the callers work until the time is over, the context is done, or one
// of them has met an error.
func (r *stressRun[V]) drive(ctx context.Context, m *meter) error {
	stopping, stop := context.WithTimeout(ctx, r.duration)
	defer stop()
	// What is under way when they are to stop is let end.
	working, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	context.AfterFunc(stopping, func() { time.AfterFunc(operationTimeout, giveUp) })
	var once sync.Once
	var failure error
	var group sync.WaitGroup
	for i := range r.callers {
		group.Go(func() {
			if err := r.call(stopping, working, r.all[i%len(r.all)]); err != nil {
				once.Do(func() { failure = err })
				stop()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	m.show(ctx, done)
	if working.Err() != nil {
		failure = fmt.Errorf("%w: operations had no answer after %s", clusterstate.ErrUnreachable, operationTimeout)
	}
	return failure
}

// call is one caller.
func (r *stressRun[V]) call(stopping, working context.Context, server *stressServer[V]) error {
	var own []V
	full := false
	for stopping.Err() == nil {
		if len(own) > 0 && (full || rand.Float64() < r.releaseShare) {
			i := rand.IntN(len(own))
			value := own[i]
			own[i] = own[len(own)-1]
			own = own[:len(own)-1]
			if err := r.release(working, server, value); err != nil {
				return err
			}
			full = false
			continue
		}
		value, err := r.allocate(working, server)
		switch {
		case err == nil:
			own = append(own, value)
		case errors.Is(err, rangekeeper.ErrFull):
			r.full.Add(1)
			if r.releaseShare == 0 {
				return nil // there is nothing more to be done
			}
			full = true
		case errors.Is(err, etcdstore.ErrUnknown):
			r.unknown.Add(1)
		default:
			return unreachable(err)
		}
	}
	return nil
}

func (r *stressRun[V]) allocate(ctx context.Context, server *stressServer[V]) (V, error) {
	begun := time.Now()
	allocation, err := server.store.AllocateNext(ctx)
	if err != nil {
		return allocation.Value, err
	}
	r.allocations.add(time.Since(begun))
	if offset, ok := r.values.OffsetOf(allocation.Value); !ok || r.owned[offset].Swap(true) {
		r.twice.Add(1)
	}
	for {
		seen := server.seen.Load()
		if allocation.Revision <= seen || server.seen.CompareAndSwap(seen, allocation.Revision) {
			return allocation.Value, nil
		}
	}
}

// release gives a value back as if its Service had just been deleted.
func (r *stressRun[V]) release(ctx context.Context, server *stressServer[V], value V) error {
	// From now on somebody else may get it.
	if offset, ok := r.values.OffsetOf(value); ok {
		r.owned[offset].Store(false)
	}
	begun := time.Now()
	_, err := server.store.Release(ctx, value, rangekeeper.OwnedSince(server.seen.Load()))
	switch {
	case err == nil:
		r.releases.add(time.Since(begun))
	case errors.Is(err, etcdstore.ErrDeferred):
		r.deferred.Add(1)
	case errors.Is(err, etcdstore.ErrUnknown):
		r.unknown.Add(1)
	default:
		return unreachable(err)
	}
	return nil
}

// reading adds up what the servers have done.
func (r *stressRun[V]) reading() reading {
	now := reading{allocations: r.allocations.counts(), releases: r.releases.counts()}
	for _, server := range r.all {
		stats := server.store.Stats()
		now.operations += stats.Operations
		now.swaps += stats.Swaps
		now.conflicts += stats.Conflicts
	}
	return now
}

func (r *stressRun[V]) describe(report *stressReport) {
	report.Range, report.Callers, report.Servers, report.ReleaseShare = r.values.String(), r.callers, r.servers, r.releaseShare
	report.Full, report.Deferred, report.Unknown = r.full.Load(), r.deferred.Load(), r.unknown.Load()
	report.HandedOutTwice = r.twice.Load()
}

// compare looks for the callers' values among the stored ones, once all callers
// have ended.
func (r *stressRun[V]) compare(ctx context.Context, report *stressReport) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	view, err := r.all[0].store.Read(ctx)
	if err != nil {
		return unreachable(err)
	}
	stored, err := rangekeeper.NewAllocator(r.values, rangekeeper.Contiguous, 0)
	if err != nil {
		return err
	}
	defer stored.Close()
	if err := stored.Restore(r.values.String(), view.Snapshot); err != nil {
		return err
	}
	var owned []V
	for offset := range r.owned {
		if !r.owned[offset].Load() {
			continue
		}
		if value, ok := r.values.ValueAt(uint32(offset)); ok {
			owned = append(owned, value)
		}
	}
	has, err := stored.HasBatch(nil, owned)
	if err != nil {
		return err
	}
	for _, has := range has {
		if !has {
			report.Lost++
		}
	}
	used, err := stored.Used()
	report.Leaked = int64(used-len(owned)) + report.Lost
	return err
}
