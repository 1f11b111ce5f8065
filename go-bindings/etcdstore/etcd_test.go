package etcdstore

import (
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// endpointsVariable says where the etcd of the tests is, as for etcdctl. `make test-go` starts one. All tests that need
// no part of the package that is private are in controlplane/etcdstoretest, beside an etcd server of their own.
const endpointsVariable = "ETCDCTL_ENDPOINTS"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// endpoint returns where an etcd is. Other tests use it as well.
func endpoint(t *testing.T) string {
	endpoints := os.Getenv(endpointsVariable)
	if endpoints == "" {
		t.Skip(endpointsVariable + " is not set")
	}
	return strings.Split(endpoints, ",")[0]
}

func connect(t *testing.T, endpoint string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// keyOf is a key that only this test uses.
func keyOf(t *testing.T) string {
	return "/test/" + t.Name()
}
