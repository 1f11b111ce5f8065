package ipaddress_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/rangekeeper/rangekeeper/controlplane/ipaddress"
)

// The clientset is that of an API server with IPAddress and ServiceCIDR objects; here it is an imitation.
func Example() {
	var client kubernetes.Interface = fake.NewClientset(&networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/30"}},
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	factory := informers.NewSharedInformerFactory(client, 0)
	addresses, err := ipaddress.New(ipaddress.Options{
		Family:       corev1.IPv4Protocol,
		Client:       client.NetworkingV1().IPAddresses(),
		ServiceCIDRs: factory.Networking().V1().ServiceCIDRs(),
		IPAddresses:  factory.Networking().V1().IPAddresses(),
		StartTimeout: 30 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer addresses.Close()
	metrics, err := ipaddress.NewMetrics(prometheus.DefaultRegisterer)
	if err != nil {
		log.Fatal(err)
	}
	addresses.Record(metrics)
	factory.Start(ctx.Done())

	owner := networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}
	for range 3 {
		object, err := addresses.AllocateNext(ctx, &owner)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(object.Name, "belongs to", object.Spec.ParentRef.Name)
	}
	// Unordered output:
	// 10.96.0.1 belongs to web
	// 10.96.0.2 belongs to web
	// the range is full
}
