// Package repaircontroller does the work of kube-apiserver's two repair controllers: it lists Services, makes repair
// passes over the ranges, and reports their findings in Events and metrics.
package repaircontroller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Config says what a Repairer repairs.
type Config struct {
	// Controller is who reports metrics: [ClusterIPs] or [NodePorts].
	Controller Controller
	// Ranges are repaired together; the first one of addresses is the primary range.
	Ranges []repair.Range
	// Services lists those of all namespaces: a [ListStored], or a [ListElsewhere].
	Services Services
	// Recorder records findings as Events; nil for nobody.
	Recorder Recorder
	// Log names each finding with its Service, and each value that is freed; nil for nobody.
	Log *slog.Logger
	// Names are those of Ranges, for metrics about each; without them there are none.
	Names []RangeName
	// Metrics count what is found and done; nil for nobody.
	Metrics *Metrics
	// DryRun finds out what would be repaired, and repairs and reports nothing.
	DryRun bool
	// Interval is the time between passes; 0 for repair.DefaultInterval. A leak is cleaned in the pass that sees it for
	// the Passes-th time in a row; 0 for repair.DefaultPasses.
	Interval time.Duration
	Passes   uint8
}

// RangeName names a range in metrics.
type RangeName struct {
	// Name is that of its object, Values are the configured range.
	Name, Values string
}

// Recorder records Events: an EventRecorder of package events in client-go is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Services is where Services are listed, a [ListStored] or a [ListElsewhere]. Only the former proves that no Service
// uses a value.
type Services interface {
	list(ctx context.Context, at int64) ([]*corev1.Service, rangekeeper.ServiceList, error)
}

// ListStored reads all Services in the etcd of the ranges, and returns the revision: at the revision at if that is not
// 0, else at one that is not older than the call. clusterstate.StoredServices returns one. What an API server lists is
// none: it comes from a watch cache, which is wrong once etcd was restored under the running server, also if the list
// has the revision that it was asked for.
//
// A list that is older than a range that was read before ends a pass with rangekeeper.ErrStaleList.
type ListStored func(ctx context.Context, at int64) (services []*corev1.Service, revision int64, err error)

func (l ListStored) list(ctx context.Context, at int64) ([]*corev1.Service, rangekeeper.ServiceList, error) {
	services, revision, err := l(ctx, at)
	if err == nil && revision <= 0 {
		err = errors.New("the list has no revision of etcd")
	}
	// Clears do not depend on later changes of Services: in a busy cluster leaks would stay.
	return services, rangekeeper.ServiceList{Revision: revision}, err
}

// ListElsewhere lists all Services that are in another store than the ranges, or whose store nobody can read but an API
// server: [APIServices]. Such a list can be wrong once etcd was restored under a running API server, and nothing proves
// that it is not: no request of the API goes around the watch cache but the GET of a Service whose name is known. So
// nothing is repaired by it once a range has noticed that its store was restored, until the program restarts; nobody
// notices that only the store of the Services was. So it is for what has no other list, and where API servers are
// restarted after a restore, as Kubernetes demands.
type ListElsewhere func(ctx context.Context) ([]*corev1.Service, error)

func (l ListElsewhere) list(ctx context.Context, _ int64) ([]*corev1.Service, rangekeeper.ServiceList, error) {
	services, err := l(ctx)
	return services, rangekeeper.ServiceList{}, err
}

// Repairer makes repair passes.
type Repairer struct {
	config Config
	mu     sync.Mutex // for a pass
	passes *rangekeeper.LeakTracker
}

// New makes a Repairer, which has seen nothing yet.
func New(config Config) (*Repairer, error) {
	if config.Interval == 0 {
		config.Interval = repair.DefaultInterval
	}
	if config.Passes == 0 {
		config.Passes = repair.DefaultPasses
	}
	passes, err := rangekeeper.NewLeakTracker(config.Passes, config.Interval)
	if err != nil {
		return nil, err
	}
	return &Repairer{config: config, passes: passes}, nil
}

// Close frees what the Repairer remembers.
func (r *Repairer) Close() error { return r.passes.Close() }

// Result says what a pass has found and done.
type Result struct {
	// Services is how many were listed.
	Services int
	// Findings are what is wrong with Services, without what resolved itself before the repair.
	Findings []rangekeeper.Finding
	// Full are those about ranges without a free value, or with few.
	Full []rangekeeper.Finding
	// Ranges are in the order of the Config.
	Ranges []RangeResult
}

// RangeResult says what became of one range in a pass.
type RangeResult struct {
	// Made says that nothing was stored before, or a range that was replaced.
	Made bool
	// Kept is why the stored range was not replaced by the configured one: a rangekeeper.ErrRangeInUse, which is no
	// failure. Nothing is found then: Services are not wrong by a range that is not in force.
	Kept error
	// Replaced is what a rangekeeper.ReplaceOnce has overridden, a rangekeeper.ErrRangeInUse; a dry run has it as Kept.
	Replaced error
	// Leaked is how many values no Service uses, those included that were cleaned.
	Leaked int
	// Set and Cleared are how many values were recorded and freed, Changed how many were left alone as they, or
	// Services, had changed since they were read.
	Set, Cleared, Changed int
	// Size is how many values the range has, Used how many are recorded after the pass, and InUse how many Services
	// use.
	Size, Used, InUse uint64
	// RangeName is that of the Config; empty if it has none.
	RangeName
	// IsObject says that the values are IPAddress objects of a CIDR of the ServiceCIDR with this name; NotReady that no
	// server allocates from that.
	IsObject, NotReady bool
}

