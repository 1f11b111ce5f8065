package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/bench/upstream/internal/latency"
	"github.com/rangekeeper/rangekeeper/controlplane/localcluster"
)

// side is one of the two programs.
type side struct {
	name, program string
	flags         []string
}

// takeTurn starts a server on an empty etcd and measures the works, one after the other.
func (c cluster) takeTurn(ctx context.Context, s side, dir string) (all []measurement, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // if it fails, so does the next turn
	program, err := filepath.Abs(s.program)
	if err != nil {
		return nil, err
	}
	running, err := localcluster.Start(ctx, localcluster.Config{
		Dir: dir, Program: program, Servers: 1, SecurePort: securePort, Flags: s.flags,
		ServiceClusterIPRange: c.clusterIPRange, ServiceNodePortRange: nodePortRange, EndpointReconcilerType: "lease",
	})
	if err != nil {
		return nil, err
	}
	defer running.Stop() // if it fails, so does the next turn
	config, err := clientcmd.BuildConfigFromFlags("", running.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	etcd, err := clientv3.New(clientv3.Config{Endpoints: running.EtcdEndpoints(), Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer etcd.Close()
	for _, work := range c.works {
		m, err := work.measure(ctx, config, etcd)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", work.name, s.name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

const securePort = 16443

// measure lets clients create or delete Services concurrently.
func (w work) measure(ctx context.Context, config *rest.Config, etcd *clientv3.Client) (measurement, error) {
	clients := make([]*kubernetes.Clientset, w.clients)
	for i := range clients {
		own := *config
		own.Dial = newDialer() // a connection per client, as for clients in different processes
		client, err := kubernetes.NewForConfig(&own)
		if err != nil {
			return measurement{}, err
		}
		clients[i] = client
		if _, err := client.Discovery().ServerVersion(); err != nil { // connects
			return measurement{}, err
		}
	}
	before, err := readCounters(ctx, clients[0], etcd)
	if err != nil {
		return measurement{}, err
	}

	do := w.create
	if w.deletes {
		if do, err = w.deletion(ctx, clients[0]); err != nil {
			return measurement{}, err
		}
	}
	latencies := make([]time.Duration, w.services)
	failures := make([]error, w.clients)
	var next atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for c, client := range clients {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(w.services) && failures[c] == nil; i = next.Add(1) - 1 {
				begin := time.Now()
				failures[c] = do(ctx, client, i)
				latencies[i] = time.Since(begin)
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	for _, err := range failures {
		if err != nil {
			return measurement{}, err
		}
	}

	after, err := readCounters(ctx, clients[0], etcd)
	if err != nil {
		return measurement{}, err
	}
	slices.Sort(latencies)
	n := float64(w.services)
	m := measurement{
		Ops:         n / took.Seconds(),
		P50:         latency.Percentile(latencies, 0.5),
		P99:         latency.Percentile(latencies, 0.99),
		Bytes:       float64(after.size-before.size) / n,
		CPU:         (after.cpu - before.cpu) * 1000 / n,
		RangeWrites: float64(after.rangeWrites-before.rangeWrites) / n,
		Reads:       (after.reads - before.reads) / n,
	}
	if swaps := after.swaps - before.swaps; swaps > 0 {
		m.PerSwap = (after.operations - before.operations) / swaps
	}
	return m, nil
}

// deletion returns a function that deletes one of the Services of the work's type per call.
func (w work) deletion(ctx context.Context, client *kubernetes.Clientset) (func(context.Context, *kubernetes.Clientset, int64) error, error) {
	list, err := client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, service := range list.Items {
		if service.Spec.Type == w.serviceType && service.GenerateName != "" {
			names = append(names, service.Name)
		}
	}
	if len(names) < w.services {
		return nil, fmt.Errorf("found %d Services to delete, expected %d", len(names), w.services)
	}
	return func(ctx context.Context, client *kubernetes.Clientset, i int64) error {
		return client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, names[i], metav1.DeleteOptions{})
	}, nil
}

func (w work) create(ctx context.Context, client *kubernetes.Clientset, i int64) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("service-%d-", i), Namespace: metav1.NamespaceDefault},
		Spec:       corev1.ServiceSpec{Type: w.serviceType, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
	return err
}
