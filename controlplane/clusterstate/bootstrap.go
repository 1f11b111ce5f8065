package clusterstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubernetesService is the name of the Service of the API servers, of its Endpoints and of its EndpointSlice, in the
// namespace default.
const KubernetesService = "kubernetes"

// Bootstrap is what the bootstrap controllers of the API servers keep: the leases of the servers, the endpoints of the
// Service kubernetes, and the system namespaces.
type Bootstrap struct {
	// Service is the Service kubernetes, which is among the Services of the state; nil if there is none.
	Service *corev1.Service
	// Leases are the keys below masterleases/.
	Leases []ServerLease
	// Endpoints are those of the Service kubernetes, nil if there are none.
	Endpoints *corev1.Endpoints
	// Slices are the EndpointSlices of that Service: the one with its name, and others with its label.
	Slices []discoveryv1.EndpointSlice
	// Namespaces are the names of those that exist, at least of the system namespaces.
	Namespaces []string
	// LeasesUnseen, ObjectsUnseen and NamespacesUnseen say why the source does not show the leases, Endpoints and
	// slices, and the namespaces. They are empty if it does. SlicesUnseen says why it does not show a slice that may
	// be one of another Service.
	LeasesUnseen, ObjectsUnseen, NamespacesUnseen, SlicesUnseen string
}

// ServerLease is the lease of an API server, as it lies in etcd. The value may be encrypted at rest.
type ServerLease struct {
	Key         string
	Value       []byte
	ModRevision int64
	// ID is that of etcd's lease of the key, 0 if it has none. Of kine it is the time to live in seconds.
	ID int64
	// State says whether etcd has that lease.
	State EtcdLeaseState
	// TTL is the time to live that etcd has granted, and Left what is left of it in a running etcd. Both are 0 unless
	// the lease is granted.
	TTL, Left time.Duration
}

// Unchanged reports whether an earlier state had the same lease, unwritten since.
func (l *ServerLease) Unchanged(earlier *Bootstrap) bool {
	return slices.ContainsFunc(earlier.Leases, func(e ServerLease) bool { return e.Key == l.Key && e.ModRevision == l.ModRevision })
}

// EndpointsUnchanged reports whether an earlier state had the same Endpoints and slices, unwritten since.
func (b *Bootstrap) EndpointsUnchanged(earlier *Bootstrap) bool {
	return slices.Equal(b.endpointVersions(), earlier.endpointVersions())
}

func (b *Bootstrap) endpointVersions() (all []string) {
	if b.Endpoints != nil {
		all = append(all, "Endpoints "+b.Endpoints.ResourceVersion)
	}
	for _, slice := range b.Slices {
		all = append(all, slice.Name+" "+slice.ResourceVersion)
	}
	return all
}

// LeasesWritten watches for a time which leases servers write after the state was read.
func (s *State) LeasesWritten(ctx context.Context, client *clientv3.Client, wait time.Duration) (written []ServerLease, err error) {
	until, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), wait)
	defer cancel()
	leases := newBootstrapPrefixes(absolute(s.Identity.Prefix)).leases
	for answer := range client.Watch(until, leases, clientv3.WithPrefix(), clientv3.WithRev(s.Revision+1)) {
		for _, event := range answer.Events {
			if event.Type == clientv3.EventTypePut {
				written = append(written, leaseOf(event.Kv))
			}
		}
		if err = answer.Err(); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if until.Err() != nil { // the time is over
		return written, nil
	}
	if err == nil {
		err = errors.New("the watch has ended")
	}
	return nil, explain(ctx, fmt.Errorf("watch the leases of the API servers: %w", err))
}

// NoNewServer is the condition in etcd that no API server has got a lease since the state was read.
func (s *State) NoNewServer() clientv3.Cmp {
	leases := newBootstrapPrefixes(absolute(s.Identity.Prefix)).leases
	return clientv3.Compare(clientv3.CreateRevision(leases), "<", s.Revision+1).WithPrefix()
}

