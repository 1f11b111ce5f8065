package clusterstate

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
)

// DefaultPrefix is where kube-apiserver keeps its keys unless set otherwise by
// --etcd-prefix.
const DefaultPrefix = "/registry"

// Options of a read.
type Options struct {
	// Prefix is kube-apiserver's --etcd-prefix; empty for
	// DefaultPrefix.
	Prefix string
	// SkipHashCheck reads a snapshot file that has no valid hash, such as a copy
	// of etcd's member/snap/db.
	SkipHashCheck bool
	// Progress, if set, is called now and then from the calling goroutine with
	// the work done and expected, in bytes of a file or in keys of a running
	// etcd. The total can grow.
	Progress func(done, total int64)
	// Upgrade asks for [State.Upgrade], too.
	Upgrade bool
	// Bootstrap asks for [State.Bootstrap], too.
	Bootstrap bool
	// Revision is the one to read of a running etcd; 0 for the newest.
	Revision int64
}

// State is the input of an audit, all of it at one revision. The objects are as stored,
// with an empty TypeMeta. All lists are sorted by key.
type State struct {
	// Identity is that of the cluster.
	Identity Identity
	// Revision is the store's revision, at least 1.
	Revision int64
	// ServicesRevision is that of the other etcd from which [ReadEtcds] has read Services and ranges, else 0.
	ServicesRevision int64
	// Kine says that the store is kine, which accepts only the transactions of a kube-apiserver.
	Kine bool
	// RangesPrefix is the prefix of the keys of Ranges, such as /registry/ranges/.
	RangesPrefix string
	// IPAddressesPrefix is that of the keys of IPAddresses, ServiceCIDRsPrefix that of ServiceCIDRs.
	IPAddressesPrefix, ServiceCIDRsPrefix string
	// Ranges are the stored RangeAllocations by the last segment of their key:
	// serviceips, secondaryserviceips, servicenodeports, and any other.
	Ranges map[string]StoredRange
	// Unseen is nil if the source sees RangeAllocations. Otherwise Ranges is empty.
	Unseen *Unseen
	// Services are the Services of all namespaces and types, of each what an audit needs. Over the Kubernetes API,
	// which does not serve them, they have no create revisions.
	Services servicebatch.List
	// IPAddresses and ServiceCIDRs are empty on clusters that keep ClusterIPs in
	// a bitmap only; v1beta1 objects are converted to v1.
	IPAddresses  servicebatch.AddressList
	ServiceCIDRs []networkingv1.ServiceCIDR
	// Unreadable are the objects that cannot be decoded or are not those of their keys, and are in none of the lists.
	Unreadable []Unreadable
	// HasSystem says that the Namespace kube-system is stored.
	HasSystem bool
	// UpgradedAt is the create revision of the APIService of resource.k8s.io/v1, 0
	// if there is none: servers of Kubernetes 1.34 and later register it at their
	// start, and older ones remove it.
	UpgradedAt int64
	// Upgrade and Bootstrap are nil unless the options ask for them.
	Upgrade   *Upgrade
	Bootstrap *Bootstrap
}

// Upgrade is what else an upgrade depends on.
type Upgrade struct {
	// Release is that of the API server that was read, such as v1.36.3; empty if the source does not say it.
	Release string
	// Validating and Mutating are the configurations of admission webhooks.
	Validating []admissionv1.ValidatingWebhookConfiguration
	Mutating   []admissionv1.MutatingWebhookConfiguration
	// Forbidden is the answer to a user who may not list the webhooks, which are unknown then.
	Forbidden string
	// The admission policies and their bindings, and PoliciesForbidden is the answer to a user who may not list them.
	ValidatingPolicies []admissionv1.ValidatingAdmissionPolicy
	ValidatingBindings []admissionv1.ValidatingAdmissionPolicyBinding
	MutatingPolicies   []admissionv1.MutatingAdmissionPolicy
	MutatingBindings   []admissionv1.MutatingAdmissionPolicyBinding
	PoliciesForbidden  string
}

// StoredRange is a RangeAllocation as it lies in etcd.
type StoredRange struct {
	// Key is the full key.
	Key string
	// Value is the stored value, undecoded.
	Value []byte
	// ModRevision is the revision of the last change, CreateRevision that of the
	// first one since the key exists, Version the number of changes since then.
	ModRevision, CreateRevision, Version int64
}

