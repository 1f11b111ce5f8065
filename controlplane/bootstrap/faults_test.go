package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// reportedOnce checks that of each work each reason was reported at most once, and its end.
func reportedOnce(t *testing.T, log *syncBuffer) {
	t.Helper()
	seen := map[string]int{}
	for line := range strings.Lines(log.String()) {
		_, about, ok := strings.Cut(line, "work=")
		if !ok {
			continue
		}
		fields := strings.Fields(about)
		what := fields[0]
		if strings.Contains(line, "works again") {
			what += " works again"
		} else {
			what += " " + fields[1]
		}
		if seen[what]++; seen[what] == 2 {
			t.Errorf("reported more than once: %s", line)
		}
	}
}

// TestServerRefuses has two of three controllers talk to a server that answers 429 or 500
// to everything for a while: it lives, so it stays listed, and all works again by itself.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, etcd *embedded.Etcd, s *apiservertest.Server, client *kubernetes.Clientset) {
		t.Parallel()
		api := s.RESTConfig(apiservertest.Admin)
		// A request may take some seconds, and a lease may miss a turn, on a machine that does much else.
		periods := bootstrap.Periods{Endpoints: 4 * time.Second, LeaseTTL: 12 * time.Second, Namespaces: time.Second, Repairs: 5 * time.Second}
		addresses := []string{"192.0.2.11", "192.0.2.12", "192.0.2.13"}
		startHost(t, etcd, api, bootstrap.Config{AdvertiseAddress: addresses[0], Periods: periods})
		eventually(t, kubernetesObjects(t, client, addresses[0]))
		var fronts []*bootstrap.Frontend
		var hosts []*host
		for _, address := range addresses[1:] {
			front, config := bootstrap.StartFrontend(t, api, func(*http.Request) bool { return true })
			fronts = append(fronts, front)
			hosts = append(hosts, startHost(t, etcd, config, bootstrap.Config{AdvertiseAddress: address, Periods: periods}))
		}
		eventually(t, kubernetesObjects(t, client, addresses...))
		var before []int // how much was said at the start
		for _, h := range hosts {
			eventually(t, func() error {
				if !h.controller.Started() {
					return errors.New("not started")
				}
				return nil
			})
			eventually(t, h.works("kubernetesService", "namespaces", "repairNodePorts", "repairClusterIPs"))
			before = append(before, h.said())
		}
		began := must(etcd.Client().Get(t.Context(), endpointsKey)).Header.Revision
		for i, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
			fronts[i].Answer(code)
		}
		time.Sleep(periods.LeaseTTL + periods.Endpoints) // longer than a lease lives
		if err := leases(t, etcd, addresses...)(); err != nil {
			t.Error(err)
		}
		works := []string{"kubernetesService", "namespaces"} // repairs of node ports need etcd only
		for i, front := range fronts {
			eventually(t, func() error {
				if n := front.Answered(); n < 10 {
					return fmt.Errorf("only %d requests were refused", n)
				}
				return nil
			})
			for _, work := range works {
				eventually(t, hosts[i].fails(work, before[i]))
			}
			front.Answer(0)
		}
		must(etcd.Client().Delete(t.Context(), endpointsKey))
		eventually(t, kubernetesObjects(t, client, addresses...))
		for i, h := range hosts {
			for _, work := range works {
				eventually(t, func() error {
					if h.since(before[i]).said("works again", "work="+work) == 0 {
						return fmt.Errorf("%s does not work again", work)
					}
					return nil
				})
			}
			if n := h.since(before[i]).said("failed; retrying", "work=kubernetesService", "reason=unavailable"); n != 1 {
				t.Errorf("reported %d times", n)
			}
			reportedOnce(t, h.since(before[i]))
		}
		for _, version := range versions(t, etcd.Client(), began) {
			if version != nil && len(version) != len(addresses) {
				t.Errorf("%v was written", version)
			}
		}
	})
}

