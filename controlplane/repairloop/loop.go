// Package repairloop runs the repair controllers of ClusterIPs and node ports inside an API server. A
// [repaircontroller.Repairer] makes a pass over ranges; this package makes one pass after another, over the ranges of
// an API server or over any [Registry].
package repairloop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Config configures a Loop: its ranges, and where it reports.
type Config struct {
	// Controller is the controller that the Loop replaces.
	Controller repaircontroller.Controller
	// Ranges are repaired together; the first one of addresses is the primary range.
	Ranges []Range
	// Services are listed in all namespaces if a range is not in their etcd. Otherwise they are listed in etcd: the
	// watch cache of an API server has missed what a restored etcd has.
	Services corev1client.ServicesGetter
	// Events record the findings.
	Events eventsv1client.EventsV1Interface
	// Interval is the time between passes and the time limit of a pass; 0 for repair.DefaultInterval.
	Interval time.Duration
	// Passes is the number of passes in a row that see a leak before it is cleaned.
	Passes uint8
	// Found counts n findings of a type, and released leaks; Failed counts a failed pass.
	Found  func(kind string, n int)
	Failed func()
}

// Loop makes repair passes.
type Loop struct {
	config      repaircontroller.Config
	found       func(kind string, n int)
	failed      func()
	broadcaster events.EventBroadcaster

	mu       sync.Mutex
	repairer *repaircontroller.Repairer // nil before the first pass, and after a fault of Rangekeeper
}

// New returns a Loop that has made no pass yet.
func New(config Config) *Loop {
	if config.Interval == 0 {
		config.Interval = repair.DefaultInterval
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: config.Events})
	l := &Loop{
		config: repaircontroller.Config{
			Controller: config.Controller,
			Recorder:   broadcaster.NewRecorder(scheme.Scheme, config.Controller.Name),
			Log:        slog.New(logr.ToSlogHandler(klog.Background())),
			Interval:   config.Interval,
			Passes:     config.Passes,
		},
		found: config.Found, failed: config.Failed, broadcaster: broadcaster,
	}
	var stored repaircontroller.ListStored
	for _, r := range config.Ranges {
		l.config.Ranges = append(l.config.Ranges, r.passes)
		stored = r.services // all ranges of a server are in one etcd
	}
	if l.config.Services = stored; stored == nil {
		l.config.Services = repaircontroller.APIServices(config.Services.Services(metav1.NamespaceAll))
	}
	return l
}

// retryInterval is the time between passes until one succeeds. A starting server is not ready before that, and exits
// after a minute.
const retryInterval = time.Second

// RunUntil makes a pass immediately and then one after each interval, until the channel is closed. It calls
// onFirstSuccess after the first pass that succeeds; before that, the time between passes is shorter.
func (l *Loop) RunUntil(onFirstSuccess func(), stop <-chan struct{}) {
	ctx := wait.ContextForChannel(stop)
	l.broadcaster.StartRecordingToSink(stop)
	defer l.broadcaster.Shutdown()
	pause := min(retryInterval, l.config.Interval)
	var first sync.Once
	for ctx.Err() == nil {
		if err := l.Once(ctx); err != nil {
			utilruntime.HandleError(err)
		} else {
			first.Do(onFirstSuccess)
			pause = l.config.Interval
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Once makes one pass. It retries a few times without waiting for the interval if the list of Services is older than a
// range, or if a registry was written during the pass.
func (l *Loop) Once(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.config.Interval)
	defer cancel()
	again := func(err error) bool { return errors.Is(err, rangekeeper.ErrStaleList) || apierrors.IsConflict(err) }
	return retry.OnError(retry.DefaultBackoff, again, func() error { return l.pass(ctx) })
}

func (l *Loop) pass(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			l.failed()
		}
	}()
	if l.repairer == nil {
		if l.repairer, err = repaircontroller.New(l.config); err != nil {
			return err
		}
	}
	result, err := l.repairer.Pass(ctx)
	for _, finding := range result.Findings {
		l.found(repaircontroller.FindingType(finding.Reason), 1)
	}
	for _, r := range result.Ranges {
		l.found("leak", r.Cleared)
	}
	if errors.Is(err, rangekeeper.ErrPoisoned) { // the leak counters are lost
		l.repairer.Close()
		l.repairer = nil
	}
	return err
}
