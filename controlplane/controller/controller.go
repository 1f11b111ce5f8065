// Package controller puts the bootstrap controller of one server together: the repairs of its ranges through etcd, and
// all that package bootstrap does.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	"github.com/rangekeeper/rangekeeper/controlplane/servermetrics"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore/storemetrics"
)

// Config configures a Controller.
type Config struct {
	// API is how the API server is reached, Etcd where its data are.
	API  *rest.Config
	Etcd *clientv3.Client
	// ClusterIPRanges are one range of addresses or two, one of each IP family; the first is the primary one.
	ClusterIPRanges []rangekeeper.Range
	// NodePortRange is the range of node ports.
	NodePortRange rangekeeper.Range
	// ReplaceRanges are the names of stored ranges that are replaced by the configured ones once, though Services need
	// them: see rangekeeper.ReplaceOnce. The others are kept then.
	ReplaceRanges []string
	// Bootstrap is the rest; its ServiceClusterIPRange is taken from ClusterIPRanges.
	Bootstrap bootstrap.Config
	// Metrics is where all metrics are registered.
	Metrics prometheus.Registerer
	// Started, if not nil, is called once, when the first repairs have succeeded.
	Started func()
	// Log records each failure once, and when it is over.
	Log *slog.Logger
	// DryRun logs the writes and makes none of them.
	DryRun bool
}

// Controller is the bootstrap controller of one server.
type Controller struct {
	config    Config
	client    *client
	bootstrap *bootstrap.Controller
	events    record.EventBroadcaster
	closers   []func(context.Context) error
	health    []func() error
	repairers map[string]*repairer
	// primary is the first range of ClusterIPs, services the list for its repairs.
	primary  *etcdstore.Store
	services repaircontroller.ListStored
	// records is where ClusterIPs were recorded at the last check; nil before the first.
	records atomic.Pointer[rangekeeper.ClusterIPRecords]
	// waiting is why it has not begun.
	waiting lastError
}

type repairer struct {
	*repaircontroller.Repairer
	// kept is why stored ranges count that are not the configured ones, or why nothing can be repaired.
	kept lastError
}

// keep records why ranges stay as they are, nil for none, and reports whether that is new and has to be logged.
func (r *repairer) keep(now error) bool {
	before := r.kept.get()
	r.kept.set(now)
	return now != nil && (before == nil || before.Error() != now.Error())
}

// lastError is an error that Health reports until it is over. The zero value has none.
type lastError struct{ value atomic.Pointer[error] }

func (l *lastError) get() error {
	if last := l.value.Load(); last != nil {
		return *last
	}
	return nil
}

func (l *lastError) set(err error) { l.value.Store(&err) }

// ClusterIPRangeNames are the names under which the ranges of a Config are stored, in its order.
var ClusterIPRangeNames = []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs}

// Check returns an error that names the part of the ranges and node ports that no controller can use. It makes no I/O.
func (c *Config) Check() error {
	ranges := c.ClusterIPRanges
	_, hasPort := c.NodePortRange.OffsetOf(rangekeeper.PortValue(c.Bootstrap.KubernetesServiceNodePort))
	switch {
	case len(ranges) == 0:
		return errors.New("no range of ClusterIPs is configured")
	case len(ranges) > len(ClusterIPRangeNames):
		return fmt.Errorf("%d ranges of ClusterIPs, at most two are possible", len(ranges))
	case c.Bootstrap.KubernetesServiceNodePort != 0 && !hasPort:
		return fmt.Errorf("the node port %d of the Service kubernetes is not in the range %s", c.Bootstrap.KubernetesServiceNodePort, c.NodePortRange)
	}
	if len(ranges) == 2 && ranges[0].Excludes(ranges[1]) {
		return fmt.Errorf("%s and %s are ranges of ClusterIPs of one IP family", ranges[0], ranges[1])
	}
	return nil
}

// checkAgain is the time until the API server and etcd are asked again for their cluster.
const checkAgain = time.Second

