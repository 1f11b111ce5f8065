package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/klog/v2"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
)

const (
	// checkTimeout limits a check of the watch caches.
	checkTimeout = time.Minute
	// retryCheck is the time until the next check after one without a result.
	retryCheck = 5 * time.Second
	// keysPageSize is the number of keys in an answer of etcd.
	keysPageSize = 5000
	// comparedObjects is the number of the newest objects whose content is compared. etcd reads up to 128 in a
	// transaction.
	comparedObjects = 100
)

// checkAgain has the watch caches compared with etcd.
func (s *services) checkAgain() {
	select {
	case s.unchecked <- struct{}{}:
	default: // they will be
	}
}

// checkCaches compares the watch caches with etcd after each checkAgain, until ctx ends or one is wrong. A restore ends
// the connections, and a watch goes on at its cache's revision: from there on the cache is right if it was right at
// that revision, and else it is wrong until the server restarts.
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

// watchCache is the watch cache of a resource.
type watchCache struct {
	resource string
	// keys is the prefix of the keys of its objects in etcd, and ends with a slash.
	keys string
	// transformer and decoder make an object in the form of the list of a value in etcd.
	transformer value.Transformer
	decoder     runtime.Decoder
	// list returns the objects in the cache.
	list func(context.Context) (runtime.Object, error)
}

// wrongCache returns the resource whose watch cache is wrong; "" for none.
func (s *services) wrongCache(ctx context.Context) (resource string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, cache := range s.caches {
		if isRight, err := cache.isRight(ctx, s.etcd); err != nil || !isRight {
			return cache.resource, err
		}
	}
	return "", nil
}

// isRight returns whether etcd had exactly the objects of the cache at its revision: the same keys with the same mod
// revisions, and the newest of them with the same content. Two histories of etcd can have objects with the same keys
// and mod revisions, but those that were written last have other UIDs there, or other times in their managedFields. It
// fails if etcd has compacted the revision. Cost: a list of the keys in etcd.
func (w *watchCache) isRight(ctx context.Context, etcd *clientv3.Client) (bool, error) {
	list, err := w.list(ctx)
	if err != nil {
		return false, err
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		return false, err
	}
	at, err := strconv.ParseInt(of.GetResourceVersion(), 10, 64)
	if err != nil {
		return false, err
	}
	cached := map[string]cachedObject{}
	err = meta.EachListItem(list, func(object runtime.Object) error {
		of, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		revision, err := strconv.ParseInt(of.GetResourceVersion(), 10, 64)
		cached[w.keys+path.Join(of.GetNamespace(), of.GetName())] = cachedObject{object, revision}
		return err
	})
	if err != nil {
		return false, err
	}
	from, end, count := w.keys, clientv3.GetPrefixRangeEnd(w.keys), 0
	for more := true; more; {
		page, err := etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(at), clientv3.WithKeysOnly(), clientv3.WithLimit(keysPageSize))
		if errors.Is(err, rpctypes.ErrFutureRev) {
			return false, nil // etcd has not got so far
		}
		if err != nil {
			return false, err
		}
		for _, one := range page.Kvs {
			if cached[string(one.Key)].revision != one.ModRevision {
				return false, nil
			}
			from = string(one.Key) + "\x00"
		}
		count += len(page.Kvs)
		more = page.More
	}
	if count != len(cached) {
		return false, nil
	}
	newest := slices.SortedFunc(maps.Keys(cached), func(a, b string) int { return cmp.Compare(cached[b].revision, cached[a].revision) })
	var reads []clientv3.Op
	for _, key := range newest[:min(comparedObjects, len(newest))] {
		reads = append(reads, clientv3.OpGet(key, clientv3.WithRev(at)))
	}
	read, err := etcd.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return false, err
	}
	for _, one := range read.Responses {
		for _, stored := range one.GetResponseRange().Kvs {
			object, err := w.decode(ctx, stored)
			if err != nil {
				return false, fmt.Errorf("key %s: %w", stored.Key, err)
			}
			if !equality.Semantic.DeepEqual(cached[string(stored.Key)].object, object) {
				return false, nil
			}
		}
	}
	return true, nil
}

// cachedObject is an object with its mod revision.
type cachedObject struct {
	object   runtime.Object
	revision int64
}

// decode decodes an object in etcd.
func (w *watchCache) decode(ctx context.Context, stored *mvccpb.KeyValue) (runtime.Object, error) {
	plain, _, err := w.transformer.TransformFromStorage(ctx, stored.Value, value.DefaultContext(stored.Key))
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(w.decoder, plain)
	if err != nil {
		return nil, err
	}
	of, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	of.SetResourceVersion(strconv.FormatInt(stored.ModRevision, 10))
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in a list
	return object, nil
}
