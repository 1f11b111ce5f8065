package servicetest

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// late is the time that a cancellation has to reach a request under way, before the request reaches etcd.
const late = 300 * time.Millisecond

// TestDisconnect cancels requests while their write is on its way to etcd. The write must not be cancelled: its outcome
// would be unknown, and its values would leak.
func TestDisconnect(t *testing.T) {
	c := start(t, nil)
	// cancelled returns a context that is cancelled when a request with this text has been sent to etcd.
	cancelled := func(text string) context.Context {
		ctx, cancel := context.WithCancel(request(t))
		c.proxy.before(text, func() {
			cancel()
			time.Sleep(late)
		})
		return ctx
	}
	var err error
	var created, updated *api.Service
	ctx := cancelled(key("a"))
	if created, err = c.create(ctx, nodePort("a"), nil); err != nil || ctx.Err() == nil {
		t.Fatal("creation:", err, ctx.Err())
	}
	port := int(created.Spec.Ports[0].NodePort)
	if c.stored(t, key("a")) == 0 || !c.ports.Has(port) {
		t.Error("the Service or its node port is not stored")
	}

	svctest.SetTypeClusterIP(created)
	created.Labels = map[string]string{"version": "the-new-one"}
	ctx = cancelled("the-new-one")
	if updated, err = c.update(ctx, created, nil); err != nil || ctx.Err() == nil {
		t.Fatal("update:", err, ctx.Err())
	}
	if c.ports.Has(port) {
		t.Error("the node port that an update gave up is not released")
	}

	// A RequestOp of etcd with a DeleteRangeRequest.
	operation := append([]byte{0x1a, byte(len(key("a")) + 2), 0x0a, byte(len(key("a")))}, key("a")...)
	ctx = cancelled(string(operation))
	_, _, err = c.Delete(ctx, "a", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	if err != nil || ctx.Err() == nil {
		t.Fatal("deletion:", err, ctx.Err())
	}
	if c.stored(t, key("a")) != 0 {
		t.Error("the Service is still stored")
	}
	if c.addresses.Has(addressOf(updated)) {
		t.Error("the ClusterIP of a deleted Service is not released")
	}
}

// TestDisconnectBefore cancels requests before their write is sent. Nothing must be written, and the allocated values
// be released.
func TestDisconnectBefore(t *testing.T) {
	c := start(t, nil)
	ctx, cancel := context.WithCancel(request(t))
	var allocated *api.Service
	if _, err := c.create(ctx, nodePort("a"), func(service *api.Service) {
		allocated = service.DeepCopy()
		cancel()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled creation: %v", err)
	}
	if c.stored(t, key("a")) != 0 || c.ports.Has(int(allocated.Spec.Ports[0].NodePort)) || c.addresses.Has(addressOf(allocated)) {
		t.Error("a cancelled creation left the Service or its values")
	}

	created := must(c.create(request(t), svctest.MakeService("b"), nil))
	revision := c.stored(t, key("b"))
	svctest.SetTypeNodePort(created)
	ctx, cancel = context.WithCancel(request(t))
	if _, err := c.update(ctx, created, func(service *api.Service) {
		allocated = service.DeepCopy()
		cancel()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled update: %v", err)
	}
	if c.stored(t, key("b")) != revision || c.ports.Has(int(allocated.Spec.Ports[0].NodePort)) {
		t.Error("a cancelled update changed the Service or left its node port")
	}

	ctx, cancel = context.WithCancel(request(t))
	validate := func(context.Context, runtime.Object) error {
		cancel()
		return nil
	}
	if _, _, err := c.Delete(ctx, "b", validate, &metav1.DeleteOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled deletion: %v", err)
	}
	if c.stored(t, key("b")) != revision {
		t.Error("a cancelled deletion deleted the Service")
	}
}
