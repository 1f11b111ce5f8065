package clusterstate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrOtherServices: an API server does not have the Services that etcd has, or etcd was restored while both were read.
var ErrOtherServices = errors.New("the API server has other Services than etcd")

// ServiceGetter gets Services of a namespace, as CoreV1().Services(namespace) of package kubernetes in client-go does.
type ServiceGetter interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Service, error)
}

const (
	// parallelGets is how many GETs are under way at once.
	parallelGets = 16
	// maxGets is how often a Service is got that is written meanwhile.
	maxGets = 5
)

// StoredServices returns a list of the Services of all namespaces in etcd, at a revision, or with 0 at one that is not
// older than the call; prefix as of [RangeKey].
//
// It reads the values in etcd, as no list over an API server proves anything: a kube-apiserver answers lists from its
// watch cache, since Kubernetes 1.34 those at an exact revision, too. The cache is wrong, at any revision, once etcd
// was restored under the running server. Nor do keys and mod revisions prove a list: the lost history can have another
// Service under the same key and revision.
//
// A value that cannot be decoded here, as it is encrypted at rest, is got over the API server: by a GET without a
// resource version, which the API server answers from etcd, and which has to have the mod revision of the key. The
// Service is remembered with a hash of the stored value, and not got again until that is another one. If the Service is
// written meanwhile, the list has it in a later version, or without it if it is deleted: the repair of a range clears
// nothing that was released and allocated again since it was read. The error is [ErrOtherServices] if the API server
// has another version than etcd all the time, or if etcd is restored meanwhile.
//
// Cost: all values, 1 to 2 KB each, in pages of 500. With encryption at rest also a GET for each Service that was
// written since the last list, for the first list one for each, and the memory of all Services.
func StoredServices[G ServiceGetter](client *clientv3.Client, prefix string, services func(namespace string) G) func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
	r := &serviceReader{
		client: client, keys: ServiceKeys(prefix), got: map[string]gotService{},
		get: func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
			return services(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
	return r.list
}

// serviceReader reads Services in etcd.
type serviceReader struct {
	client *clientv3.Client
	keys   string
	get    func(ctx context.Context, namespace, name string) (*corev1.Service, error)

	mu sync.Mutex
	// got has the Services whose values cannot be decoded here, by key.
	got map[string]gotService
}

// gotService is a Service that an API server got when etcd had a value with this hash.
type gotService struct {
	value   [sha256.Size]byte
	service *corev1.Service
}

func (r *serviceReader) list(ctx context.Context, at int64) (all []*corev1.Service, revision int64, err error) {
	revision = at
	undecoded := map[string]bool{}
	from, end := r.keys, clientv3.GetPrefixRangeEnd(r.keys)
	for more := true; more; {
		page, err := readPage(ctx, r.client, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(pageSize))
		if err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", r.keys, err)
		}
		revision = cmp.Or(revision, page.Header.Revision)
		services, err := r.decode(ctx, page.Kvs, revision, undecoded)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, services...)
		if more = page.More; more {
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.got, func(key string, _ gotService) bool { return !undecoded[key] })
	return all, revision, nil
}

// decode returns the Services of a page that was read at a revision, and adds the keys of values that it cannot decode
// itself.
func (r *serviceReader) decode(ctx context.Context, kvs []*mvccpb.KeyValue, revision int64, undecoded map[string]bool) ([]*corev1.Service, error) {
	services := make([]*corev1.Service, len(kvs))
	var unknown []int
	problems := map[int]error{}
	for i, kv := range kvs {
		service, problem := r.decodeOne(kv)
		if problem != nil {
			undecoded[string(kv.Key)] = true
			if service = r.known(kv); service == nil {
				unknown, problems[i] = append(unknown, i), problem
			}
		}
		services[i] = service
	}
	if len(unknown) > 0 {
		group, getting := errgroup.WithContext(ctx)
		group.SetLimit(parallelGets)
		for _, i := range unknown {
			group.Go(func() (err error) {
				if services[i], err = r.getOne(getting, kvs[i]); err != nil {
					err = fmt.Errorf("key %s: %w; so it is read over the API server: %w", kvs[i].Key, problems[i], err)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		if err := r.remember(ctx, kvs, unknown, services, revision); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(services, func(service *corev1.Service) bool { return service == nil }), nil
}

func (r *serviceReader) decodeOne(kv *mvccpb.KeyValue) (*corev1.Service, error) {
	service := new(corev1.Service)
	if err := decodeInto(service, kv.Value, serviceKind); err != nil {
		return nil, err
	}
	if err := checkKey(service, string(kv.Key[len(r.keys):])); err != nil {
		return nil, err
	}
	service.ResourceVersion = strconv.FormatInt(kv.ModRevision, 10)
	service.ManagedFields = nil // no repair needs them, and they are most of the memory
	return service, nil
}

// known returns the Service that was got of this value; nil if none was.
func (r *serviceReader) known(kv *mvccpb.KeyValue) *corev1.Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.got[string(kv.Key)]; one.service != nil && one.value == sha256.Sum256(kv.Value) {
		return one.service
	}
	return nil
}

// getOne gets the Service of a key over the API server, in the version that etcd has; nil if it was deleted since.
func (r *serviceReader) getOne(ctx context.Context, kv *mvccpb.KeyValue) (*corev1.Service, error) {
	key := string(kv.Key)
	namespace, name, _ := strings.Cut(key[len(r.keys):], "/")
	for range maxGets {
		service, err := r.get(ctx, namespace, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil && service.ResourceVersion == strconv.FormatInt(kv.ModRevision, 10) {
			service.ManagedFields = nil
			return service, checkKey(service, key[len(r.keys):])
		}
		now, err := readPage(ctx, r.client, key, clientv3.WithKeysOnly())
		if err != nil {
			return nil, err
		}
		if len(now.Kvs) == 0 {
			return nil, nil
		}
		kv = now.Kvs[0]
	}
	return nil, fmt.Errorf("%w: it has none of revision %d", ErrOtherServices, kv.ModRevision)
}

// remember remembers the Services of a page that were got in the version of the page. The error is ErrOtherServices if
// etcd was restored since the page was read, so that a Service may be one of another history: then the value that was
// written last is not there any more, as each encrypted value has a random part.
func (r *serviceReader) remember(ctx context.Context, kvs []*mvccpb.KeyValue, unknown []int, services []*corev1.Service, revision int64) error {
	newest := kvs[slices.MaxFunc(unknown, func(a, b int) int { return cmp.Compare(kvs[a].ModRevision, kvs[b].ModRevision) })]
	now, err := readPage(ctx, r.client, string(newest.Key), clientv3.WithRev(revision))
	if err != nil {
		return fmt.Errorf("read %s again: %w", newest.Key, err)
	}
	if len(now.Kvs) == 0 || !bytes.Equal(now.Kvs[0].Value, newest.Value) {
		return fmt.Errorf("%w: etcd was restored meanwhile, as %s at revision %d shows", ErrOtherServices, newest.Key, revision)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range unknown {
		if services[i] != nil && services[i].ResourceVersion == strconv.FormatInt(kvs[i].ModRevision, 10) {
			r.got[string(kvs[i].Key)] = gotService{sha256.Sum256(kvs[i].Value), services[i]}
		}
	}
	return nil
}
