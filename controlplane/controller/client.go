package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// client is one of the core group, which has Services and Events, and of no other kinds.
type client struct {
	rest.Interface
	// scheme has the kinds of the group.
	scheme     *runtime.Scheme
	parameters runtime.ParameterCodec
}

func newClient(config *rest.Config) (*client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	api, err := rest.RESTClientFor(config)
	return &client{api, scheme, runtime.NewParameterCodec(scheme)}, err
}

// servicesOf returns those of a namespace.
func (c *client) servicesOf(namespace string) *gentype.Client[*corev1.Service] {
	return gentype.NewClient("services", c.Interface, c.parameters, namespace, func() *corev1.Service { return new(corev1.Service) })
}

// eventsOf returns those of a namespace.
func (c *client) eventsOf(namespace string) *gentype.Client[*corev1.Event] {
	return gentype.NewClient("events", c.Interface, c.parameters, namespace, func() *corev1.Event { return new(corev1.Event) })
}