// TestEtcdStopped stops etcd for 30 s beneath an API server and two processes: killed,
// so that nobody listens, or paused, so that nobody answers. They recover by themselves
// and report it once; the same when the API server is killed.
func TestEtcdStopped(t *testing.T) {
	t.Parallel()
	const away = 30 * time.Second
	for _, c := range []struct {
		name        string
		version     apiservertest.Version
		stop, start func(*etcdtest.Cluster)
		// extended reports that leases were extended.
		extended bool
	}{
		{"killed", apiservertest.V1_32, func(c *etcdtest.Cluster) { c.Kill(0) }, func(c *etcdtest.Cluster) { c.Restart(0) }, true},
		{"paused", apiservertest.Newest, func(c *etcdtest.Cluster) { c.Pause(0) }, func(c *etcdtest.Cluster) { c.Resume(0) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.StartCluster(t, 1)
			direct := must(clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: etcd.Endpoints()}))
			defer direct.Close()
			s := apiservertest.Start(t, apiservertest.Config{
				Version: c.version, Etcd: etcd.Endpoints(), ServiceClusterIPRange: clusterIPRange, ServiceNodePortRange: nodePortRange,
			})
			config := rest.CopyConfig(s.RESTConfig(apiservertest.Admin))
			config.WarningHandler = rest.NoWarnings{}
			client := must(kubernetes.NewForConfig(config))
			start := processes(t, etcd.Endpoints(), s)
			addresses := []string{"192.0.2.11", "192.0.2.12"}
			var all []*process
			for i, address := range addresses {
				all = append(all, start(address))
				eventually(t, kubernetesObjects(t, client, addresses[:i+1]...))
			}
			for _, p := range all {
				eventually(t, func() error {
					if p.said("the first repairs have succeeded") == 0 {
						return errors.New("not started")
					}
					return nil
				})
			}
			began := must(direct.Get(t.Context(), endpointsKey)).Header.Revision
			var before []int // how much was said at the start
			for _, p := range all {
				eventually(t, p.works("kubernetesService", "namespaces"))
				before = append(before, p.said())
			}
			// saidSince counts lines, but for those of the repairs, whose passes may fall into an outage.
			saidSince := func(i int) int {
				later := all[i].since(before[i])
				return later.said() - later.said("work=repair")
			}
			c.stop(etcd)
			time.Sleep(away)
			for i, p := range all {
				eventually(t, p.fails("kubernetesService", before[i]))
			}
			c.start(etcd)
			// A lease that was just refreshed outlives a round by so much; so long a connection may be away.
			answers := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := direct.Get(ctx, endpointsKey)
				return err
			}
			// etcd itself may need a while, which a client shows that has not failed to connect before.
			fresh := must(clusterstate.Connect(t.Context(), clusterstate.ConnectOptions{Endpoints: etcd.Endpoints(), DialTimeout: patience}))
			fresh.Close()
			restarted := time.Now()
			eventually(t, answers)
			if took := time.Since(restarted); took > leaseTTL-endpointsPeriod {
				t.Errorf("connected again only after %v", took)
			}
			for i, p := range all {
				eventually(t, func() error {
					if p.since(before[i]).said("works again", "work=kubernetesService") == 0 {
						return errors.New("it does not recover")
					}
					return nil
				})
			}
			recovered := time.Since(restarted)
			eventually(t, kubernetesObjects(t, client, addresses...))
			stored := func() []*mvccpb.KeyValue {
				return must(direct.Get(t.Context(), leaseDirectory, clientv3.WithPrefix())).Kvs
			}
			eventually(t, func() error {
				if n := len(stored()); n != 2 {
					return fmt.Errorf("%d leases", n)
				}
				return nil
			})
			for i, p := range all {
				reportedOnce(t, p.since(before[i]))
				// Two works, unanswered and refused by the API server, each with its end; and nothing else.
				if n := saidSince(i); n < 2 || n > 6 {
					t.Errorf("%d lines about an outage", n)
				}
			}
			// An API server may find etcd again only when leases have run out: it answers nobody until then.
			ranOut := slices.ContainsFunc(stored(), func(kv *mvccpb.KeyValue) bool { return kv.CreateRevision > began })
			if c.extended && !ranOut {
				neverDropped(t, direct, began, addresses...)
			} else {
				t.Logf("recovered after %v", recovered)
			}

			// Then the API server goes, for longer than leases live.
			for i, p := range all {
				before[i] = p.said()
			}
			s.Kill()
			eventually(t, func() error {
				if n := len(stored()); n > 0 {
					return fmt.Errorf("%d leases of a server that is gone", n)
				}
				return nil
			})
			must(direct.Delete(t.Context(), endpointsKey))
			s.Restart()
			eventually(t, kubernetesObjects(t, client, addresses...))
			for i := range all {
				if n := saidSince(i); n > 6 {
					t.Errorf("%d lines about another outage", n)
				}
			}
		})
	}
}
