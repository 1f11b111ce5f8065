package clusterstate

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var (
	protobufMagic   = []byte("k8s\x00")
	encryptionMagic = []byte("k8s:enc:")
)

// object is a pointer to an API type of k8s.io/api.
type object[T any] interface {
	*T
	metav1.Object
	runtime.Object
	Unmarshal([]byte) error
}

// kind says which stored forms decode into one API type. The versions listed
// have the same fields under the same numbers and names as the type itself.
type kind struct {
	name       string
	versions   []string
	namespaced bool
}

var (
	networking = []string{"networking.k8s.io/v1", "networking.k8s.io/v1beta1"}
	// An object that no server has written for years may still be stored as v1beta1.
	admission = []string{"admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"}

	serviceKind     = kind{name: "Service", versions: []string{"v1"}, namespaced: true}
	namespaceKind   = kind{name: "Namespace", versions: []string{"v1"}}
	ipAddressKind   = kind{name: "IPAddress", versions: networking}
	serviceCIDRKind = kind{name: "ServiceCIDR", versions: networking}
	rangeKind       = kind{name: "RangeAllocation", versions: []string{"v1"}}
	validatingKind  = kind{name: "ValidatingWebhookConfiguration", versions: admission}
	mutatingKind    = kind{name: "MutatingWebhookConfiguration", versions: admission}
	// Servers of 1.32 and 1.33 have mutating policies, off by default, as v1alpha1.
	policies              = append(slices.Clone(admission), "admissionregistration.k8s.io/v1alpha1")
	validatingPolicyKind  = kind{name: "ValidatingAdmissionPolicy", versions: policies}
	validatingBindingKind = kind{name: "ValidatingAdmissionPolicyBinding", versions: policies}
	mutatingPolicyKind    = kind{name: "MutatingAdmissionPolicy", versions: policies}
	mutatingBindingKind   = kind{name: "MutatingAdmissionPolicyBinding", versions: policies}
)

// decodeInto decodes the object in value, protobuf, JSON or YAML, into o.
func decodeInto[T any, P object[T]](o P, value []byte, k kind) error {
	if err := decodeAny(o, value, k); err != nil {
		return err
	}
	return check(o, k)
}

// decodeAny is decodeInto for an object that may have no name.
func decodeAny[T any, P object[T]](o P, value []byte, k kind) error {
	if err := checkEncryption(value); err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(value, protobufMagic):
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(value[len(protobufMagic):]); err != nil {
			return fmt.Errorf("damaged protobuf value: %w", err)
		}
		if err := k.check(envelope.TypeMeta.APIVersion, envelope.TypeMeta.Kind); err != nil {
			return err
		}
		if envelope.ContentEncoding != "" {
			return fmt.Errorf("unknown content encoding %q", envelope.ContentEncoding)
		}
		if err := o.Unmarshal(envelope.Raw); err != nil {
			return fmt.Errorf("damaged %s: %w", k.name, err)
		}
	case bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{")):
		var meta metav1.TypeMeta
		if err := json.Unmarshal(value, &meta); err != nil {
			return fmt.Errorf("damaged JSON value: %w", err)
		}
		if err := k.check(meta.APIVersion, meta.Kind); err != nil {
			return err
		}
		if err := json.Unmarshal(value, o); err != nil {
			return fmt.Errorf("damaged %s: %w", k.name, err)
		}
		// As decoding protobuf leaves it.
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	default:
		text, err := yamlToJSON(value)
		if err != nil {
			return err
		}
		return decodeAny(o, text, k)
	}
	return nil
}

// yamlToJSON returns the object in a value that is neither Kubernetes' protobuf nor JSON. An API server takes anything
// else for YAML (apimachinery, pkg/runtime/serializer/recognizer).
func yamlToJSON(value []byte) ([]byte, error) {
	text, err := yaml.YAMLToJSON(value)
	switch {
	case err != nil && isYAML(value):
		return nil, fmt.Errorf("damaged YAML value: %w", err)
	case err != nil || !bytes.HasPrefix(text, []byte("{")):
		return nil, fmt.Errorf("neither Kubernetes protobuf nor JSON nor YAML: starts with %q", value[:min(len(value), 16)])
	}
	return text, nil
}

// isYAML says whether a value begins with a key, as a kube-apiserver with
// --storage-media-type=application/yaml writes objects.
func isYAML(value []byte) bool {
	key, _, found := bytes.Cut(value[:min(len(value), 64)], []byte(":"))
	return found && len(key) > 0 && len(bytes.Trim(key, letters)) == 0
}

