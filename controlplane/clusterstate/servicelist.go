package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
)

// ErrOtherList: an API server's list of Services is not what etcd has.
var ErrOtherList = errors.New("the API server's list of Services is not what etcd has")

// keyPageSize is the number of keys without values in an answer: some 200 bytes each.
const keyPageSize = 5000

// CheckServices compares an API server's list of Services, and its revision, with the keys of Services in etcd at that
// revision. It reads no values, so that Services may be encrypted at rest.
//
// An API server answers a list from its watch cache. After etcd was restored from a backup under the running server,
// the cache has Services that etcd does not have and misses others, until the server restarts: though the list has a
// current revision. Then the error is ErrOtherList, with the number of both.
func CheckServices(ctx context.Context, client *clientv3.Client, prefix string, services []*corev1.Service, revision int64) error {
	listed := make(map[string]string, len(services))
	for _, service := range services {
		listed[service.Namespace+"/"+service.Name] = service.ResourceVersion
	}
	missing, found := 0, 0
	keys := ServiceKeys(prefix)
	from, end := keys, clientv3.GetPrefixRangeEnd(keys)
	for more := true; more; {
		page, err := readPage(ctx, client, from, clientv3.WithRange(end), clientv3.WithKeysOnly(),
			clientv3.WithRev(revision), clientv3.WithLimit(keyPageSize))
		if errors.Is(err, rpctypes.ErrFutureRev) {
			return fmt.Errorf("%w: it has revision %d, which etcd has not reached; etcd may have been restored under the running API server, "+
				"which is right again after a restart", ErrOtherList, revision)
		}
		if err != nil {
			return fmt.Errorf("read the keys of %s: %w", keys, err)
		}
		for _, kv := range page.Kvs {
			if listed[strings.TrimPrefix(string(kv.Key), keys)] == strconv.FormatInt(kv.ModRevision, 10) {
				found++
			} else {
				missing++
			}
		}
		if more = page.More; more {
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
	if unknown := len(listed) - found; missing > 0 || unknown > 0 {
		return fmt.Errorf("%w: at revision %d it misses %d and has %d that etcd does not have in this version; "+
			"etcd may have been restored under the running API server, which is right again after a restart", ErrOtherList, revision, missing, unknown)
	}
	return nil
}
