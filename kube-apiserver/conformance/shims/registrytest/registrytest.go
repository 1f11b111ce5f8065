// Package registrytest has the function of k8s.io/kubernetes/pkg/registry/registrytest that the released tests call.
// The copies of them import it instead. Its codec has the types of k8s.io/api, as no others are linked.
package registrytest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"
)

// NewEtcdStorage starts an etcd, and returns the configuration of a storage in it.
func NewEtcdStorage(t *testing.T, group string) (*storagebackend.ConfigForResource, *etcd3testing.EtcdTestServer) {
	t.Helper()
	server, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	config.Codec = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	return config.ForResource(schema.GroupResource{Group: group, Resource: "any"}), server
}
