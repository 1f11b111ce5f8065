// Package apiclient makes clients of an API server that know no kinds. The clients of package kubernetes in client-go
// know all, which more than doubles the size of a program and the time to compile it.
package apiclient

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Plain returns a client that decodes the errors of an API server, and leaves objects to its callers.
func Plain(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // Status
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}