// EtcdLeaseState says whether etcd has the lease of a key.
type EtcdLeaseState string

const (
	// LeaseUnknown: the source does not say so.
	LeaseUnknown EtcdLeaseState = "unknown"
	// LeaseMissing: the key has no lease, or etcd has not the one that it names, so it stays.
	LeaseMissing EtcdLeaseState = "missing"
	// LeaseGranted: etcd has it.
	LeaseGranted EtcdLeaseState = "granted"
)

var (
	endpointsKind = kind{name: "Endpoints", versions: []string{"v1"}, namespaced: true}
	// One that no server has written since 1.21 is stored as v1beta1, which has other fields only for topology.
	endpointSliceKind = kind{name: "EndpointSlice", versions: []string{"discovery.k8s.io/v1", "discovery.k8s.io/v1beta1"}, namespaced: true}
)

// systemNamespaces are the namespaces of every cluster (kubernetes, pkg/controlplane/controller/systemnamespaces).
var systemNamespaces = []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease, metav1.NamespacePublic, metav1.NamespaceSystem}

// bootstrapPrefixes are those of the keys of bootstrap controllers.
type bootstrapPrefixes struct {
	leases, endpoints, slices, namespaces string
}

func newBootstrapPrefixes(root string) bootstrapPrefixes {
	return bootstrapPrefixes{
		leases: root + "/masterleases/", endpoints: root + "/services/endpoints/" + metav1.NamespaceDefault + "/" + KubernetesService,
		slices: root + "/endpointslices/" + metav1.NamespaceDefault + "/", namespaces: root + "/namespaces/",
	}
}

// all returns what is to be read.
func (p bootstrapPrefixes) all() []string {
	all := []string{p.endpoints, p.slices}
	for _, name := range systemNamespaces {
		all = append(all, p.namespaces+name)
	}
	return append(all, p.leases) // after the objects
}

// has reports whether a key, or what is to be read, is one of these.
func (p bootstrapPrefixes) has(key string) bool {
	return strings.HasPrefix(key, p.leases) || strings.HasPrefix(key, p.endpoints) || strings.HasPrefix(key, p.slices) || strings.HasPrefix(key, p.namespaces)
}

// hasAny reports whether a lease or a system namespace is stored, or may be, as the source does not show it. Endpoints
// and slices may be in the etcd of Services, by another override.
func (b *Bootstrap) hasAny() bool {
	return len(b.Leases)+len(b.Namespaces) > 0 || b.LeasesUnseen+b.NamespacesUnseen != ""
}

func leaseOf(kv *mvccpb.KeyValue) ServerLease {
	value := kv.Value
	// The core reads YAML in the form that servers write, and a server in any.
	if !bytes.HasPrefix(value, protobufMagic) && decodeAny(new(corev1.Endpoints), value, endpointsKind) == nil {
		if text, err := yamlToJSON(value); err == nil {
			value = text
		}
	}
	return ServerLease{Key: string(kv.Key), Value: value, ModRevision: kv.ModRevision, ID: kv.Lease, State: LeaseUnknown}
}

// add decodes one key. What cannot be read is unseen, and no error: the ranges can be audited all the same.
func (b *Bootstrap) add(p bootstrapPrefixes, kv *mvccpb.KeyValue) {
	key := string(kv.Key)
	switch {
	case strings.HasPrefix(key, p.leases):
		b.Leases = append(b.Leases, leaseOf(kv))
	case strings.HasPrefix(key, p.namespaces):
		b.Namespaces = append(b.Namespaces, key[len(p.namespaces):])
	case key == p.endpoints:
		b.Endpoints = new(corev1.Endpoints)
		decoded(&b.ObjectsUnseen, key, decodeStored(b.Endpoints, metav1.NamespaceDefault+"/"+KubernetesService, kv, endpointsKind))
	case strings.HasPrefix(key, p.slices):
		var slice discoveryv1.EndpointSlice
		name, unseen := key[len(p.slices):], &b.SlicesUnseen
		if name == KubernetesService { // the one that is compared with the Endpoints
			unseen = &b.ObjectsUnseen
		}
		if decoded(unseen, key, decodeStored(&slice, metav1.NamespaceDefault+"/"+name, kv, endpointSliceKind)) && (name == KubernetesService || slice.Labels[discoveryv1.LabelServiceName] == KubernetesService) {
			b.Slices = append(b.Slices, slice)
		}
	}
}

