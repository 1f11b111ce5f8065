package e2e

import (
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestLeaderStops pauses the leader of an etcd of three members, as a stalled machine does, and kills the next one,
// while clients work over three servers. The other members elect a leader and go on.
func TestLeaderStops(t *testing.T) { onNewest(t, testLeaderStops) }

func testLeaderStops(t *testing.T, version apiservertest.Version) {
	rounds, stopped, between, pause := 1, 5*time.Second, 3*time.Second, 50*time.Millisecond
	if isLong {
		rounds, stopped, between, pause = 4, 15*time.Second, 10*time.Second, 20*time.Millisecond
	}
	etcd := etcdtest.StartCluster(t, 3)
	servers := startOn(t, etcd.Endpoints(), version, true, 3)
	c := startChurn(t, pause, servers...)
	for range rounds {
		time.Sleep(between)
		leader := etcd.Leader()
		etcd.Pause(leader)
		if next := etcd.Leader(); next == leader {
			t.Errorf("member %d leads, which is paused", leader)
		}
		time.Sleep(stopped)
		etcd.Resume(leader)
		time.Sleep(between)
		leader = etcd.Leader()
		etcd.Kill(leader)
		time.Sleep(stopped)
		etcd.Restart(leader)
	}
	time.Sleep(between)
	c.awaitProgress(t)
	c.stop()
	t.Log(c)
	checkHistory(t, etcd.Client())
	ports, addresses := leaks(t, etcd.Client())
	t.Logf("%d node ports and %d addresses leaked", len(ports), len(addresses))
}
