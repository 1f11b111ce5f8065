package reconcilers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"
)

// Leases are keys in etcd with a time to live, one for each running server.
type Leases interface {
	// ListLeases returns the addresses of the running servers.
	ListLeases() ([]string, error)
	// UpdateLease creates or refreshes the lease of the server with this address.
	UpdateLease(ip string) error
	// RemoveLease removes the lease, even if another server has written it. storage.IsNotFound(err) if there was none.
	RemoveLease(ip string) error
	// Destroy frees the storage. It may be called again.
	Destroy()

	// list returns all leases as they are stored.
	list() ([]bootstrapplan.StoredLease, error)
	// remove removes the lease of a server that starts or stops, and reports whether the caller has to remove its
	// address from the endpoints. Both are possible at once: true, and storage.IsNotFound(err) as there was no lease.
	remove(ip string, stage bootstrapplan.Stage) (bool, error)
	// watch calls gone when a lease is deleted or runs out, until ctx is done. It may miss some.
	watch(ctx context.Context, gone func())
}

type storageLeases struct {
	storage   storage.Interface
	destroyFn func()
	// baseKey is the prefix of the leases' keys.
	baseKey string
	// leaseTime is the time to live of a lease, in whole seconds.
	leaseTime time.Duration

	lock sync.Mutex
	// generations has, by address, the generation of the last put that took effect or has an unknown outcome.
	generations map[string]int64
}

var _ Leases = &storageLeases{}

// errLeftToOther means that another server has written the lease since this one put it.
var errLeftToOther = errors.New("the lease belongs to another server")

// NewLeases returns the leases under baseKey in the storage of config.
func NewLeases(config *storagebackend.ConfigForResource, baseKey string, leaseTime time.Duration) (Leases, error) {
	tolerant := withKeys(*config)
	store, destroy, err := factory.Create(tolerant, nil, nil, baseKey)
	if err != nil {
		return nil, fmt.Errorf("create the storage of leases: %w", err)
	}
	return &storageLeases{storage: store, destroyFn: sync.OnceFunc(destroy), baseKey: baseKey, leaseTime: leaseTime}, nil
}

// Destroy implements Leases.
func (s *storageLeases) Destroy() { s.destroyFn() }

// ListLeases implements Leases.
func (s *storageLeases) ListLeases() ([]string, error) {
	leases, err := s.read()
	if err != nil {
		return nil, err
	}
	addresses := make([]string, 0, len(leases))
	for _, lease := range leases {
		if address := addressOf(&lease); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

func (s *storageLeases) list() ([]bootstrapplan.StoredLease, error) {
	leases, err := s.read()
	if err != nil {
		return nil, err
	}
	all := make([]bootstrapplan.StoredLease, 0, len(leases))
	for _, lease := range leases {
		revision, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parse the revision of a lease: %w", err)
		}
		// Only the storage of NewLeases reports keys. Without one, the lease's address stands for its key.
		key := lease.Name
		if key == "" {
			key = addressOf(&lease)
		}
		read, err := stored(key, &lease, revision)
		if err != nil {
			return nil, err
		}
		all = append(all, *read)
	}
	return all, nil
}

func (s *storageLeases) read() ([]corev1.Endpoints, error) {
	var leases corev1.EndpointsList
	options := storage.ListOptions{Predicate: storage.Everything, Recursive: true}
	err := s.storage.GetList(context.Background(), s.baseKey, options, &leases)
	return leases.Items, err
}

// UpdateLease implements Leases.
func (s *storageLeases) UpdateLease(ip string) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	question := s.question(ip, bootstrapplan.StageRun)
	// After an error the put may have taken effect.
	generation := question.Generation
	defer func() { s.remember(ip, generation) }()
	put := func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		var err error
		question.Read = nil
		if meta.ResourceVersion != 0 {
			if question.Read, err = stored(ip, input, meta.ResourceVersion); err != nil {
				return nil, nil, err
			}
		}
		answer, err := bootstrapplan.Lease(question)
		if err != nil {
			return nil, nil, err
		}
		generation = answer.Generation
		order := answer.Request.PutLease
		value := &corev1.Endpoints{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(order.Value, nil, value); err != nil {
			return nil, nil, err
		}
		return value, &order.TTLSeconds, nil
	}
	return s.storage.GuaranteedUpdate(context.Background(), s.key(ip), &corev1.Endpoints{}, true, nil, put, nil)
}

