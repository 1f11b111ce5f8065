package reconcilers

import (
	"bytes"
	"context"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

// withKeys returns a configuration of a storage that names each lease after its key and reads every value.
//
// A storage returns objects without their keys, and no object at all if one of them cannot be decoded. But a lease's
// key names its owner, even if its value does not. So the transformer, which has the key, puts its last part before
// each value, between two zero bytes: no value of Kubernetes begins with one. The codec makes it the name of the
// object, which is empty in every lease.
func withKeys(config storagebackend.ConfigForResource) storagebackend.ConfigForResource {
	if config.Transformer == nil {
		config.Transformer = identity.NewEncryptCheckTransformer()
	}
	config.Transformer = keyTransformer{config.Transformer}
	config.Codec = keyCodec{config.Codec}
	return config
}

type keyTransformer struct{ value.Transformer }

func (t keyTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	plain, stale, err := t.Transformer.TransformFromStorage(ctx, data, dataCtx)
	if err != nil {
		// The encryption key is missing. Treat the value like any other that cannot be decoded.
		plain, stale = nil, true
	}
	key := path.Base(string(dataCtx.AuthenticatedData()))
	return bytes.Join([][]byte{nil, []byte(key), plain}, []byte{0}), stale, nil
}

type keyCodec struct{ runtime.Codec }

func (c keyCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if len(data) == 0 || data[0] != 0 {
		// A lease that was just encoded does not come from the storage.
		return c.Codec.Decode(data, defaults, into)
	}
	key, plain, _ := bytes.Cut(data[1:], []byte{0})
	lease, ok := into.(*corev1.Endpoints)
	if !ok { // a watch has none
		lease = &corev1.Endpoints{}
	}
	_, kind, err := c.Codec.Decode(plain, defaults, lease)
	if err != nil {
		*lease = corev1.Endpoints{}
	}
	lease.Name = string(key)
	return lease, kind, nil
}
