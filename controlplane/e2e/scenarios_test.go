package e2e

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// scenario is a Service with a node port or a ClusterIP that other Services are to be created with, and the requests
// that make it release this value.
type scenario struct {
	name string
	spec corev1.ServiceSpec
	// isTerminating means that the Service is deleted before the requests, and only its finalizer is left.
	isTerminating bool
	// keepsValue means that the Service still has the value after the requests.
	keepsValue bool
	// requests are sent at the same time.
	requests []request
}

type request func(ctx context.Context, services typedv1.ServiceInterface, service *corev1.Service) error

var (
	// sharedNodePort has one port number for two protocols, as DNS and HTTP/3 do. Both get the same node port.
	sharedNodePort = corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{
		{Name: "tcp", Port: 53, Protocol: corev1.ProtocolTCP},
		{Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP},
	}}
	nodePort  = corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports("TCP")}
	clusterIP = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports("TCP")}
)

// finalizer is the last finalizer of a Service. Two clients remove it: by an update and a patch, or both by a patch of
// the status.
const finalizer = "example.com/last"

var (
	bySpec   = []request{updateFinalizers, patchFinalizers()}
	byStatus = []request{patchFinalizers("status"), patchFinalizers("status")}
)

var scenarios = []scenario{
	{name: "shared-node-port/deleted", spec: sharedNodePort, requests: []request{deleteService}},
	{name: "shared-node-port/changed-to-ClusterIP", spec: sharedNodePort, requests: []request{updateSpec(toType(corev1.ServiceTypeClusterIP))}},
	{name: "shared-node-port/UDP-dropped", spec: sharedNodePort, keepsValue: true, requests: []request{updateSpec(dropSecondPort)}},
	{name: "node-port/last-finalizer", spec: nodePort, isTerminating: true, requests: bySpec},
	{name: "node-port/last-finalizer-by-status", spec: nodePort, isTerminating: true, requests: byStatus},
	{name: "ClusterIP/last-finalizer", spec: clusterIP, isTerminating: true, requests: bySpec},
	{name: "ClusterIP/last-finalizer-by-status", spec: clusterIP, isTerminating: true, requests: byStatus},
}

func deleteService(ctx context.Context, services typedv1.ServiceInterface, service *corev1.Service) error {
	return services.Delete(ctx, service.Name, metav1.DeleteOptions{})
}

func updateSpec(change func(*corev1.ServiceSpec)) request {
	return func(ctx context.Context, services typedv1.ServiceInterface, service *corev1.Service) error {
		changed := service.DeepCopy()
		change(&changed.Spec)
		_, err := services.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	}
}

func dropSecondPort(s *corev1.ServiceSpec) { s.Ports = s.Ports[:1] }

func updateFinalizers(ctx context.Context, services typedv1.ServiceInterface, service *corev1.Service) error {
	changed := service.DeepCopy()
	changed.Finalizers = nil
	_, err := services.Update(ctx, changed, metav1.UpdateOptions{})
	return ignoreDeleted(err)
}

func patchFinalizers(subresources ...string) request {
	return func(ctx context.Context, services typedv1.ServiceInterface, service *corev1.Service) error {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := services.Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		return ignoreDeleted(err)
	}
}

// ignoreDeleted is for the client whose request comes after the deletion. An update has the UID as a precondition, so
// that it can also end with a conflict.
func ignoreDeleted(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