// RemoveLease implements Leases.
func (s *storageLeases) RemoveLease(ip string) error {
	_, err := s.remove(ip, bootstrapplan.StageStart)
	return err
}

func (s *storageLeases) remove(ip string, stage bootstrapplan.Stage) (bool, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	question := s.question(ip, stage)
	var answer bootstrapplan.LeaseAnswer
	// The storage calls check with the lease that it deletes.
	check := func(_ context.Context, input runtime.Object) error {
		revision, err := strconv.ParseUint(input.(*corev1.Endpoints).ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		if question.Read, err = stored(ip, input, revision); err != nil {
			return err
		}
		if answer, err = bootstrapplan.Lease(question); err != nil {
			return err
		}
		if answer.Request.DeleteLease == nil {
			return errLeftToOther
		}
		return nil
	}
	err := s.storage.Delete(context.Background(), s.key(ip), &corev1.Endpoints{}, nil, check, nil, storage.DeleteOptions{})
	switch {
	case err == nil:
		delete(s.generations, ip)
		return answer.Endpoints, nil
	case errors.Is(err, errLeftToOther):
		klog.Warningf("Another API server has written the lease of %s; leaving the lease and the endpoint to it", ip)
		return answer.Endpoints, nil
	case storage.IsNotFound(err):
		question.Read = nil
		answer, planErr := bootstrapplan.Lease(question)
		if planErr != nil {
			return false, planErr
		}
		return answer.Endpoints, err
	default:
		return false, err
	}
}

// watchAgain is the time after which a watch that has ended begins again.
const watchAgain = time.Second

func (s *storageLeases) watch(ctx context.Context, gone func()) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		changes, err := s.storage.Watch(ctx, s.baseKey, storage.ListOptions{Predicate: storage.Everything, Recursive: true})
		if err != nil {
			return
		}
		defer changes.Stop()
		for change := range changes.ResultChan() {
			if change.Type == watch.Deleted {
				gone()
			}
		}
	}, watchAgain)
}

func (s *storageLeases) key(ip string) string { return path.Join(s.baseKey, ip) }

func (s *storageLeases) question(ip string, stage bootstrapplan.Stage) bootstrapplan.LeaseQuestion {
	ttl := s.leaseTime.Truncate(time.Second).Milliseconds()
	return bootstrapplan.LeaseQuestion{AdvertiseAddress: ip, Stage: stage, LeaseTTLMillis: ttl, Generation: s.generations[ip]}
}

func (s *storageLeases) remember(ip string, generation int64) {
	if s.generations == nil {
		s.generations = map[string]int64{}
	}
	s.generations[ip] = generation
}

// stored returns a lease as questions have it: with the key of this address, and the value in JSON.
func stored(address string, lease runtime.Object, revision uint64) (*bootstrapplan.StoredLease, error) {
	value, err := json.Marshal(lease)
	// The storage does not report the ID of the etcd lease. Every key that UpdateLease has put has one.
	return &bootstrapplan.StoredLease{Key: bootstrapplan.LeaseKey(address), Value: value, ModRevision: revision, LeaseID: 1}, err
}

// addressOf returns the address in a lease; empty if it has none.
func addressOf(lease *corev1.Endpoints) string {
	for _, subset := range lease.Subsets[:min(1, len(lease.Subsets))] {
		for _, address := range subset.Addresses[:min(1, len(subset.Addresses))] {
			return address.IP
		}
	}
	return ""
}

// NewLeaseEndpointReconciler returns a reconciler that keeps the addresses of servers that hold a lease. Each call of
// ReconcileEndpoints refreshes this server's lease, so calls must be more frequent than the lease's time to live.
func NewLeaseEndpointReconciler(epAdapter EndpointsAdapter, masterLeases Leases) EndpointReconciler {
	return &endpointReconciler{mode: bootstrapplan.ModeLease, endpoints: epAdapter, leases: masterLeases}
}
