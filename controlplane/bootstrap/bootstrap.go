// Package bootstrap carries out what kube-apiserver's bootstrap controller does: it keeps the system namespaces, the
// Service "kubernetes" and its endpoints, and starts the repairs of ranges, from start to stop.
//
// All decisions are made by a [rangekeeper.Bootstrap]; this package carries out its orders, through the API server and
// etcd.
package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/servermetrics"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Server configures a Controller.
type Server struct {
	// API is how the API server is reached.
	API *rest.Config
	// Etcd is where the leases of Mode Lease are; else it may be nil.
	Etcd *clientv3.Client
	// RepairClusterIPs and RepairNodePorts make one repair pass.
	RepairClusterIPs, RepairNodePorts func(context.Context) error
	// FreeServiceIP frees the address of the Service "kubernetes", which is lost, from what is recorded of it, if no
	// Service has it.
	FreeServiceIP func(ctx context.Context, address string) error
	// CheckEtcd, if not nil, is asked before the endpoints are written, which follow from the leases in Etcd: after an
	// error they are not.
	CheckEtcd func(ctx context.Context) error
	// Restored, if not nil, is called when Etcd has gone back to an older revision, as after a restore from a backup.
	Restored func()
	// Started, if not nil, is called once, when the first repairs have succeeded.
	Started func()
	// Metrics, if not nil, are set after each turn.
	Metrics *servermetrics.Metrics
	// Log records how the endpoints are kept, each failure once and when it is over, and each write but the refreshes
	// of the lease.
	Log *slog.Logger
	// DryRun logs the writes and makes none of them.
	DryRun bool
}

// Controller is the bootstrap controller of one server.
type Controller struct {
	core    *rangekeeper.Bootstrap
	server  Server
	cluster *cluster
	leases  *leaseStore
	config  Config
	started atomic.Bool
	// stopping: Run has been told to stop.
	stopping atomic.Bool
	began    time.Time
	// ended are the orders that are done.
	ended chan result
	// events are what watches have seen. Some are dropped if there are many: each makes the controller look at
	// everything.
	events chan event
	// watchesLeases: a watch of the leases runs.
	watchesLeases sync.Once
	// logged are the writes that a dry run has logged.
	logged sync.Map
	// failing has the error, as it was logged last, of each work that fails.
	failing sync.Map
	// cancel ends orders under way.
	cancel map[uint64]context.CancelFunc
}

type result struct {
	id     uint64
	answer answer
}

// New makes a controller. The error of a bad Config is a *rangekeeper.ConfigError.
func New(config Config, server Server) (*Controller, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	core, err := rangekeeper.NewBootstrap(text)
	if err != nil {
		return nil, err
	}
	cluster, err := newCluster(server.API)
	if err != nil {
		return nil, err
	}
	return &Controller{
		core: core, server: server, cluster: cluster, leases: &leaseStore{client: server.Etcd}, config: config,
		ended: make(chan result), events: make(chan event, 8), cancel: map[uint64]context.CancelFunc{},
	}, nil
}

// Started reports whether the first repairs have succeeded: the server may serve.
func (c *Controller) Started() bool { return c.started.Load() }

// Stopping reports whether the controller is told to stop.
func (c *Controller) Stopping() bool { return c.stopping.Load() }

// Health returns an error if some work fails and is tried again, with the reason that was logged last.
func (c *Controller) Health() error {
	var errs []error
	c.failing.Range(func(work, err any) bool {
		errs = append(errs, fmt.Errorf("%s fails: %w", work, err.(error)))
		return true
	})
	return errors.Join(errs...)
}

// ErrFatal: the server cannot run. The wrapping error has the reason.
var ErrFatal = errors.New("the bootstrap controller cannot continue")

// Run works until the context is done, and then stops in order: own lease and endpoint are removed, within two
// intervals of the endpoints. The error is ErrFatal if the first repairs fail, nil after a stop.
func (c *Controller) Run(ctx context.Context) error {
	c.began = time.Now()
	if c.config.Mode != None {
		c.server.Log.Info("keeping the endpoints of the Service kubernetes, which needs API servers with --endpoint-reconciler-type=none",
			"mode", c.config.Mode.String(), "address", c.config.AdvertiseAddress, "dry run", c.server.DryRun)
	}
	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking() // all orders are done by then, but for those that no longer matter
	defer c.core.Close()
	c.cluster.start(working, func(key objectKey) { c.watched(event{Object: &key}) })
	stop, timer := ctx.Done(), time.NewTimer(0)
	defer timer.Stop()
	var why error
	var text []byte
	for {
		var err error
		if text, err = c.core.Poll(c.now(), text); err != nil {
			return err
		}
		var step step
		if err := json.Unmarshal(text, &step); err != nil {
			return fmt.Errorf("read a step of the core: %w", err)
		}
		for _, report := range step.Reports {
			if err := c.report(report); err != nil {
				why = err
			}
		}
		c.started.Store(step.Phase.name == "running")
		for _, id := range step.Cancel {
			if cancel := c.cancel[id]; cancel != nil {
				cancel()
			}
		}
		if step.Phase.Stopped != nil {
			return why
		}
		for _, order := range step.Send {
			c.perform(working, order)
		}
		var due <-chan time.Time
		if step.WaitMs != nil {
			timer.Reset(time.Duration(*step.WaitMs) * time.Millisecond)
			due = timer.C
		}
		select {
		case <-stop:
			stop = nil
			c.stopping.Store(true)
			if err := c.core.Stop(c.now()); err != nil {
				return err
			}
		case <-due:
		case result := <-c.ended:
			if err := c.answered(result); err != nil {
				return err
			}
		case event := <-c.events:
			text, err := json.Marshal(event)
			if err != nil {
				return err
			}
			if err := c.core.Watched(c.now(), text); err != nil {
				return err
			}
		}
	}
}

