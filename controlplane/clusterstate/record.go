package clusterstate

import (
	"bytes"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
)

// recorder makes records of stored objects. It uses its memory again.
type recorder struct {
	fields  servicebatch.Fields
	address servicebatch.AddressFields
}

// service appends what an audit needs of a stored Service to dst. The error says why it cannot be read, or that it is
// not that of its key, which has this name after its prefix.
func (r *recorder) service(dst []byte, name string, value []byte, createRevision int64) ([]byte, error) {
	fields := &r.fields
	if raw, ok := serviceKind.readRaw(value); !ok || !readService(fields, raw) || !isNameOf(name, fields.Namespace, fields.Name) {
		o := new(corev1.Service)
		if err := decodeNamed(o, name, value, serviceKind); err != nil {
			return dst, err
		}
		fields = servicebatch.FieldsOf(o)
	}
	fields.CreateRevision = createRevision
	return fields.AppendTo(dst), nil
}

// ipAddress does the same for an IPAddress object.
func (r *recorder) ipAddress(dst []byte, name string, value []byte, modRevision int64) ([]byte, error) {
	fields := &r.address
	if raw, ok := ipAddressKind.readRaw(value); !ok || !readIPAddress(fields, raw) || string(fields.Name) != name {
		o := new(networkingv1.IPAddress)
		if err := decodeNamed(o, name, value, ipAddressKind); err != nil {
			return dst, err
		}
		fields = servicebatch.AddressFieldsOf(o)
	}
	fields.Revision = uint64(modRevision)
	return fields.AppendTo(dst), nil
}

// isNameOf reports whether a key has the name of this object after its prefix.
func isNameOf(name string, namespace, object []byte) bool {
	rest, ok := strings.CutPrefix(name, string(namespace))
	return ok && rest != "" && rest[0] == '/' && rest[1:] == string(object)
}

// decodeNamed decodes a stored object of a key that has this name after its prefix.
func decodeNamed[T any, P object[T]](o P, name string, value []byte, k kind) error {
	if err := decodeInto(o, value, k); err != nil {
		return err
	}
	return checkKey(o, name)
}

// addServerService keeps the Service kubernetes, of which the endpoints are judged, if the key is its.
func (s *State) addServerService(p *prefixes, kv *mvccpb.KeyValue) {
	if o := new(corev1.Service); p.isServerService(kv.Key) && decodeNamed(o, serverService, kv.Value, serviceKind) == nil {
		o.SetManagedFields(nil) // they may be damaged
		s.Bootstrap.Service = o
	}
}

// serverService is the name of the Service of the API servers.
const serverService = metav1.NamespaceDefault + "/" + KubernetesService

// isServerService reports whether a key is that of the Service kubernetes, and all of it is asked for.
func (p *prefixes) isServerService(key []byte) bool {
	name, ok := bytes.CutPrefix(key, []byte(p.services))
	return ok && p.bootstrap != nil && string(name) == serverService
}
