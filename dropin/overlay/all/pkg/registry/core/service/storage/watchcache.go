package storage

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/stats"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
)

const (
	// checkTimeout limits a check of the watch cache.
	checkTimeout = time.Minute
	// checkAgain is the time until the next check after one without a result.
	checkAgain = 5 * time.Second
	// keysPageSize is the number of keys in an answer of etcd.
	keysPageSize = 5000
)

// reconnections reports that a client is connected again, or to one more member.
type reconnections struct {
	isConnected atomic.Bool
	reports     chan struct{}
}

func (r *reconnections) HandleConn(_ context.Context, event stats.ConnStats) {
	if _, ok := event.(*stats.ConnBegin); !ok || !r.isConnected.Swap(true) {
		return
	}
	r.report()
}

func (r *reconnections) report() {
	select {
	case r.reports <- struct{}{}:
	default: // one is waiting already
	}
}

func (r *reconnections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (r *reconnections) HandleRPC(context.Context, stats.RPCStats) {}

func (r *reconnections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// checkCaches compares the watch caches of Services and ServiceCIDRs with etcd at the start and after each reconnection, until stop is
// closed or one is wrong. A restore ends the connections, and a watch goes on at its cache's revision: from there on the cache is right
// if it was right at that revision, and else it is wrong until the server restarts. A cache of IPAddress objects alone can only be wrong
// about objects without a Service.
func (s *services) checkCaches(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	for {
		select {
		case <-s.reconnections.reports:
		case <-stop:
			return
		}
		wrong, err := s.wrongCache(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.V(2).ErrorS(err, "Comparing the watch caches with etcd; trying again")
			time.AfterFunc(checkAgain, s.reconnections.report)
		case wrong == "":
			allocatorstorage.CheckedCaches("")
		default:
			allocatorstorage.CheckedCaches(wrong)
			<-stop
			allocatorstorage.ClosedCaches()
			return
		}
	}
}

// wrongCache returns the resource whose watch cache is wrong; "" for none.
func (s *services) wrongCache(ctx context.Context) (resource string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var cached api.ServiceList
	if err := s.Interface.GetList(ctx, s.prefix, storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true}, &cached); err != nil {
		return "", err
	}
	revisions := make(map[string]string, len(cached.Items))
	for _, service := range cached.Items {
		revisions[service.Namespace+"/"+service.Name] = service.ResourceVersion
	}
	if isRight, err := s.had(ctx, s.keys, cached.ResourceVersion, revisions); err != nil || !isRight {
		return "services", err
	}
	if s.cachedCIDRs == nil {
		return "", nil
	}
	revision, revisions, err := s.cachedCIDRs(ctx)
	if err != nil {
		return "", err
	}
	if isRight, err := s.had(ctx, s.cidrKeys, revision, revisions); err != nil || !isRight {
		return "servicecidrs", err
	}
	return "", nil
}

// had returns whether etcd had exactly the objects with these mod revisions, by the rest of their keys, at a revision. It fails if
// etcd has compacted that. Cost: a list of the keys in etcd.
func (s *services) had(ctx context.Context, keys, revision string, objects map[string]string) (bool, error) {
	at, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return false, err
	}
	from, end, count := keys, clientv3.GetPrefixRangeEnd(keys), 0
	for {
		page, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(at), clientv3.WithKeysOnly(), clientv3.WithLimit(keysPageSize))
		if errors.Is(err, rpctypes.ErrFutureRev) {
			return false, nil // etcd has not got so far
		}
		if err != nil {
			return false, err
		}
		for _, one := range page.Kvs {
			if objects[strings.TrimPrefix(string(one.Key), keys)] != strconv.FormatInt(one.ModRevision, 10) {
				return false, nil
			}
		}
		if count += len(page.Kvs); !page.More {
			return count == len(objects), nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}
