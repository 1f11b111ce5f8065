// Package ledgerobject keeps a ledger in a field of a Kubernetes object: a ConfigMap or a custom resource. Programs
// that have a client of the cluster, such as operators and network plugins, need no other store.
//
//	store := ledgerobject.ConfigMap(client, "kube-system", "vnis", "ledger")
//	ledger, err := ledgerstore.New(store, rangekeeper.Pool{Range: "4096-16777215", Choice: rangekeeper.Lowest})
//
// A program needs the verbs get and patch for the object, and create for its resource unless the object is there
// before.
package ledgerobject

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

// Object is an object of the Kubernetes API with a ledger in one of its fields: a [ledgerstore.Store]. The object's UID
// and resource version are the token, with the numbers of its last writes.
//
// A client may send a write again though the API server has carried it out: client-go does so after an answer of 429 or
// 5xx with Retry-After, which a gateway may have given. The second one is refused. So after a refusal Object reads the
// object, and looks for the number of its own write.
//
// The object is created if it is missing. Its other fields stay as they are, but for [ReplacedAnnotation]. An object of
// the API has at most 1.5 MiB, and a ConfigMap 1 MiB: a ledger of 10,000 owners with names of 36 bytes takes about half
// of that.
//
// End all programs that write the object before it is deleted, or the API server's etcd is restored from a backup. A
// program that has read a ledger refuses an object that has none, and every program refuses one whose field is empty
// though it was written.
type Object struct {
	// Client is the client of the resource, in a namespace if the resource is namespaced. Its limit of requests must
	// allow two for each change: client-go's default is 5 in a second (rest.Config.QPS).
	Client dynamic.ResourceInterface
	// Kind is the object's kind.
	Kind schema.GroupVersionKind
	// Name is the object's name.
	Name string
	// Field is the path to a field that has bytes as base64: in the schema of a custom resource a string with the
	// format byte, and not in the status if that is a subresource.
	Field []string
}

// ReplacedAnnotation is an annotation of the object: the resource version that the last write of a ledger replaced, the
// fields that have had ledgers, and random numbers of the last 256 writes, the newest last. So each write changes the
// object, and has a resource version of its own; a client finds its write though others have written since; and a field
// that somebody has emptied is no new ledger.
const ReplacedAnnotation = "rangekeeper.github.io/replaced"

// keptWrites is how many writes the annotation has at most.
const keptWrites = 256

var _ ledgerstore.Store = Object{}

// ConfigMap returns an Object that keeps a ledger in binaryData of a ConfigMap, under a key.
func ConfigMap(client dynamic.Interface, namespace, name, key string) Object {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	return Object{
		Client: client.Resource(resource).Namespace(namespace), Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Name: name, Field: []string{"binaryData", key},
	}
}

// Get implements ledgerstore.Store.
func (o Object) Get(ctx context.Context) (value, token []byte, err error) {
	object, err := o.Client.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	text, _, err := unstructured.NestedString(object.Object, o.Field...)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", o.Kind.Kind, o.Name, err)
	}
	// An object that somebody has created without the field has no ledger yet. A new one in place of a ledger would
	// give all its values again.
	if fields, _ := written(object.GetAnnotations()[ReplacedAnnotation]); text == "" && slices.Contains(fields, o.path()) {
		return nil, nil, fmt.Errorf("%s %s: field %s is empty, and annotation %s says that it had a ledger; put the field back, or remove the annotation to begin with a new ledger",
			o.Kind.Kind, o.Name, strings.Join(o.Field, "."), ReplacedAnnotation)
	}
	if value, err = base64.StdEncoding.DecodeString(text); err != nil {
		return nil, nil, fmt.Errorf("%s %s: field %s: %w", o.Kind.Kind, o.Name, strings.Join(o.Field, "."), err)
	}
	return value, tokenOf(object), nil
}

// path returns the field as the annotation has it.
func (o Object) path() string {
	return url.QueryEscape(strings.Join(o.Field, "."))
}

