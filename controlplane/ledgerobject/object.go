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
// and resource version are the token, with the numbers of its last writes. The API server compares all of them when it
// writes.
//
// A client may send a write again though the API server has carried it out: client-go does so after an answer of 429 or
// 5xx with Retry-After, which a gateway may have given. The second one is refused. So after a refusal Object reads the
// object, and looks for the number of its own write.
//
// The object is created if it is missing. Its other fields stay as they are, but for [ReplacedAnnotation]. An object of
// the API has at most 1.5 MiB, and a ConfigMap 1 MiB: a ledger of 10,000 owners with names of 36 bytes takes about half
// of that.
//
// End all programs that write the object before it is deleted. A program that has read a ledger refuses an object that
// has none, and every program refuses one whose field is empty though it was written.
//
// If etcd is restored from a backup, end all its API servers before, and start them after, as Kubernetes wants it too.
// Then a program that goes on replaces nothing that it has not read, as the numbers tell a lost history from the one
// that is stored. What was allocated after the backup is free again. What the program has read of other objects is of
// the lost history all the same: end it, too, if it writes values into them, or releases values by what they say. An
// API server that goes on compares a write with its watch cache, which still has the lost history: it may carry out a
// write that replaces others, and refuse good ones.
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
	return value, o.tokenOf(object), nil
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

// state is what a write depends on, and what it needs to know of the object. As JSON it is a token.
type state struct {
	UID, Version, Annotation string
	// AnnotationSteps and FieldSteps are how far the object has the paths to the annotation and the field: a JSON patch
	// makes no parents.
	AnnotationSteps, FieldSteps int
}

var annotationPath = []string{"metadata", "annotations", ReplacedAnnotation}

func (s state) token() []byte {
	token, _ := json.Marshal(s) // of strings and numbers, so without an error
	return token
}

// tokenOf returns the token of an object.
func (o Object) tokenOf(object *unstructured.Unstructured) []byte {
	return state{
		UID: string(object.GetUID()), Version: object.GetResourceVersion(), Annotation: object.GetAnnotations()[ReplacedAnnotation],
		AnnotationSteps: steps(object.Object, annotationPath), FieldSteps: steps(object.Object, o.Field),
	}.token()
}

// steps returns how many steps of a path there are in an object.
func steps(object map[string]any, path []string) int {
	for n, step := range path {
		next := object[step]
		if next == nil {
			return n
		}
		object, _ = next.(map[string]any)
	}
	return len(path)
}

// replacedToken returns the token of a write that others have replaced, or may have. No object has it.
func replacedToken(write string) []byte {
	return state{Annotation: write}.token()
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// add returns the operation that sets what is at a path, of which an object has so many steps.
func add(path []string, steps int, value any) operation {
	first := min(steps+1, len(path))
	for _, step := range slices.Backward(path[first:]) {
		value = map[string]any{step: value}
	}
	return operation{"add", pointer(path[:first]), value}
}

// pointer returns a path as a JSON pointer.
func pointer(path []string) string {
	escaped := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, step := range path {
		b.WriteString("/" + escaped.Replace(step))
	}
	return b.String()
}

// patch returns the JSON patch that writes the annotation and the field of an object if it is in this state. The
// resource version alone is no proof: after a restore of etcd another object may have it, in another history.
func (o Object) patch(at state, annotation, text string) ([]byte, error) {
	setAnnotation := add(annotationPath, at.AnnotationSteps, annotation)
	known := operation{"test", setAnnotation.Path, nil} // that there is none
	if at.AnnotationSteps == len(annotationPath) {
		known.Value = at.Annotation
	}
	return json.Marshal([]operation{
		{"test", "/metadata/uid", at.UID}, {"test", "/metadata/resourceVersion", at.Version}, known,
		setAnnotation, add(o.Field, at.FieldSteps, text),
	})
}

// Put implements ledgerstore.Store.
func (o Object) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	var at state
	if token != nil && (json.Unmarshal(token, &at) != nil || at.Version == "") {
		return nil, ledgerstore.ErrChanged
	}
	fields, before := written(at.Annotation)
	if !slices.Contains(fields, o.path()) {
		fields = append(fields, o.path())
	}
	write := strconv.FormatUint(rand.Uint64(), 36)
	words := []string{cmp.Or(at.Version, "0"), strings.Join(fields, ",")}
	words = append(append(words, before[max(0, len(before)-keptWrites+1):]...), write)
	annotation, text := strings.Join(words, " "), base64.StdEncoding.EncodeToString(value)
	var stored *unstructured.Unstructured
	if token == nil {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		if err := unstructured.SetNestedField(object.Object, text, o.Field...); err != nil {
			return nil, err
		}
		object.SetGroupVersionKind(o.Kind)
		object.SetName(o.Name)
		object.SetAnnotations(map[string]string{ReplacedAnnotation: annotation})
		stored, err = o.Client.Create(ctx, object, metav1.CreateOptions{})
	} else {
		var patch []byte
		if patch, err = o.patch(at, annotation, text); err != nil {
			return nil, err
		}
		stored, err = o.Client.Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	}
	switch {
	case err == nil:
		// The answer is also good if the field is not in the schema, or is that of a subresource.
		if kept, _, _ := unstructured.NestedString(stored.Object, o.Field...); kept != text {
			return nil, fmt.Errorf("%s %s: the API server does not keep field %s", o.Kind.Kind, o.Name, strings.Join(o.Field, "."))
		}
		return o.tokenOf(stored), nil
	case isTooLarge(err):
		return nil, fmt.Errorf("%w: %w", ledgerstore.ErrTooLarge, err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && token != nil,
		apierrors.IsInvalid(err) && token != nil: // a test of the patch fails, or the object that it makes is not valid
		return o.refused(ctx, err, token, before, write)
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
	if !complete || bytes.Equal(o.tokenOf(object), token) {
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