// prefixes are those of the keys that an audit reads, each ending in a slash.
type prefixes struct {
	// root is that of all keys, without the slash.
	root                                        string
	ranges, services, ipAddresses, serviceCIDRs string
	// apiService and system, the Namespace kube-system, are whole keys.
	apiService, system string
	// bootstrap is nil unless it is asked for.
	bootstrap *bootstrapPrefixes
	// Empty unless an upgrade asks for them.
	validating, mutating                         string
	validatingPolicies, validatingPolicyBindings string
	mutatingPolicies, mutatingPolicyBindings     string
}

func (o Options) prefixes() prefixes {
	p := absolute(o.Prefix)
	all := prefixes{
		root:         p,
		ranges:       p + "/ranges/",
		services:     p + "/services/specs/",
		ipAddresses:  p + "/ipaddresses/",
		serviceCIDRs: p + "/servicecidrs/",
		apiService:   p + "/apiregistration.k8s.io/apiservices/v1.resource.k8s.io",
		system:       p + "/namespaces/" + metav1.NamespaceSystem,
	}
	if o.Bootstrap {
		of := newBootstrapPrefixes(p)
		all.bootstrap = &of
	}
	if o.Upgrade {
		all.validating, all.mutating = p+"/validatingwebhookconfigurations/", p+"/mutatingwebhookconfigurations/"
		all.validatingPolicies, all.validatingPolicyBindings = p+"/validatingadmissionpolicies/", p+"/validatingadmissionpolicybindings/"
		all.mutatingPolicies, all.mutatingPolicyBindings = p+"/mutatingadmissionpolicies/", p+"/mutatingadmissionpolicybindings/"
	}
	return all
}

// state returns a state without content.
func (p prefixes) state() *State {
	s := &State{Identity: Identity{Prefix: cmp.Or(p.root, "/")}, RangesPrefix: p.ranges, IPAddressesPrefix: p.ipAddresses, ServiceCIDRsPrefix: p.serviceCIDRs, Ranges: map[string]StoredRange{}}
	if p.validating != "" {
		s.Upgrade = new(Upgrade)
	}
	if p.bootstrap != nil {
		s.Bootstrap = new(Bootstrap)
	}
	return s
}

// RangeKey is where a kube-apiserver with this --etcd-prefix keeps a range; empty for
// DefaultPrefix.
func RangeKey(prefix, name string) string { return Options{Prefix: prefix}.prefixes().ranges + name }

// ServiceKeys returns the prefix of the keys of Services; prefix as of RangeKey.
func ServiceKeys(prefix string) string { return Options{Prefix: prefix}.prefixes().services }

// LeaseKeys returns the prefix of the keys of API servers' leases; prefix as of RangeKey.
func LeaseKeys(prefix string) string { return newBootstrapPrefixes(absolute(prefix)).leases }

// IPAddressKeys returns the prefix of the keys of IPAddress objects; prefix as of RangeKey.
func IPAddressKeys(prefix string) string { return Options{Prefix: prefix}.prefixes().ipAddresses }

// EndpointsKey returns the key of the Endpoints of the Service kubernetes.
func (s *State) EndpointsKey() string {
	return newBootstrapPrefixes(absolute(s.Identity.Prefix)).endpoints
}

// EndpointSliceKey returns the key of an EndpointSlice of its namespace.
func (s *State) EndpointSliceKey(name string) string {
	return newBootstrapPrefixes(absolute(s.Identity.Prefix)).slices + name
}

func (p prefixes) all() []string {
	all := []string{p.ranges, p.services, p.ipAddresses, p.serviceCIDRs, p.apiService}
	if p.validating != "" {
		all = append(all, p.validating, p.mutating, p.validatingPolicies, p.validatingPolicyBindings, p.mutatingPolicies, p.mutatingPolicyBindings)
	}
	if p.bootstrap != nil {
		return append(all, p.bootstrap.all()...) // has the Namespace kube-system
	}
	return append(all, p.system)
}

