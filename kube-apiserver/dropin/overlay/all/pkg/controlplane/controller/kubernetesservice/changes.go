package kubernetesservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// eventTurns is how many turns changes cause within an interval at most: two controllers may undo each other's work.
const eventTurns = 4

// changes returns a channel that has an element after a change of the Service, of its endpoints, or of a server's
// lease, until ctx is done. It may miss some, which the next regular turn finds.
func (c *Controller) changes(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { notify() }, DeleteFunc: func(any) { notify() }}
	_, err := c.services.AddEventHandler(cache.FilteringResourceEventHandler{FilterFunc: isOurs, Handler: handler})
	if err != nil { // the informer has stopped, as the server has
		klog.Errorf("Changes of Service %q cause no turns: %v", serviceName, err)
	}
	leases, ok := c.EndpointReconciler.(interface{ Watch(context.Context, func()) })
	if !ok { // nobody keeps the endpoints
		return changed
	}
	go leases.Watch(ctx, notify)
	endpoints, slices := c.client.CoreV1().Endpoints(metav1.NamespaceDefault), c.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	follow(ctx, &corev1.Endpoints{}, handler,
		func(o metav1.ListOptions) (runtime.Object, error) { return endpoints.List(ctx, o) },
		func(o metav1.ListOptions) (watch.Interface, error) { return endpoints.Watch(ctx, o) })
	follow(ctx, &discoveryv1.EndpointSlice{}, handler,
		func(o metav1.ListOptions) (runtime.Object, error) { return slices.List(ctx, o) },
		func(o metav1.ListOptions) (watch.Interface, error) { return slices.Watch(ctx, o) })
	return changed
}

// isOurs reports whether an object, or one that was deleted, is the Service.
func isOurs(object any) bool {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	of, err := meta.Accessor(object)
	return err == nil && of.GetNamespace() == metav1.NamespaceDefault && of.GetName() == serviceName
}

// follow reports changes of the object of the Service's name until ctx is done.
func follow(ctx context.Context, object runtime.Object, handler cache.ResourceEventHandler, list cache.ListFunc, watches cache.WatchFunc) {
	only := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, serviceName).String()
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: object, Handler: handler,
		ListerWatcher: &cache.ListWatch{
			ListFunc:  func(o metav1.ListOptions) (runtime.Object, error) { only(&o); return list(o) },
			WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) { only(&o); return watches(o) },
		},
	})
	go informer.Run(ctx.Done())
}
