package storage

import (
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// newRaw returns a storage without a watch cache, and a function that closes it and not the client.
func newRaw(client *kubernetes.Client, c *storagebackend.ConfigForResource, newObject, newList func() runtime.Object, prefix string, decoder etcd3.Decoder) (storage.Interface, func(), error) {
	return etcd3.New(client, c.Codec, newObject, newList, c.Prefix, prefix, c.GroupResource, c.Transformer, c.LeaseManagerConfig, decoder, storage.APIObjectVersioner{}), func() {}, nil
}