// check refuses an object that the core or a kube-apiserver cannot take.
func check(o metav1.Object, k kind) error {
	if o.GetName() == "" {
		return fmt.Errorf("%s without a name", k.name)
	}
	// The watch cache of a kube-apiserver computes a key from the name. If it cannot, no object of the kind is listed.
	if problems := content.IsPathSegmentName(o.GetName()); len(problems) > 0 {
		return fmt.Errorf("name %q of this %s %s: kube-apiserver cannot list such a name", o.GetName(), k.name, strings.Join(problems, ", "))
	}
	if k.namespaced && o.GetNamespace() == "" {
		return fmt.Errorf("%s %s without a namespace", k.name, o.GetName())
	}
	for _, text := range texts(o) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("damaged %s: %q is not UTF-8", k.name, text)
		}
	}
	if o, ok := o.(*networkingv1.ServiceCIDR); ok {
		for _, cidr := range o.Spec.CIDRs {
			if _, err := rangekeeper.ParseServiceCIDR(cidr); err != nil {
				return fmt.Errorf("spec.cidrs: %w", err)
			}
		}
	}
	return nil
}

// texts returns the texts of an object that go into the core, which takes UTF-8
// only; the decoders of protobuf let anything pass.
func texts(o metav1.Object) []string {
	all := []string{o.GetNamespace(), o.GetName()}
	switch o := o.(type) {
	case *corev1.Service:
		all = append(append(all, o.Spec.ClusterIP), o.Spec.ClusterIPs...)
		for _, port := range o.Spec.Ports {
			all = append(all, string(port.Protocol))
		}
	case *networkingv1.IPAddress:
		all = append(all, o.Labels[networkingv1.LabelManagedBy])
		if ref := o.Spec.ParentRef; ref != nil {
			all = append(all, ref.Group, ref.Resource, ref.Namespace, ref.Name)
		}
	case *networkingv1.ServiceCIDR:
		all = append(all, o.Spec.CIDRs...)
	}
	return all
}

// EncodeIPAddress returns the value that a server of the state's cluster stores for an
// object: protobuf, up to Kubernetes 1.33 of v1beta1.
func (s *State) EncodeIPAddress(o *networkingv1.IPAddress) ([]byte, error) {
	return s.encode(ipAddressKind, o)
}

// EncodeServiceCIDR does the same for a ServiceCIDR.
func (s *State) EncodeServiceCIDR(o *networkingv1.ServiceCIDR) ([]byte, error) {
	return s.encode(serviceCIDRKind, o)
}

// EncodeRange returns the value that a server stores for a range of ClusterIPs or node ports and its bitmap.
func EncodeRange(text string, data []byte) ([]byte, error) {
	k := kind{name: "RangeAllocation", versions: []string{"v1"}}
	return encode(k.versions[0], k, &corev1.RangeAllocation{Range: text, Data: data})
}

// EncodeEndpoints returns the value that a server stores for an object.
func EncodeEndpoints(o *corev1.Endpoints) ([]byte, error) {
	return encode(endpointsKind.versions[0], endpointsKind, o)
}

// EncodeEndpointSlice does the same for an EndpointSlice.
func EncodeEndpointSlice(o *discoveryv1.EndpointSlice) ([]byte, error) {
	return encode(endpointSliceKind.versions[0], endpointSliceKind, o)
}

func (s *State) encode(k kind, o interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	if s.UpgradedAt == 0 {
		return encode(k.versions[1], k, o)
	}
	return encode(k.versions[0], k, o)
}

func encode(version string, k kind, o interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	raw, err := o.Marshal()
	if err != nil {
		return nil, err
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: k.name}, Raw: raw}
	value, err := envelope.Marshal()
	return append(slices.Clone(protobufMagic), value...), err
}

func (k kind) check(apiVersion, name string) error {
	if name != k.name || !slices.Contains(k.versions, apiVersion) {
		return fmt.Errorf("is %q of %q, expected %s of %s", name, apiVersion, k.name, strings.Join(k.versions, " or "))
	}
	return nil
}

// checkEncryption recognises a value that kube-apiserver encrypted at rest:
// "k8s:enc:", provider, version and the name of the key, each with a colon.
func checkEncryption(value []byte) error {
	if !bytes.HasPrefix(value, encryptionMagic) {
		return nil
	}
	end := len(encryptionMagic)
	for range 3 { // provider, version, name of the key
		i := bytes.IndexByte(value[end:min(len(value), 256)], ':')
		if i < 0 {
			break
		}
		end += i + 1
	}
	return &EncryptedError{Provider: string(value[:end])}
}

// EncryptedError: a value is encrypted at rest.
type EncryptedError struct {
	// Provider is the part of the value that names how it is encrypted, like
	// "k8s:enc:aescbc:v1:key1:".
	Provider string
}

// Error names the provider; the key is named by the error around it.
func (e *EncryptedError) Error() string {
	return fmt.Sprintf("encrypted at rest (%q): only an API server can read it", e.Provider)
}