// closeTimeout is how long it may take to leave the ranges in order.
const closeTimeout = 2 * time.Second

// New makes a controller, which does nothing before Run. Errors name the unusable part of the Config.
func New(config Config) (*Controller, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	config.API = rest.CopyConfig(config.API)
	config.API.QPS = -1                           // the API server limits requests itself
	config.API.WarningHandler = rest.NoWarnings{} // of the API server about Endpoints, which have to be kept nevertheless
	api, err := newClient(config.API)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	c := &Controller{
		config: config, client: api, repairers: map[string]*repairer{},
		events: record.NewBroadcaster(),
	}
	if err := c.addRepairs(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	metrics, restores := servermetrics.New(), storemetrics.RestoresOf(clusterstate.LeaseKeys(config.Bootstrap.EtcdPrefix))
	if err := cmp.Or(config.Metrics.Register(metrics), config.Metrics.Register(restores)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	config.Bootstrap.ServiceClusterIPRange = config.ClusterIPRanges[0].String()
	c.bootstrap, err = bootstrap.New(config.Bootstrap, bootstrap.Server{
		API: config.API, Etcd: config.Etcd, Started: config.Started, Log: config.Log, DryRun: config.DryRun,
		RepairClusterIPs: c.repairClusterIPs, RepairNodePorts: c.repairNodePorts, FreeServiceIP: c.freeServiceIP, CheckEtcd: c.checkSameHistory,
		Restored: restores.Inc, Metrics: metrics,
	})
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.health = append(c.health, c.bootstrap.Health)
	return c, nil
}

// addRepairs opens the ranges and makes the two repairers.
func (c *Controller) addRepairs() error {
	c.services = clusterstate.StoredServices(c.config.Etcd, c.config.Bootstrap.EtcdPrefix, c.client.servicesOf)
	metrics := repaircontroller.NewMetrics()
	if err := c.config.Metrics.Register(metrics); err != nil {
		return err
	}
	var addresses []repair.Range
	var names []repaircontroller.RangeName
	for i, values := range c.config.ClusterIPRanges {
		store, err := open(c, ClusterIPRangeNames[i], values)
		if err != nil {
			return err
		}
		if i == 0 {
			c.primary = store
		}
		addresses = append(addresses, store)
		names = append(names, repaircontroller.RangeName{Name: ClusterIPRangeNames[i], Values: values.String()})
	}
	ports, err := open(c, clusterstate.ServiceNodePorts, c.config.NodePortRange)
	if err != nil {
		return err
	}
	for _, of := range []struct {
		controller repaircontroller.Controller
		ranges     []repair.Range
		names      []repaircontroller.RangeName
	}{
		{repaircontroller.ClusterIPs, addresses, names},
		{repaircontroller.NodePorts, []repair.Range{ports}, []repaircontroller.RangeName{{Name: clusterstate.ServiceNodePorts, Values: c.config.NodePortRange.String()}}},
	} {
		passes, err := repaircontroller.New(repaircontroller.Config{
			Controller: of.controller, Ranges: of.ranges, Names: of.names, Services: c.services,
			Recorder: newEventRecorder(c.events, c.client.scheme, of.controller.Name), Metrics: metrics, Log: c.config.Log,
			Interval: c.config.Bootstrap.Periods.Repairs, DryRun: c.config.DryRun,
		})
		if err != nil {
			return err
		}
		own := &repairer{Repairer: passes}
		c.repairers[of.controller.Name] = own
		c.health = append(c.health, own.kept.get)
		c.closers = append(c.closers, func(context.Context) error { return own.Close() })
	}
	return nil
}

func open(c *Controller, name string, values rangekeeper.Range) (*etcdstore.Store, error) {
	prefix := c.config.Bootstrap.EtcdPrefix
	replace := rangekeeper.ReplaceIfUnused
	if slices.Contains(c.config.ReplaceRanges, name) {
		replace = rangekeeper.ReplaceOnce
	}
	store, err := etcdstore.Open(etcdstore.Config{
		Client: c.config.Etcd, Key: clusterstate.RangeKey(prefix, name), Range: values,
		Services: clusterstate.ServiceKeys(prefix), Strategy: rangekeeper.DynamicBandFirst, Replace: replace, Grace: 2 * c.config.Bootstrap.Periods.Repairs,
		Replaced: func(err error) { c.config.Log.Error("a committer failed and is replaced", "error", err) },
		Restored: func() {
			c.config.Log.Error("etcd was restored; restart the API server if it ran meanwhile", "range", name)
		},
	})
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, store.Close)
	c.health = append(c.health, store.Health)
	return store, c.config.Metrics.Register(storemetrics.Of(store))
}

// Started reports whether the first repairs have succeeded: the server may serve.
func (c *Controller) Started() bool { return c.bootstrap.Started() }

// Stopping reports whether the controller is told to stop.
func (c *Controller) Stopping() bool { return c.bootstrap.Stopping() }

// Health returns an error if some work fails and is tried again, the first repairs have not succeeded, a range is kept
// though another one is configured, or something has failed lately that works again, as a committer that was replaced.
func (c *Controller) Health() error {
	errs := []error{c.waiting.get()}
	if !c.Started() {
		errs = append(errs, errors.New("the first repairs have not succeeded, which wait for an API server that is ready"))
	}
	for _, check := range c.health {
		errs = append(errs, check())
	}
	return errors.Join(errs...)
}

// Run works until the context is done, and then stops in order; see [bootstrap.Controller.Run]. It begins when the API
// server answers. With the etcd of another cluster the error is [clusterstate.ErrOtherCluster], and nothing is written.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.awaitSameCluster(ctx); err != nil || ctx.Err() != nil {
		return errors.Join(err, c.close())
	}
	c.events.StartRecordingToSink(eventSink{c.client})
	defer c.events.Shutdown()
	return errors.Join(c.bootstrap.Run(ctx), c.close())
}

