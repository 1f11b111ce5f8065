package reconcilers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"
)

// EndpointsAdapter reads and writes Endpoints with at most one subset, and the EndpointSlice of the same name and
// content.
type EndpointsAdapter struct {
	endpoints corev1client.EndpointsGetter
	slices    discoveryclient.EndpointSlicesGetter
}

// NewEndpointsAdapter returns an EndpointsAdapter.
func NewEndpointsAdapter(endpointClient corev1client.EndpointsGetter, endpointSliceClient discoveryclient.EndpointSlicesGetter) EndpointsAdapter {
	return EndpointsAdapter{endpoints: endpointClient, slices: endpointSliceClient}
}

// Get reads Endpoints.
func (a *EndpointsAdapter) Get(namespace, name string, options metav1.GetOptions) (*corev1.Endpoints, error) {
	return a.endpoints.Endpoints(namespace).Get(context.Background(), name, options)
}

// Create creates Endpoints, then creates or updates their slice. It returns the stored Endpoints.
func (a *EndpointsAdapter) Create(namespace string, endpoints *corev1.Endpoints) (*corev1.Endpoints, error) {
	return a.write(namespace, endpoints, func() (*corev1.Endpoints, error) {
		return a.endpoints.Endpoints(namespace).Create(context.Background(), endpoints, metav1.CreateOptions{})
	})
}

// Update updates Endpoints, then creates or updates their slice. It returns the stored Endpoints.
func (a *EndpointsAdapter) Update(namespace string, endpoints *corev1.Endpoints) (*corev1.Endpoints, error) {
	return a.write(namespace, endpoints, func() (*corev1.Endpoints, error) {
		return a.endpoints.Endpoints(namespace).Update(context.Background(), endpoints, metav1.UpdateOptions{})
	})
}

// write reads the slice before it writes the Endpoints. If another client writes both in between, the write of the
// slice conflicts and does not reset it.
func (a *EndpointsAdapter) write(namespace string, endpoints *corev1.Endpoints, write func() (*corev1.Endpoints, error)) (*corev1.Endpoints, error) {
	slice, err := a.slice(namespace, endpoints.Name)
	if err != nil {
		return nil, err
	}
	written, err := write()
	if err != nil {
		return written, err
	}
	return written, a.ensureSlice(namespace, written, slice)
}

// EnsureEndpointSliceFromEndpoints creates or updates the slice so that it matches these Endpoints.
func (a *EndpointsAdapter) EnsureEndpointSliceFromEndpoints(namespace string, endpoints *corev1.Endpoints) error {
	slice, err := a.slice(namespace, endpoints.Name)
	if err != nil {
		return err
	}
	return a.ensureSlice(namespace, endpoints, slice)
}

func (a *EndpointsAdapter) ensureSlice(namespace string, endpoints *corev1.Endpoints, slice *discoveryv1.EndpointSlice) error {
	change, err := bootstrapplan.Slice(bootstrapplan.SliceQuestion{Endpoints: endpoints, Slice: slice})
	if err != nil {
		return err
	}
	return change.Make(context.Background(), a.slices.EndpointSlices(namespace), slice)
}

// slice reads the slice; nil if there is none.
func (a *EndpointsAdapter) slice(namespace, name string) (*discoveryv1.EndpointSlice, error) {
	slice, err := a.slices.EndpointSlices(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil, nil
	}
	return slice, err
}
