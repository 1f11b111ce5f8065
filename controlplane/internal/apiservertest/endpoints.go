package apiservertest

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// CheckEndpoints returns an error unless the Endpoints and the EndpointSlice of the Service kubernetes have just these
// addresses, in this order.
func CheckEndpoints(ctx context.Context, client kubernetes.Interface, want ...string) error {
	endpoints, err := client.CoreV1().Endpoints(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err
	}
	slice, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var inEndpoints, inSlice []string
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			inEndpoints = append(inEndpoints, address.IP)
		}
	}
	for _, endpoint := range slice.Endpoints {
		inSlice = append(inSlice, endpoint.Addresses...)
	}
	if !slices.Equal(inEndpoints, want) || !slices.Equal(inSlice, want) {
		return fmt.Errorf("Endpoints have %v, the slice %v, not %v", inEndpoints, inSlice, want)
	}
	return nil
}