// wanted returns the function that reports whether a key is among those that an audit reads.
func (p prefixes) wanted() func(key []byte) bool {
	var all [][]byte
	for _, prefix := range p.all() {
		all = append(all, []byte(prefix))
	}
	return func(key []byte) bool {
		return slices.ContainsFunc(all, func(prefix []byte) bool { return bytes.HasPrefix(key, prefix) })
	}
}

// add decodes one key. Keys come in order within each prefix.
func (s *State) add(p prefixes, kv *mvccpb.KeyValue) {
	key := string(kv.Key)
	if key == p.system {
		s.HasSystem, s.Identity.UID = true, systemUID(kv.Value)
	}
	if p.bootstrap != nil && p.bootstrap.has(key) {
		s.Bootstrap.add(*p.bootstrap, kv)
		return
	}
	switch {
	case key == p.system:
	case strings.HasPrefix(key, p.ranges):
		if strings.Contains(key[len(p.ranges):], "/") {
			return // no range, but the witness beside one (etcdstore.WitnessKey)
		}
		s.Ranges[path.Base(key)] = StoredRange{
			Key:            key,
			Value:          kv.Value,
			ModRevision:    kv.ModRevision,
			CreateRevision: kv.CreateRevision,
			Version:        kv.Version,
		}
	case strings.HasPrefix(key, p.services):
		name := key[len(p.services):]
		record, err := new(recorder).service(nil, name, kv.Value, kv.CreateRevision)
		if err != nil {
			s.addUnreadable(serviceKind, p.services, name, err)
			break
		}
		s.Services.Add(record)
		s.addServerService(&p, kv)
	case strings.HasPrefix(key, p.ipAddresses):
		name := key[len(p.ipAddresses):]
		record, err := new(recorder).ipAddress(nil, name, kv.Value, kv.ModRevision)
		if err != nil {
			s.addUnreadable(ipAddressKind, p.ipAddresses, name, err)
			break
		}
		s.IPAddresses.Add(record)
	case key == p.apiService:
		s.UpgradedAt = kv.CreateRevision
	case strings.HasPrefix(key, p.serviceCIDRs):
		decode(s, &s.ServiceCIDRs, p.serviceCIDRs, kv, serviceCIDRKind)
	case s.Upgrade != nil && strings.HasPrefix(key, p.validating):
		decode(s, &s.Upgrade.Validating, p.validating, kv, validatingKind)
	case s.Upgrade != nil && strings.HasPrefix(key, p.mutating):
		decode(s, &s.Upgrade.Mutating, p.mutating, kv, mutatingKind)
	case s.Upgrade != nil && strings.HasPrefix(key, p.validatingPolicies):
		decode(s, &s.Upgrade.ValidatingPolicies, p.validatingPolicies, kv, validatingPolicyKind)
	case s.Upgrade != nil && strings.HasPrefix(key, p.validatingPolicyBindings):
		decode(s, &s.Upgrade.ValidatingBindings, p.validatingPolicyBindings, kv, validatingBindingKind)
	case s.Upgrade != nil && strings.HasPrefix(key, p.mutatingPolicies):
		decode(s, &s.Upgrade.MutatingPolicies, p.mutatingPolicies, kv, mutatingPolicyKind)
	case s.Upgrade != nil && strings.HasPrefix(key, p.mutatingPolicyBindings):
		decode(s, &s.Upgrade.MutatingBindings, p.mutatingPolicyBindings, kv, mutatingBindingKind)
	}
}

// decode appends the object in kv, whose key starts with prefix, to list.
func decode[T any, P object[T]](s *State, list *[]T, prefix string, kv *mvccpb.KeyValue, k kind) {
	name := string(kv.Key[len(prefix):])
	v := new(T)
	if err := decodeNamed(P(v), name, kv.Value, k); err != nil {
		s.addUnreadable(k, prefix, name, err)
		return
	}
	*list = append(*list, *v)
}

// checkKey refuses an object that names another key than its own: an API server finds it by its key and shows it by its
// name, so that a change by the name would be one of another object.
func checkKey(o metav1.Object, key string) error {
	if name := qualified(o); name != key {
		return fmt.Errorf("its name %q is not that of its key", name)
	}
	return nil
}

// qualified returns the name of an object, after its namespace if it has one.
func qualified(o metav1.Object) string {
	return strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}