func (c *Controller) watched(e event) {
	select {
	case c.events <- e:
	default:
	}
}

func (c *Controller) now() time.Duration { return time.Since(c.began) }

// perform starts an order.
func (c *Controller) perform(ctx context.Context, order order) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(order.TimeoutMs)*time.Millisecond)
	c.cancel[order.ID] = cancel
	if list := order.Request.ListLeases; list != nil && c.server.Etcd != nil {
		c.watchesLeases.Do(func() {
			go c.leases.watchDeletions(ctx, list.Prefix, func(key string) { c.watched(event{LeaseDeleted: &leaseDeleted{key}}) })
		})
	}
	go func() {
		answer := c.do(limited, order.Request)
		select {
		case c.ended <- result{order.ID, answer}:
		case <-ctx.Done():
		}
	}()
}

func (c *Controller) answered(r result) error {
	c.cancel[r.id]()
	delete(c.cancel, r.id)
	text, err := json.Marshal(r.answer)
	if err != nil {
		return err
	}
	err = c.core.Answered(c.now(), r.id, text)
	var bad *rangekeeper.JSONError
	if errors.As(err, &bad) { // an object of the API server that the core cannot read
		text, _ = json.Marshal(fails(badAnswer, bad))
		err = c.core.Answered(c.now(), r.id, text)
	}
	return err
}

// do carries out one request, and logs what it has written, but for the refreshes of a lease.
func (c *Controller) do(ctx context.Context, r request) answer {
	write := r.write()
	if c.server.DryRun && write != "" {
		if _, again := c.logged.LoadOrStore(write, true); !again {
			c.server.Log.Info("dry run", "would", write)
		}
		return skipped
	}
	answer := c.send(ctx, r)
	if _, isWritten := answer.(written); write != "" && (isWritten && r.PutLease.ModRevision == 0 || answer == done) {
		c.server.Log.Info("done", "write", write)
	}
	return answer
}

// send carries out one request.
func (c *Controller) send(ctx context.Context, r request) answer {
	if r.writesEndpoints() && c.server.CheckEtcd != nil {
		if err := c.server.CheckEtcd(ctx); err != nil {
			return fails(unavailable, err)
		}
	}
	switch {
	case r.Ready != nil:
		return c.cluster.ready(ctx, r.Ready.Path)
	case r.Repair == "clusterIPs":
		return ended(c.server.RepairClusterIPs(ctx), repairFails)
	case r.Repair == "nodePorts":
		return ended(c.server.RepairNodePorts(ctx), repairFails)
	case r.FreeServiceIP != nil:
		return ended(c.server.FreeServiceIP(ctx, r.FreeServiceIP.Address), unavailable)
	case r.Get != nil:
		return c.cluster.get(ctx, r.Get.Object)
	case r.Create != nil:
		return c.cluster.create(ctx, r.Create)
	case r.Update != nil:
		return c.cluster.update(ctx, r.Update)
	case r.Delete != nil:
		return c.cluster.delete(ctx, r.Delete.Object, r.Delete.UID, r.Delete.ResourceVersion)
	case r.GetLease != nil:
		return c.leases.list(ctx, r.GetLease.Key)
	case r.ListLeases != nil:
		return c.leases.list(ctx, r.ListLeases.Prefix, clientv3.WithPrefix())
	case r.PutLease != nil:
		return c.leases.put(ctx, r.PutLease)
	case r.DeleteLease != nil:
		return c.leases.delete(ctx, r.DeleteLease)
	default:
		return fails(badAnswer, errors.New("unknown request"))
	}
}

// ended is the answer to a request that ended with an error, for this reason, or with none.
func ended(err error, why reason) answer {
	if err != nil {
		return fails(why, err)
	}
	return done
}