// CheckSameCluster is [clusterstate.CheckSameCluster] of its API server and its etcd.
func (c *Controller) CheckSameCluster(ctx context.Context) error {
	return clusterstate.CheckSameCluster(ctx, c.client, c.config.Etcd, c.config.Bootstrap.EtcdPrefix)
}

// checkSameHistory is [clusterstate.CheckSameHistory] of its API server and its etcd.
func (c *Controller) checkSameHistory(ctx context.Context) error {
	return clusterstate.CheckSameHistory(ctx, c.client, c.config.Etcd)
}

// awaitSameCluster returns once the API server and etcd are known to be of one cluster, or of two, or ctx is done.
func (c *Controller) awaitSameCluster(ctx context.Context) error {
	for logged := ""; ; {
		err := c.CheckSameCluster(ctx)
		c.waiting.set(err)
		if err == nil || errors.Is(err, clusterstate.ErrOtherCluster) {
			return err
		}
		if err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			c.config.Log.ErrorContext(ctx, "waiting for the API server and etcd", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(checkAgain):
		}
	}
}

func (c *Controller) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	for _, closer := range c.closers {
		err = errors.Join(err, closer(ctx))
	}
	return err
}

func (c *Controller) repairNodePorts(ctx context.Context) error {
	return c.repair(ctx, repaircontroller.NodePorts)
}

