package app

import (
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	serviceallocator "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
)

// withRestoreCheck adds a check to /livez, which fails once etcd was restored under the running server: its watch
// caches have missed what the restored etcd has, and are right again after a restart. /readyz and /healthz do not have
// the check: a load balancer that follows them would take all servers of the cluster out at once.
func withRestoreCheck(server *aggregatorapiserver.APIAggregator) (*aggregatorapiserver.APIAggregator, error) {
	check := healthz.NamedCheck("rangekeeper-etcd-restored", func(*http.Request) error { return serviceallocator.Restored() })
	return server, server.GenericAPIServer.AddLivezChecks(0, check)
}
