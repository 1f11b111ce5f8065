package bootstrap_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// kubernetesObjects compares the Service kubernetes, its Endpoints and its EndpointSlice
// with what they are for these addresses, field by field but for what the API server
// adds and what belongs to others.
func kubernetesObjects(t *testing.T, client kubernetes.Interface, addresses ...string) func() error {
	https, tcp, port := "https", corev1.ProtocolTCP, int32(6443)
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: https, Port: port, Protocol: tcp}}}
	var inSlice []discoveryv1.Endpoint
	ready := true
	for _, address := range addresses {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: address})
		inSlice = append(inSlice, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	slicePorts := []discoveryv1.EndpointPort{{Name: &https, Port: &port, Protocol: &tcp}}
	servicePorts := []corev1.ServicePort{{Name: https, Protocol: tcp, Port: 443, TargetPort: intstr.FromInt32(port)}}
	return func() error {
		service, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := service.Spec; s.ClusterIP != "10.96.0.1" || s.Type != corev1.ServiceTypeClusterIP || len(s.Selector) > 0 ||
			!equality.Semantic.DeepEqual(s.Ports, servicePorts) {
			return fmt.Errorf("Service %+v", s)
		}
		e, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(e.Subsets, []corev1.EndpointSubset{subset}) || e.Labels["endpointslice.kubernetes.io/skip-mirror"] != "true" {
			return fmt.Errorf("Endpoints: labels %v, %+v; the addresses should be %v", e.Labels, e.Subsets, addresses)
		}
		// There is no other one of the Service, either.
		list, err := client.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Name != "kubernetes" || list.Items[0].AddressType != discoveryv1.AddressTypeIPv4 ||
			!equality.Semantic.DeepEqual(list.Items[0].Endpoints, inSlice) || !equality.Semantic.DeepEqual(list.Items[0].Ports, slicePorts) {
			return fmt.Errorf("EndpointSlices %+v; the addresses should be %v", list.Items, addresses)
		}
		return nil
	}
}