// repairClusterIPs only looks at ClusterIPs that are IPAddress objects: the API server repairs those, and nobody reads
// a bitmap of them. Nothing is done either while a server starts that has created no object yet. It looks each time, as
// the server may be another release by then.
func (c *Controller) repairClusterIPs(ctx context.Context) error {
	records, err := c.clusterIPRecords(ctx)
	if err != nil {
		return err
	}
	if before := c.records.Swap(&records); records.HasObjects() && (before == nil || !before.HasObjects()) {
		c.config.Log.Info("ClusterIPs are IPAddress objects, which the API server repairs itself")
	}
	if records == rangekeeper.RecordsInBitmaps {
		return c.repair(ctx, repaircontroller.ClusterIPs)
	}
	if err := c.compareServiceCIDR(ctx); err != nil || !records.HasObjects() {
		return err
	}
	of := c.repairers[repaircontroller.ClusterIPs.Name]
	return of.Look(ctx, func(ctx context.Context) (*repaircontroller.Objects, error) {
		state, err := clusterstate.ReadClusterIPObjects(ctx, c.config.Etcd, c.config.Bootstrap.EtcdPrefix)
		if err != nil {
			return nil, err
		}
		return &repaircontroller.Objects{
			Revision: state.Revision, ServiceCIDRs: state.ServiceCIDRs, IPAddresses: state.IPAddresses,
			UnreadableCIDRs: state.UnreadableNames("ServiceCIDR"), UnreadableAddresses: state.UnreadableNames("IPAddress"),
			Default: clusterstate.DefaultServiceCIDR, Kept: of.kept.get(),
		}, nil
	})
}

// freeServiceIP frees the address of the Service kubernetes, which is lost, where ClusterIPs are recorded.
func (c *Controller) freeServiceIP(ctx context.Context, address string) error {
	value, err := rangekeeper.ParseValue(address)
	if err != nil {
		return err
	}
	records, err := c.clusterIPRecords(ctx)
	if err != nil {
		return err
	}
	c.config.Log.InfoContext(ctx, "the Service kubernetes is lost, and its address counts as allocated: freeing it", "address", address)
	if records == rangekeeper.RecordsInObjects {
		err = repaircontroller.CheckUnused(ctx, c.services, 0, value)
	} else {
		err = repaircontroller.Free(ctx, c.primary, c.services, value)
	}
	if err == nil && records.HasObjects() {
		err = clusterstate.DeleteLostIPAddress(ctx, c.config.Etcd, c.config.Bootstrap.EtcdPrefix, address, "default/kubernetes")
	}
	return err
}

// compareServiceCIDR has Health report that the API servers have other ranges of ClusterIPs than this controller, and
// logs it when that begins or changes. Nobody reads the bitmap of its own range any more, which would say so.
func (c *Controller) compareServiceCIDR(ctx context.Context) error {
	stored, err := clusterstate.ReadDefaultServiceCIDR(ctx, c.config.Etcd, c.config.Bootstrap.EtcdPrefix)
	if err != nil {
		return err
	}
	var configured []string
	for _, values := range c.config.ClusterIPRanges {
		configured = append(configured, values.String())
	}
	var now error
	if len(stored) > 0 && !slices.Equal(stored, configured) {
		now = fmt.Errorf("the ServiceCIDR %s, which is the API servers' --service-cluster-ip-range, has %s, and the controller is configured with %s",
			clusterstate.DefaultServiceCIDR, strings.Join(stored, ","), strings.Join(configured, ","))
	}
	if c.repairers[repaircontroller.ClusterIPs.Name].keep(now) {
		c.config.Log.ErrorContext(ctx, "another range of ClusterIPs is configured", "reason", now)
	}
	return nil
}

// clusterIPRecords says where ClusterIPs are recorded. Objects that an API server does not serve do not count: a
// downgrade has left them. One that serves them creates a ServiceCIDR when it starts, unless MultiCIDRServiceAllocator
// is off, and then it has a bitmap.
func (c *Controller) clusterIPRecords(ctx context.Context) (rangekeeper.ClusterIPRecords, error) {
	isServed, err := c.servesIPAddresses(ctx)
	switch {
	case err != nil:
		return rangekeeper.RecordsUnknown, err
	case !isServed:
		return rangekeeper.ClusterIPRecordsOf(0, rangekeeper.Unseen), nil
	default:
		return clusterstate.ReadClusterIPRecords(ctx, c.config.Etcd, c.config.Bootstrap.EtcdPrefix)
	}
}

