package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	benchTenants  = 5000
	benchServices = 100
)

// BenchmarkPasses repairs 10,000 ranges of 5,000 tenants as fast as it can, each tenant with 100 Services in etcd,
// which its pass lists and decodes. The CPU time is that of the fleet, its clients and etcd, which are in one process.
//
//	go test -run '^$' -bench Passes -benchtime 1x ./fleet
func BenchmarkPasses(b *testing.B) {
	etcd, err := embedded.Start(b.Context(), embedded.Config{Dir: filepath.Join(b.TempDir(), "etcd")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(etcd.Close)
	c := &cluster{client: etcd.Client()}
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	storeServices(b, c.client, codec)
	var ended atomic.Int64
	var wrong sync.Map
	done := make(chan struct{}, 1)
	f := must(New(Config{Interval: time.Hour, Timeout: time.Minute, Parallel: 8, Passed: func(pass Pass) {
		if pass.Err != nil || pass.Result.Services != benchServices {
			wrong.Store(pass.Tenant, pass)
		}
		if ended.Add(1)%benchTenants == 0 {
			done <- struct{}{}
		}
	}}))
	before := used()
	for i := range benchTenants {
		tenant := c.tenant(fmt.Sprint("t", i))
		tenant.Ranges[0].Range = must(rangekeeper.ParseCIDR("10.0.0.0/16"))
		prefix := fmt.Sprintf("/t%d/services/specs/", i%benchStored)
		tenant.Services = func(ctx context.Context, at int64) ([]*corev1.Service, int64, error) {
			return list(ctx, c.client, codec, prefix, at)
		}
		if err := f.Add(tenant); err != nil {
			b.Fatal(err)
		}
	}
	stop := run(f)
	round := func() {
		f.mu.Lock()
		for _, one := range f.due {
			one.due = time.Now()
		}
		f.notify()
		f.mu.Unlock()
		<-done
	}
	round() // creates the ranges
	began, cpu := time.Now(), cpuTime()
	for b.Loop() {
		round()
	}
	rounds := float64(b.N)
	b.ReportMetric((cpuTime()-cpu).Seconds()/rounds, "CPU-s/round")
	b.ReportMetric(time.Since(began).Seconds()/rounds, "s/round")
	stop()
	b.ReportMetric(float64(used()-before)/(2*benchTenants), "B/range")
	wrong.Range(func(_, pass any) bool { b.Errorf("%+v", pass); return false })
	if err := f.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

// benchStored is how many tenants have Services of their own in etcd: the others list these, each for itself.
const benchStored = 100

func storeServices(b *testing.B, client *clientv3.Client, codec runtime.Encoder) {
	for i := range benchStored {
		var puts []clientv3.Op
		for j := range benchServices {
			ip := fmt.Sprintf("10.0.1.%d", j)
			name := fmt.Sprint("service", j)
			value, err := runtime.Encode(codec, &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "0a4c9b1e-3a52-4c59-9a8e-5f7a0e3f1d2b", Labels: map[string]string{"app": name}},
				Spec: corev1.ServiceSpec{
					Type: corev1.ServiceTypeNodePort, ClusterIP: ip, ClusterIPs: []string{ip}, Selector: map[string]string{"app": name},
					Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: int32(30000 + j), Protocol: corev1.ProtocolTCP}},
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/t%d/services/specs/default/%s", i, name), string(value)))
		}
		if _, err := client.Txn(b.Context()).Then(puts...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// list lists Services as an API server does, from etcd.
func list(ctx context.Context, client *clientv3.Client, codec runtime.Decoder, prefix string, at int64) (all []*corev1.Service, revision int64, err error) {
	got, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(at))
	if err != nil {
		return nil, 0, err
	}
	for _, kv := range got.Kvs {
		service := new(corev1.Service)
		if _, _, err := codec.Decode(kv.Value, nil, service); err != nil {
			return nil, 0, err
		}
		all = append(all, service)
	}
	return all, max(at, got.Header.Revision), nil
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
