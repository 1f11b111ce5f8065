package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiclient"
)

// resources are where the kinds are served.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":     {Version: "v1", Resource: "namespaces"},
	"Service":       {Version: "v1", Resource: "services"},
	"Endpoints":     {Version: "v1", Resource: "endpoints"},
	"EndpointSlice": {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

// serviceName is the name of the Service, of its Endpoints and of its EndpointSlice.
const serviceName = "kubernetes"

// cluster reads and writes objects through the API server, in the form of the core.
type cluster struct {
	api    dynamic.Interface
	server rest.Interface
	// watched say when an object changes, by its kind. Nothing is read of their caches: those of the API server, which
	// feed them, stay as they were when etcd is restored under it.
	watched map[string]cache.SharedIndexInformer
}

// transport hides from client-go after how long a server wants to be asked again: it would
// wait for that within the request, until the time for it is over. That the server
// answers is for the core to know, which refreshes the lease then, and waits itself.
type transport struct{ http.RoundTripper }

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

func newCluster(config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	server, err := apiclient.Plain(config)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	c := &cluster{api: api, server: server, watched: map[string]cache.SharedIndexInformer{}}
	// A change of these is repaired at once. Namespaces may be many.
	for _, kind := range []string{"Service", "Endpoints", "EndpointSlice"} {
		only := func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, serviceName).String()
		}
		of := api.Resource(resources[kind]).Namespace(metav1.NamespaceDefault)
		// What package dynamicinformer makes, which links the informers of all kinds.
		lister := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				only(&o)
				return of.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				only(&o)
				return of.Watch(ctx, o)
			},
		}, api)
		c.watched[kind] = cache.NewSharedIndexInformerWithOptions(lister, &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{
			ObjectDescription: resources[kind].String(),
		})
	}
	return c, nil
}

// start watches until the context is done. It calls changed with each watched object that changes.
func (c *cluster) start(ctx context.Context, changed func(objectKey)) {
	for kind, informer := range c.watched {
		change := func(any) { changed(objectKey{Kind: kind, Namespace: metav1.NamespaceDefault, Name: serviceName}) }
		// Its error is that the informer has stopped.
		informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: change, UpdateFunc: func(_, _ any) { change(nil) }, DeleteFunc: change,
		})
		// A failed request is retried, and the round that reads the object reports the failure.
		informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
		go informer.RunWithContext(ctx)
	}
}

func (c *cluster) of(key objectKey) dynamic.ResourceInterface {
	if key.Namespace == "" {
		return c.api.Resource(resources[key.Kind])
	}
	return c.api.Resource(resources[key.Kind]).Namespace(key.Namespace)
}

func (c *cluster) ready(ctx context.Context, path string) answer {
	err := c.server.Get().AbsPath(path).Do(ctx).Error()
	switch {
	case err == nil:
		return done
	case errors.As(err, new(apierrors.APIStatus)): // whatever it answers
		return fails(notReady, err)
	default:
		return fails(unanswered, err)
	}
}

func (c *cluster) get(ctx context.Context, key objectKey) answer {
	o, err := c.of(key).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return answerOf(err)
	}
	return found{object{*o}}
}

func (c *cluster) create(ctx context.Context, o *object) answer {
	_, err := c.of(o.key()).Create(ctx, &o.Unstructured, metav1.CreateOptions{})
	return answerOf(err)
}

func (c *cluster) update(ctx context.Context, o *object) answer {
	_, err := c.of(o.key()).Update(ctx, &o.Unstructured, metav1.UpdateOptions{})
	return answerOf(err)
}

func (c *cluster) delete(ctx context.Context, key objectKey, uid, resourceVersion string) answer {
	id := types.UID(uid)
	return answerOf(c.of(key).Delete(ctx, key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &id, ResourceVersion: &resourceVersion},
	}))
}

// answerOf returns the answer of a request that ended with this error, nil for none.
func answerOf(err error) answer {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return done
	case apierrors.IsNotFound(err):
		return notFound
	case apierrors.IsAlreadyExists(err):
		return alreadyExists
	case apierrors.IsConflict(err):
		return conflict
	case errors.As(err, &status):
		if code := status.Status().Code; code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
			return fails(unavailable, err)
		}
		return fails(refused, err)
	default:
		return fails(unanswered, err)
	}
}
