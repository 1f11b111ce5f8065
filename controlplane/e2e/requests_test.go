package e2e

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
)

// TestRequests runs tests of requests on the two servers of one cluster, one after the other. Each leaves Services
// behind: those that name their values come first.
func TestRequests(t *testing.T) {
	onEachVersion(t, func(t *testing.T, version apiservertest.Version) {
		etcd, servers := startServers(t, version, 2)
		for _, c := range []struct {
			name string
			test func(*testing.T, *clientv3.Client, []*apiservertest.Server)
		}{
			{"ExternalNameWithNodePort", testExternalNameWithNodePort},
			{"SecondFamilyRefused", testSecondFamilyRefused},
			{"Contention", testContention},
			{"UpdateConflict", testUpdateConflict},
			{"CreateDisconnect", testCreateDisconnect},
		} {
			t.Run(c.name, func(t *testing.T) { c.test(t, etcd, servers) })
		}
	})
}
