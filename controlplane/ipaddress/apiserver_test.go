package ipaddress

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestBesideKubeAPIServer allocates from one ServiceCIDR by two allocators and by the stock server itself, whose
// clients create Services, until no address is free. Nobody may lose a creation, and each address must have one owner.
func TestBesideKubeAPIServer(t *testing.T) {
	const addresses = 1<<(32-24) - 2
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), ServiceClusterIPRange: "10.9.0.0/24", OwnLoops: true})
	config := server.RESTConfig(apiservertest.Admin)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var allocators []*Allocator
	for range 2 {
		factory := informers.NewSharedInformerFactory(client, 0)
		a, err := New(Options{
			Family:       corev1.IPv4Protocol,
			Client:       client.NetworkingV1().IPAddresses(),
			ServiceCIDRs: factory.Networking().V1().ServiceCIDRs(),
			IPAddresses:  factory.Networking().V1().IPAddresses(),
			StartTimeout: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		t.Cleanup(func() { a.Close() })
		allocators = append(allocators, a)
	}

	var mu sync.Mutex
	owners := make(map[string]string)
	own := func(address, owner string) {
		mu.Lock()
		defer mu.Unlock()
		if other, ok := owners[address]; ok {
			t.Errorf("%s has %s, and %s has it, too", owner, address, other)
		}
		owners[address] = owner
	}
	kubernetesService, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	for ; err != nil; kubernetesService, err = client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{}) {
		time.Sleep(100 * time.Millisecond) // the server creates it after its start
	}
	own(kubernetesService.Spec.ClusterIP, kubernetesService.Name)
	var group sync.WaitGroup
	// Nobody goes on before all have one address, so that no side can be so slow that it gets none.
	var first sync.WaitGroup
	first.Add(8 + 2)
	for i := range 8 {
		a := allocators[i%2]
		group.Go(func() {
			hasOne := sync.OnceFunc(first.Done)
			defer hasOne()
			for n := 0; ; n++ {
				owner := networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: fmt.Sprintf("own-%d-%d", i, n)}
				object, err := a.AllocateNext(ctx, &owner)
				if errors.Is(err, rangekeeper.ErrFull) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				own(object.Name, owner.Name)
				hasOne()
				first.Wait()
			}
		})
	}
	for i := range 2 {
		group.Go(func() {
			hasOne := sync.OnceFunc(first.Done)
			defer hasOne()
			for n := range addresses {
				service := &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("stock-%d-%d", i, n)},
					Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
				}
				created, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
				if err != nil { // the range is full
					return
				}
				own(created.Spec.ClusterIP, created.Name)
				hasOne()
				first.Wait()
			}
		})
	}
	group.Wait()
	if len(owners) != addresses {
		t.Errorf("%d of %d addresses have an owner", len(owners), addresses)
	}
	var stock, ours int
	for address, owner := range owners {
		object, err := client.NetworkingV1().IPAddresses().Get(ctx, address, metav1.GetOptions{})
		if err != nil || object.Spec.ParentRef.Name != owner {
			t.Errorf("%s should refer to %s: %v, error: %v", address, owner, object, err)
			continue
		}
		if owner[0] == 's' {
			stock++
		} else {
			ours++
		}
	}
	t.Logf("%d addresses allocated by the allocators, %d by the server", ours, stock)
	if stock == 0 || ours == 0 {
		t.Error("one side has allocated nothing")
	}

	// Release some, of which one belongs to a later allocation and one to another owner.
	var released int
	for address, owner := range owners {
		object, err := client.NetworkingV1().IPAddresses().Get(ctx, address, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ref, asOf := *object.Spec.ParentRef, revisionOf(object)
		switch {
		case owner == "own-0-0":
			asOf--
		case owner == "own-1-0":
			ref.Name = "another"
		case owner[0] == 'o':
			released++
		default:
			continue
		}
		if err := allocators[0].Release(ctx, netip.MustParseAddr(address), ref, asOf); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "only those that may be released are free", func() bool {
		usage := allocators[1].Usage()
		return usage[0].Free == uint64(released) && released == ours-3 // the two, and that of the Service kubernetes
	})
}
