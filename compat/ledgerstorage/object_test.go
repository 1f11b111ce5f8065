package ledgerstorage

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/ledgerobject"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore/ledgerstoretest"
)

func open(t *testing.T) storage.Interface {
	t.Helper()
	server, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	t.Cleanup(func() { server.Terminate(t) })
	config.Codec = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	resource := config.ForResource(corev1.Resource("configmaps"))
	objects, destroy, err := generic.NewRawStorage(resource, func() runtime.Object { return &corev1.ConfigMap{} }, nil, "/configmaps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return objects
}

func TestObject(t *testing.T) {
	objects := open(t)
	ledgerstoretest.Check(t, func(name string) ledgerstore.Store {
		return ConfigMap(objects, "/configmaps/kube-system/"+name, "kube-system", name)
	})
}

// TestOtherFields writes a ledger into an object that somebody else has created and changes: the rest of it stays, and
// a change of it refuses a write.
func TestOtherFields(t *testing.T) {
	const key = "/configmaps/kube-system/vnis"
	objects, ctx := open(t), t.Context()
	store := ConfigMap(objects, key, "kube-system", "vnis")
	created := store.New().(*corev1.ConfigMap)
	created.Labels, created.Annotations = map[string]string{"app": "vnis"}, map[string]string{"owner": "somebody"}
	created.BinaryData = map[string][]byte{"other": []byte("data")}
	if err := objects.Create(ctx, key, created, &corev1.ConfigMap{}, 0); err != nil {
		t.Fatal(err)
	}
	value, token, err := store.Get(ctx)
	if value != nil || token == nil || err != nil {
		t.Fatalf("%q, %q, %v", value, token, err)
	}
	if _, err := store.Put(ctx, []byte("first"), token); err != nil {
		t.Fatal(err)
	}
	value, token, err = store.Get(ctx)
	if !bytes.Equal(value, []byte("first")) || err != nil {
		t.Fatalf("%q, %v", value, err)
	}
	stored := &corev1.ConfigMap{}
	err = objects.GuaranteedUpdate(ctx, key, stored, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
		object.(*corev1.ConfigMap).Labels["more"] = "labels"
		return object, nil
	}), nil)
	if err != nil || stored.Labels["app"] != "vnis" || stored.Annotations["owner"] != "somebody" || stored.Name != "vnis" || string(stored.BinaryData["other"]) != "data" {
		t.Fatalf("%+v, %v", stored, err)
	}
	if _, err := store.Put(ctx, []byte("second"), token); err != ledgerstore.ErrChanged {
		t.Errorf("put over a changed object: %v", err)
	}
}

// TestOtherHistory has two storages that reach one resource version with different ledgers, as one that is restored
// from a backup does: neither takes the token of the other.
func TestOtherHistory(t *testing.T) {
	ctx := t.Context()
	var stores [2]ledgerstore.Store
	var tokens [2][]byte
	var versions [2]string
	for i := range stores {
		objects := open(t)
		stores[i] = ConfigMap(objects, "/configmaps/kube-system/vnis", "kube-system", "vnis")
		first, err := stores[i].Put(ctx, []byte("before"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if tokens[i], err = stores[i].Put(ctx, []byte{byte(i)}, first); err != nil {
			t.Fatal(err)
		}
		var stored corev1.ConfigMap
		if err := objects.Get(ctx, "/configmaps/kube-system/vnis", storage.GetOptions{}, &stored); err != nil {
			t.Fatal(err)
		}
		versions[i] = stored.ResourceVersion
	}
	if versions[0] != versions[1] {
		t.Fatalf("the objects have the resource versions %s and %s", versions[0], versions[1])
	}
	for i := range stores {
		if _, err := stores[i].Put(ctx, []byte("late"), tokens[1-i]); err != ledgerstore.ErrChanged {
			t.Errorf("put with the token of the other history: %v", err)
		}
		if value, token, err := stores[i].Get(ctx); !bytes.Equal(value, []byte{byte(i)}) || !bytes.Equal(token, tokens[i]) || err != nil {
			t.Errorf("%q, %q instead of %q, %v", value, token, tokens[i], err)
		}
	}
}

// TestTooLarge puts values that etcd refuses, and that its client does not send.
func TestTooLarge(t *testing.T) {
	store := ConfigMap(open(t), "/configmaps/kube-system/vnis", "kube-system", "vnis")
	token, err := store.Put(t.Context(), []byte("first"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1_200_000, 2_000_000} {
		for _, token := range [][]byte{nil, token} {
			if _, err := store.Put(t.Context(), make([]byte, size), token); !errors.Is(err, ledgerstore.ErrTooLarge) && (token != nil || err != ledgerstore.ErrChanged) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	}
}

// TestEmptiedField has somebody empty the field of a ledger, also of one that was written once only.
func TestEmptiedField(t *testing.T) {
	const key = "/configmaps/kube-system/vnis"
	objects, ctx := open(t), t.Context()
	store := ConfigMap(objects, key, "kube-system", "vnis")
	if _, err := store.Put(ctx, []byte("first"), nil); err != nil {
		t.Fatal(err)
	}
	change := func(change func(*corev1.ConfigMap)) {
		t.Helper()
		err := objects.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			change(object.(*corev1.ConfigMap))
			return object, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	change(func(object *corev1.ConfigMap) { object.BinaryData = nil })
	if value, _, err := store.Get(ctx); err == nil || !strings.Contains(err.Error(), ledgerobject.ReplacedAnnotation) {
		t.Errorf("%q, %v", value, err)
	}
	change(func(object *corev1.ConfigMap) { object.Annotations = nil })
	if value, token, err := store.Get(ctx); value != nil || token == nil || err != nil {
		t.Errorf("%q, %q, %v", value, token, err)
	}
}
