// Package ledgerstorage keeps a ledger in an object of an API server's storage: for API servers that hand out values of
// their own, beside the objects that they serve. It has no counterpart in k8s.io/kubernetes.
//
//	store := ledgerstorage.ConfigMap(objects, "/configmaps/kube-system/vnis", "kube-system", "vnis")
//	ledger, err := ledgerstore.New(store, rangekeeper.Pool{Range: "4096-16777215", Choice: rangekeeper.Lowest})
package ledgerstorage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rangekeeper/rangekeeper/controlplane/ledgerobject"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

// Object is an object of a storage.Interface with a ledger in one of its fields: a [ledgerstore.Store]. The resource
// version is the token. The object is created if it is missing; its other fields stay as they are, but for
// [ledgerobject.ReplacedAnnotation], with which each write changes the object: a storage does not write what does not
// change.
//
// End all programs that write the object before it is deleted, or the storage is restored from a backup. A program that
// has read a ledger refuses an object that has none.
type Object struct {
	// Storage must read what was written last: without a watch cache, or with one that does.
	Storage storage.Interface
	// Key is the object's key in the storage.
	Key string
	// New returns the object as it is created, without a ledger.
	New func() runtime.Object
	// Ledger returns the field that has the ledger, and SetLedger sets it.
	Ledger    func(runtime.Object) []byte
	SetLedger func(runtime.Object, []byte)
}

var _ ledgerstore.Store = Object{}

// ConfigMap returns an Object that is a ConfigMap of k8s.io/api/core/v1, which the storage's codec must know, with the
// ledger under the key "ledger" of its binaryData.
func ConfigMap(objects storage.Interface, key, namespace, name string) Object {
	return Object{
		Storage: objects, Key: key,
		New: func() runtime.Object {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		},
		Ledger: func(object runtime.Object) []byte { return object.(*corev1.ConfigMap).BinaryData[field] },
		SetLedger: func(object runtime.Object, ledger []byte) {
			all := maps.Clone(object.(*corev1.ConfigMap).BinaryData)
			if all == nil {
				all = map[string][]byte{}
			}
			all[field] = ledger
			object.(*corev1.ConfigMap).BinaryData = all
		},
	}
}

const field = "ledger"

// Get implements ledgerstore.Store.
func (o Object) Get(ctx context.Context) (value, token []byte, err error) {
	object := o.New()
	err = o.Storage.Get(ctx, o.Key, storage.GetOptions{}, object)
	if storage.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	token, err = o.token(object)
	return o.Ledger(object), token, err
}

func (o Object) token(object runtime.Object) ([]byte, error) {
	version, err := o.Storage.Versioner().ObjectResourceVersion(object)
	return strconv.AppendUint(nil, version, 10), err
}

// Put implements ledgerstore.Store.
func (o Object) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	stored := o.New()
	if token == nil {
		object := o.New()
		o.SetLedger(object, value)
		err = o.Storage.Create(ctx, o.Key, object, stored, 0)
	} else {
		err = o.Storage.GuaranteedUpdate(ctx, o.Key, stored, false, nil, storage.SimpleUpdate(func(now runtime.Object) (runtime.Object, error) {
			return o.replace(now, value, token)
		}), nil)
	}
	switch {
	case err == nil:
		return o.token(stored)
	case storage.IsExist(err), storage.IsNotFound(err) && token != nil:
		return nil, ledgerstore.ErrChanged
	default:
		return nil, err
	}
}

// replace returns the object with another ledger, if it is the one with this token.
func (o Object) replace(object runtime.Object, ledger, token []byte) (runtime.Object, error) {
	now, err := o.token(object)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(now, token) {
		return nil, ledgerstore.ErrChanged
	}
	about, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	annotations := maps.Clone(about.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[ledgerobject.ReplacedAnnotation] = string(token)
	about.SetAnnotations(annotations)
	o.SetLedger(object, ledger)
	return object, nil
}
