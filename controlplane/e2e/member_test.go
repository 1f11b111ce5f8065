package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestLeaderStops pauses the leader of an etcd of three members, as a stalled machine does, and kills the next one,
// while clients work over three servers. The other members elect a leader and go on. One server after the other is
// paused as well, for longer than its grace, while its requests wait in a webhook and another repair runs beside those
// of the servers.
func TestLeaderStops(t *testing.T) { onNewest(t, testLeaderStops) }

func testLeaderStops(t *testing.T, version apiservertest.Version) {
	rounds, stopped, grace, between, pause := 1, 5*time.Second, stormGrace, 3*time.Second, 50*time.Millisecond
	if isLong {
		rounds, stopped, grace, between, pause = 6, 15*time.Second, shortTimeout, 10*time.Second, 20*time.Millisecond
	}
	etcd := etcdtest.StartCluster(t, 3)
	servers := startOn(t, etcd.Endpoints(), version, true, 3, "--request-timeout="+grace.String())
	startWebhook(t, newWorkload(0, servers...).servers, func() { time.Sleep(rand.N(grace / 8)) })
	ctx, cancel := context.WithCancel(t.Context())
	var repairs sync.WaitGroup
	repairs.Go(func() { repairOften(ctx, t, etcd.Client(), version, "10.96.0.0/16", churnPorts, grace) })
	c := startChurn(t, pause, servers...)
	for round := range rounds {
		server := servers[round%len(servers)]
		time.Sleep(between)
		leader := etcd.Leader()
		etcd.Pause(leader)
		server.Pause()
		if next := etcd.Leader(); next == leader {
			t.Errorf("member %d leads, which is paused", leader)
		}
		time.Sleep(stopped)
		etcd.Resume(leader)
		server.Resume()
		time.Sleep(between)
		leader = etcd.Leader()
		etcd.Kill(leader)
		time.Sleep(stopped)
		etcd.Restart(leader)
	}
	time.Sleep(between)
	c.awaitProgress(t)
	c.stop()
	cancel()
	repairs.Wait()
	t.Log(c)
	checkHistory(t, etcd.Client())
	ports, addresses := leaks(t, etcd.Client())
	t.Logf("%d node ports and %d addresses leaked", len(ports), len(addresses))
}
