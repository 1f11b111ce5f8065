package storage

import (
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// newRaw returns a storage without a watch cache, and a function that closes it and not the client.
func newRaw(client *kubernetes.Client, c *storagebackend.ConfigForResource, newObject, newList func() runtime.Object, prefix string, decoder etcd3.Decoder) (storage.Interface, func(), error) {
	transformer := c.Transformer
	if utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion) {
		transformer, decoder = etcd3.WithCorruptObjErrorHandlingTransformer(transformer), etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store := etcd3.New(client, nil, c.Codec, newObject, newList, c.Prefix, prefix, c.GroupResource, transformer, c.LeaseManagerConfig, decoder, storage.APIObjectVersioner{})
	return store, store.Close, nil
}
