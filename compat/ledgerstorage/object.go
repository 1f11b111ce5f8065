// Package ledgerstorage keeps a ledger in an object of an API server's storage: for API servers that hand out values of
// their own, beside the objects that they serve. It has no counterpart in k8s.io/kubernetes.
//
//	store := ledgerstorage.ConfigMap(objects, "/configmaps/kube-system/vnis", "kube-system", "vnis")
//	ledger, err := ledgerstore.New(store, rangekeeper.Pool{Range: "4096-16777215", Choice: rangekeeper.Lowest})
package ledgerstorage

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rangekeeper/rangekeeper/controlplane/ledgerobject"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

// Object is an object of a storage.Interface with a ledger in one of its fields: a [ledgerstore.Store]. The token is
// the object's UID, if it has one, its resource version, and [ledgerobject.ReplacedAnnotation], which here has the
// resource version that the last write replaced and a random number of that write. So each write changes the object,
// without which a storage would not write it, and two histories of a storage that was restored from a backup have no
// token in common. The object is created if it is missing; its other fields stay as they are.
//
// An object has one ledger. End all programs that write the object before it is deleted. What was allocated after a
// backup is free again once it is restored. A program that has read a ledger refuses an object that has none, and every
// program refuses one whose field is empty though it was written. No request is repeated between an API server and its
// etcd, so a refused write was never carried out.
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
	about, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	// A new ledger in place of one that somebody has emptied would give all its values again.
	value = o.Ledger(object)
	if _, written := about.GetAnnotations()[ledgerobject.ReplacedAnnotation]; written && len(value) == 0 {
		return nil, nil, fmt.Errorf("%s: the field of the ledger is empty, and annotation %s says that it had a ledger; put the field back, or remove the annotation to begin with a new ledger",
			o.Key, ledgerobject.ReplacedAnnotation)
	}
	token, err = o.token(object)
	return value, token, err
}

// token returns the token of an object. The resource version alone would be none: after a restore another object may
// have it, in another history.
func (o Object) token(object runtime.Object) ([]byte, error) {
	about, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return fmt.Appendf(nil, "%s %s %s", about.GetResourceVersion(), about.GetUID(), about.GetAnnotations()[ledgerobject.ReplacedAnnotation]), nil
}

// Put implements ledgerstore.Store.
func (o Object) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	stored := o.New()
	if token == nil {
		var object runtime.Object
		if object, err = o.written(o.New(), value); err != nil {
			return nil, err
		}
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
	case ledgerstore.IsTooLargeForEtcd(err):
		return nil, fmt.Errorf("%w: %w", ledgerstore.ErrTooLarge, err)
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
	return o.written(object, ledger)
}

// written returns the object with another ledger.
func (o Object) written(object runtime.Object, ledger []byte) (runtime.Object, error) {
	about, err := meta.Accessor(object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	annotations := maps.Clone(about.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[ledgerobject.ReplacedAnnotation] = cmp.Or(about.GetResourceVersion(), "0") + " " + strconv.FormatUint(rand.Uint64(), 36)
	about.SetAnnotations(annotations)
	o.SetLedger(object, ledger)
	return object, nil
}
