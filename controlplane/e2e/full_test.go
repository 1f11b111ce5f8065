package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// fullCIDRs have 13 and 14 free addresses, fewer than clients want.
const fullCIDRs = "10.96.0.0/28,fd00:10:96::/124"

// TestFullFamilies has clients want more addresses than both families have. They flip the family policies of Services
// on two servers, and a webhook delays writes. An older copy of etcd's data is put back, twice in a row, while one of
// the servers is stopped. After each of them no two Services may have the same address, and none one that is free.
func TestFullFamilies(t *testing.T) {
	t.Parallel() // it waits most of the time
	onNewest(t, testFullFamilies)
}

func testFullFamilies(t *testing.T, version apiservertest.Version) {
	part, rounds, pause := 2*time.Second, 1, 200*time.Millisecond
	if isLong {
		part, rounds, pause = 15*time.Second, 4, 50*time.Millisecond
	}
	etcd := etcdtest.StartCluster(t, 1)
	client := etcd.Client()
	var servers []*apiservertest.Server
	for i := range 2 {
		config := serverConfig(etcd.Endpoints(), version, true, i)
		config.ServiceClusterIPRange = fullCIDRs
		config.Flags = append(config.Flags, "--request-timeout="+shortTimeout.String()) // the grace of IPAddress objects
		servers = append(servers, startServer(t, config))
	}
	startWebhook(t, newWorkload(0, servers...).servers, func() { time.Sleep(rand.N(500 * time.Millisecond)) })
	c := startChurnOf(t, pause, ofFamilies, flipFamilies, servers...)
	for range rounds {
		time.Sleep(part)
		checkHistory(t, client)
		t.Logf("before the restore: %v", c)
		if c.full == 0 {
			t.Error("no family was full")
		}
		copied := etcd.CopyData(0)
		time.Sleep(part)
		c.reset()
		servers[1].Pause()
		etcd.PutBack(0, copied)
		time.Sleep(part / 2)
		etcd.PutBack(0, copied)
		time.Sleep(part)
		servers[1].Resume()
		time.Sleep(part)
		checkHistory(t, client)
		t.Logf("after the restore: %v", c)
		if isLong {
			// Their caches have the addresses of lost histories, which look used.
			for _, server := range servers {
				server.Restart()
			}
			c.reset()
			c.awaitProgress(t)
		}
	}
	c.stop()
	checkHistory(t, client)
	if isLong {
		awaitRepair(t, client)
	}
}

// ofFamilies returns the spec of a Service of one family, or of both.
func ofFamilies() corev1.ServiceSpec {
	spec := corev1.ServiceSpec{Ports: ports("TCP")}
	switch rand.IntN(4) {
	case 0:
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	case 1:
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	case 2:
		families(corev1.IPFamilyPolicyRequireDualStack)(&spec)
	case 3:
		families(corev1.IPFamilyPolicyPreferDualStack)(&spec)
	}
	return spec
}

// flipFamilies drops the second family of a Service, or gives it one.
func flipFamilies(s *corev1.ServiceSpec) {
	if len(s.ClusterIPs) == 2 {
		single(s)
	} else {
		families(corev1.IPFamilyPolicyRequireDualStack)(s)
	}
}
