package storage

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
)

const (
	// checkTimeout limits a check of the watch caches.
	checkTimeout = time.Minute
	// retryCheck is the time until the next check after one without a result.
	retryCheck = 5 * time.Second
	// keysPageSize is the number of keys in an answer of etcd.
	keysPageSize = 5000
)

// checkAgain has the watch caches compared with etcd.
func (s *services) checkAgain() {
	select {
	case s.unchecked <- struct{}{}:
	default: // they will be
	}
}

// checkCaches compares the watch caches of Services and ServiceCIDRs with etcd after each checkAgain, until ctx ends or
// one is wrong. A restore ends the connections, and a watch goes on at its cache's revision: from there on the cache is
// right if it was right at that revision, and else it is wrong until the server restarts. The cache of IPAddress
// objects is not compared, and can be wrong alone. Nothing is written by it: etcd refuses the creation of an object
// that the cache lacks, and the repair reads the object from etcd before it writes it.
func (s *services) checkCaches(ctx context.Context) {
	for {
		select {
		case <-s.unchecked:
		case <-ctx.Done():
			return
		}
		wrong, err := s.wrongCache(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.V(2).ErrorS(err, "Comparing the watch caches with etcd; trying again")
			time.AfterFunc(retryCheck, s.checkAgain)
			continue
		}
		allocatorstorage.CheckedCaches(wrong)
		if wrong != "" {
			<-ctx.Done()
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
	for i := range cached.Items {
		service := &cached.Items[i]
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

// had returns whether etcd had exactly the objects with these mod revisions, by the rest of their keys, at a revision.
// It fails if etcd has compacted that. Cost: a list of the keys in etcd.
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