// written returns what the annotation says: the fields that have had ledgers, and the numbers of the last writes.
func written(annotation string) (fields, writes []string) {
	parts := strings.Fields(annotation)
	if len(parts) < 2 {
		return nil, nil
	}
	return strings.Split(parts[1], ","), parts[2:]
}

// tokenOf returns UID, resource version and annotation, which a write at this token needs.
func tokenOf(object *unstructured.Unstructured) []byte {
	return []byte(string(object.GetUID()) + "/" + object.GetResourceVersion() + "/" + object.GetAnnotations()[ReplacedAnnotation])
}

// replacedToken returns the token of a write that others have replaced, or may have. No object has it.
func replacedToken(write string) []byte {
	return []byte("//" + write)
}

// Put implements ledgerstore.Store.
func (o Object) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	uid, rest, _ := strings.Cut(string(token), "/")
	version, annotation, _ := strings.Cut(rest, "/")
	if token != nil && version == "" {
		return nil, ledgerstore.ErrChanged
	}
	fields, before := written(annotation)
	if !slices.Contains(fields, o.path()) {
		fields = append(fields, o.path())
	}
	write := strconv.FormatUint(rand.Uint64(), 36)
	object, text := &unstructured.Unstructured{Object: map[string]any{}}, base64.StdEncoding.EncodeToString(value)
	if err := unstructured.SetNestedField(object.Object, text, o.Field...); err != nil {
		return nil, err
	}
	words := []string{cmp.Or(version, "0"), strings.Join(fields, ",")}
	words = append(append(words, before[max(0, len(before)-keptWrites+1):]...), write)
	object.SetAnnotations(map[string]string{ReplacedAnnotation: strings.Join(words, " ")})
	var stored *unstructured.Unstructured
	if token == nil {
		object.SetGroupVersionKind(o.Kind)
		object.SetName(o.Name)
		stored, err = o.Client.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object.SetUID(types.UID(uid))
		object.SetResourceVersion(version)
		var patch []byte
		if patch, err = json.Marshal(object.Object); err != nil {
			return nil, err
		}
		stored, err = o.Client.Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	switch {
	case err == nil:
		// The answer is also good if the field is not in the schema, or is that of a subresource.
		if kept, _, _ := unstructured.NestedString(stored.Object, o.Field...); kept != text {
			return nil, fmt.Errorf("%s %s: the API server does not keep field %s", o.Kind.Kind, o.Name, strings.Join(o.Field, "."))
		}
		return tokenOf(stored), nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && token != nil:
		return o.refused(ctx, err, token, before, write)
	case isTooLarge(err):
		return nil, fmt.Errorf("%w: %w", ledgerstore.ErrTooLarge, err)
	default:
		return nil, err
	}
}

// refused returns what became of a write at a token that the API server has refused, perhaps after it had carried out
// the same one.
func (o Object) refused(ctx context.Context, refusal error, token []byte, before []string, write string) ([]byte, error) {
	object, err := o.Client.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w; and whether it was carried out before is unknown: %w", refusal, err)
	}
	_, now := written(object.GetAnnotations()[ReplacedAnnotation])
	if slices.Contains(now, write) {
		return replacedToken(write), nil
	}
	// The writes since the token are all there if the last one before it is, or if none was dropped. If the object is
	// the same still, another request with this write may be on its way.
	complete := len(before) == 0 && len(now) < keptWrites || len(before) > 0 && slices.Contains(now, before[len(before)-1])
	if !complete || bytes.Equal(tokenOf(object), token) {
		return nil, fmt.Errorf("%w; and whether it was carried out before is unknown", refusal)
	}
	return nil, ledgerstore.ErrChanged
}

// isTooLarge reports whether a write was refused by its size: by the API server as a request, by the validation of the
// object, or by etcd.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsInvalid(err) && apierrors.HasStatusCause(err, metav1.CauseType(field.ErrorTypeTooLong)) ||
		ledgerstore.IsTooLargeForEtcd(err)
}