func (c *Controller) servesIPAddresses(ctx context.Context) (bool, error) {
	for _, version := range []string{"v1", "v1beta1"} {
		path := "/apis/networking.k8s.io/" + version
		list := new(metav1.APIResourceList)
		err := c.client.Get().AbsPath(path).Do(ctx).Into(list)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("discover %s: %w", path, err)
		}
		for _, resource := range list.APIResources {
			if resource.Name == "ipaddresses" {
				return true, nil
			}
		}
	}
	return false, nil
}

func (c *Controller) repair(ctx context.Context, of repaircontroller.Controller) error {
	repairer := c.repairers[of.Name]
	result, err := repairer.Pass(ctx)
	if err != nil {
		explained, isKine := etcdstore.ExplainKine(err)
		if !isKine {
			return err
		}
		if repairer.keep(explained) {
			c.config.Log.WarnContext(ctx, "no repair is possible over kine; a stock kube-apiserver makes its own", "controller", of.Name, "error", explained)
		}
		return nil // leases, endpoints and namespaces need no such transaction
	}
	c.reportMade(ctx, of, result)
	c.reportReplaced(ctx, of, &result)
	c.reportKept(ctx, of, result)
	made, set, cleared, changed, leaked := 0, 0, 0, 0, 0
	for _, r := range result.Ranges {
		if r.Made {
			made++
		}
		set, cleared, changed, leaked = set+r.Set, cleared+r.Cleared, changed+r.Changed, leaked+r.Leaked
	}
	level := slog.LevelDebug
	if made+set+cleared+changed+len(result.Findings) > 0 {
		level = slog.LevelInfo
	}
	message := "repair pass"
	if c.config.DryRun {
		message = "dry run of a repair pass"
	}
	c.config.Log.Log(ctx, level, message, "controller", of.Name, "services", result.Services,
		"findings", len(result.Findings), "made", made, "set", set, "cleared", cleared, "changed", changed, "leaked", leaked)
	return nil
}

// reportMade logs the ranges that were not stored before. A stored one that is another, and is replaced as nothing of
// it is in use, is one of them.
func (c *Controller) reportMade(ctx context.Context, of repaircontroller.Controller, result repaircontroller.Result) {
	message := "a range was stored, for the first time or in place of one without use"
	if c.config.DryRun {
		message = "dry run: a range would be stored, for the first time or in place of one without use"
	}
	for _, r := range result.Ranges {
		if r.Made && r.Replaced == nil {
			c.config.Log.InfoContext(ctx, message, "controller", of.Name, "range", r.Name, "values", r.Values)
		}
	}
}

// reportReplaced logs stored ranges that ReplaceRanges lets the configured ones replace. A dry run has them as kept.
func (c *Controller) reportReplaced(ctx context.Context, of repaircontroller.Controller, result *repaircontroller.Result) {
	message := "a stored range was replaced by the configured one"
	for i := range result.Ranges {
		r := &result.Ranges[i]
		if c.config.DryRun && slices.Contains(c.config.ReplaceRanges, r.Name) {
			message = "dry run: a stored range would be replaced by the configured one"
			r.Kept, r.Replaced = nil, r.Kept
		}
		if r.Replaced != nil {
			c.config.Log.WarnContext(ctx, message, "controller", of.Name, "reason", r.Replaced)
		}
	}
}

// reportKept has Health report ranges that are kept though others are configured, and logs it when that begins or
// changes.
func (c *Controller) reportKept(ctx context.Context, of repaircontroller.Controller, result repaircontroller.Result) {
	var errs []error
	for _, r := range result.Ranges {
		errs = append(errs, r.Kept)
	}
	now := errors.Join(errs...)
	if c.repairers[of.Name].keep(now) {
		message := "a range is kept"
		if c.config.DryRun {
			message = "dry run: a range would be kept"
		}
		message += " as it is stored; configure that one, or replace it with --replace-range"
		c.config.Log.ErrorContext(ctx, message, "controller", of.Name, "reason", now)
	}
}