// Pass makes one pass: it reads the ranges, lists Services after that, and repairs what is wrong. After an error
// nothing was repaired, or not in all ranges, and the Result has what was; the next pass tries again. Passes go one
// after another: one that was given up may still be under way when the next is called for.
func (r *Repairer) Pass(ctx context.Context) (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	started := time.Now()
	result, err := r.pass(ctx)
	if !r.config.DryRun && r.config.Metrics != nil {
		r.config.Metrics.passed(r.config.Controller, time.Since(started), result, err)
	}
	return result, err
}

// nameOf returns the name of a range; an empty one if the Config has none.
func (r *Repairer) nameOf(i int) RangeName {
	if i < len(r.config.Names) {
		return r.config.Names[i]
	}
	return RangeName{}
}

func (r *Repairer) pass(ctx context.Context) (Result, error) {
	var services []*corev1.Service
	var report *rangekeeper.Report
	var result Result
	outcomes, failure := repair.Drive(ctx, r.passes, r.config.Ranges, r.config.DryRun, func(pass *rangekeeper.RepairPass, at int64) (*rangekeeper.Report, rangekeeper.ServiceList, error) {
		var listed rangekeeper.ServiceList
		var err error
		if services, listed, err = r.config.Services.list(ctx, at); err != nil {
			return nil, listed, fmt.Errorf("list Services: %w", err)
		}
		report, err = r.audit(pass, services)
		return report, listed, err
	})
	if report == nil {
		return Result{}, failure
	}
	defer report.Close()
	result.Services = len(services)
	for i, done := range outcomes {
		counts := report.Range(i)
		result.Ranges = append(result.Ranges, RangeResult{
			Made: done.Missing && done.Kept == nil, Kept: done.Kept, Replaced: done.Replaced,
			Leaked: int(counts.Leaked), Set: int(counts.Set), Cleared: int(counts.Clear), Changed: done.Changed,
			Size: counts.Size, Used: counts.Next, InUse: counts.InUse, RangeName: r.nameOf(i),
		})
	}
	findings, err := report.Findings()
	if err != nil {
		return Result{}, errors.Join(failure, err)
	}
	isKept := func(finding rangekeeper.Finding) bool {
		return finding.Range >= 0 && finding.Range < len(outcomes) && outcomes[finding.Range].Kept != nil
	}
	result.Findings = slices.DeleteFunc(findings, isKept)
	if result.Full, err = fullRanges(report); err != nil {
		return Result{}, errors.Join(failure, err)
	}
	result.Full = slices.DeleteFunc(result.Full, isKept)
	for _, finding := range result.Findings {
		r.report(ctx, services[finding.Subject.Ordinal], finding, report.RangeAt(finding.Range))
	}
	for i := range outcomes {
		r.reportFreed(ctx, report, i)
	}
	return result, failure
}

// fullRanges returns the findings about ranges without a free value, or with few.
func fullRanges(report *rangekeeper.Report) ([]rangekeeper.Finding, error) {
	if err := report.FindFullRanges(repair.WarnFree); err != nil {
		return nil, err
	}
	findings, err := report.Findings()
	return slices.DeleteFunc(findings, func(finding rangekeeper.Finding) bool { return finding.Subject.Kind != rangekeeper.SubjectRange }), err
}

// audit compares what the pass has read with Services that were listed after that.
func (r *Repairer) audit(pass *rangekeeper.RepairPass, services []*corev1.Service) (*rangekeeper.Report, error) {
	audit, err := pass.Audit()
	if err != nil {
		return nil, err
	}
	defer audit.Close()
	err = audit.ObserveAll(len(services), func(batch *rangekeeper.Services, from, to int) {
		for _, service := range services[from:to] {
			servicebatch.Add(batch, service)
		}
	})
	if err != nil {
		return nil, err
	}
	return pass.Finish(audit)
}

// APIServices lists the Services of an API server: a list without a resource version is linearizable as long as its
// etcd is not restored, and its further pages are of the first one's revision.
//
// A client of package kubernetes in client-go is one, CoreV1().Services("").
func APIServices(client interface {
	List(ctx context.Context, options metav1.ListOptions) (*corev1.ServiceList, error)
}) ListElsewhere {
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	}
	return func(ctx context.Context) (services []*corev1.Service, err error) {
		list, _, err := pager.New(page).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(list, func(object runtime.Object) error {
			service, ok := object.(*corev1.Service)
			if !ok {
				return fmt.Errorf("got a %T", object)
			}
			services = append(services, service)
			return nil
		})
		return services, err
	}
}