// decoded reports whether a key could be decoded, and notes the first one that could not.
func decoded(unseen *string, key string, err error) bool {
	if err != nil && *unseen == "" {
		*unseen = fmt.Sprintf("key %s: %v", key, err)
	}
	return err == nil
}

// decodeStored decodes an object of this namespace and name that may be written back: its resource version is that of
// the key.
func decodeStored[T any, P object[T]](o P, name string, kv *mvccpb.KeyValue, k kind) error {
	if err := decodeNamed(o, name, kv.Value, k); err != nil {
		return err
	}
	o.SetResourceVersion(fmt.Sprint(kv.ModRevision))
	o.SetManagedFields(soundFields(o.GetManagedFields()))
	return nil
}

// soundFields returns managed fields, or none if some are no JSON, which a server reads, and nobody can write.
func soundFields(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	isDamaged := func(one metav1.ManagedFieldsEntry) bool {
		fields := one.FieldsV1
		return fields != nil && !(utf8.Valid(fields.Raw) && json.Valid(fields.Raw))
	}
	if slices.ContainsFunc(all, isDamaged) {
		return nil
	}
	return all
}

// refused notes that the etcd user may not read what begins with a prefix, and reports whether an audit of the ranges
// can do without.
func (b *Bootstrap) refused(p bootstrapPrefixes, prefix string, err error) bool {
	if !p.has(prefix) || !errors.Is(err, rpctypes.ErrPermissionDenied) {
		return false
	}
	switch reason := fmt.Sprintf("the etcd user may not read %s", prefix); {
	case prefix == p.leases:
		b.LeasesUnseen = reason
	case strings.HasPrefix(prefix, p.namespaces):
		b.NamespacesUnseen = reason
	default:
		b.ObjectsUnseen = reason
	}
	return true
}

// readLeaseStates asks a running etcd which of its leases the keys have.
func (b *Bootstrap) readLeaseStates(ctx context.Context, client *clientv3.Client) error {
	for i := range b.Leases {
		lease := &b.Leases[i]
		if lease.ID == 0 {
			lease.State = LeaseMissing
			continue
		}
		answer, err := timeToLive(ctx, client, lease.ID)
		if errors.Is(err, rpctypes.ErrPermissionDenied) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read etcd's lease of %s: %w", lease.Key, err)
		}
		if answer.GrantedTTL > 0 { // also of one that has expired, and that etcd is about to revoke
			lease.State = LeaseGranted
			lease.TTL, lease.Left = time.Duration(answer.GrantedTTL)*time.Second, time.Duration(max(answer.TTL, 0))*time.Second
			continue
		}
		// The key may have gone with its lease, or may have got another one, since it was read.
		now, err := readPage(ctx, client, lease.Key, clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("read %s: %w", lease.Key, err)
		}
		if len(now.Kvs) > 0 && now.Kvs[0].ModRevision == lease.ModRevision {
			lease.State = LeaseMissing
		}
	}
	return nil
}

func timeToLive(ctx context.Context, client *clientv3.Client, id int64) (*clientv3.LeaseTimeToLiveResponse, error) {
	pageCtx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	answer, err := client.TimeToLive(pageCtx, clientv3.LeaseID(id))
	return answer, explain(ctx, err)
}

// setGranted takes the leases that a store has, with their times to live.
func (b *Bootstrap) setGranted(granted map[int64]time.Duration) {
	for i := range b.Leases {
		lease := &b.Leases[i]
		if ttl, ok := granted[lease.ID]; ok {
			lease.State, lease.TTL = LeaseGranted, ttl
		} else {
			lease.State = LeaseMissing
		}
	}
}
