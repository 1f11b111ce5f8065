package apiserver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Load is a number of requests that clients send, each one after the other.
type Load struct {
	Clients []*kubernetes.Clientset
	// Requests is the number of requests in all.
	Requests int
	// End, if set, is the time after which no further request is sent.
	End time.Time
	Do  Request
}

// Request sends request i of a [Load].
type Request func(ctx context.Context, client *kubernetes.Clientset, i int) error

// Create returns requests that each create a Service of a type. The server chooses the end of its name.
func Create(serviceType corev1.ServiceType) Request {
	return func(ctx context.Context, client *kubernetes.Clientset, i int) error {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("service-%d-", i), Namespace: metav1.NamespaceDefault},
			Spec:       corev1.ServiceSpec{Type: serviceType, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{})
		return err
	}
}

// Delete returns requests that each delete one of the Services of a type, of which there must be enough for a number of
// requests.
func Delete(ctx context.Context, client *kubernetes.Clientset, serviceType corev1.ServiceType, requests int) (Request, error) {
	list, err := client.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, service := range list.Items {
		if service.Spec.Type == serviceType && service.Name != "kubernetes" {
			names = append(names, service.Name)
		}
	}
	if len(names) < requests {
		return nil, fmt.Errorf("found %d Services to delete, expected %d", len(names), requests)
	}
	return func(ctx context.Context, client *kubernetes.Clientset, i int) error {
		return client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, names[i], metav1.DeleteOptions{})
	}, nil
}

// Run sends the requests. It returns the latencies of those that were sent, in increasing order, and the time of all.
// The first error of a client ends that client, and is returned when the others have ended.
func (l Load) Run(ctx context.Context) (latencies []time.Duration, took time.Duration, err error) {
	all := make([][]time.Duration, len(l.Clients))
	failures := make([]error, len(l.Clients))
	var next atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for c, client := range l.Clients {
		group.Go(func() {
			for failures[c] == nil && (l.End.IsZero() || time.Now().Before(l.End)) {
				i := int(next.Add(1) - 1)
				if i >= l.Requests {
					return
				}
				begin := time.Now()
				failures[c] = l.Do(ctx, client, i)
				all[c] = append(all[c], time.Since(begin))
			}
		})
	}
	group.Wait()
	took = time.Since(start)
	for _, err := range failures {
		if err != nil {
			return nil, took, err
		}
	}
	latencies = slices.Concat(all...)
	slices.Sort(latencies)
	return latencies, took, nil
}
