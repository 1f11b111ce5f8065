package servicetest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
)

func addressOf(service *api.Service) net.IP { return net.ParseIP(service.Spec.ClusterIP) }

// full makes etcd refuse writes for lack of space.
func (c *cluster) full(t *testing.T) {
	t.Helper()
	id := must(c.etcd.MemberList(t.Context())).Members[0].ID
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(c.etcd.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
}

// checkRetry checks that an error has a code, and tells clients to try again.
func checkRetry(t *testing.T, err error, code int32, texts ...string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != code {
		t.Errorf("error %v, want the code %d", err, code)
		return
	}
	if details := status.Status().Details; details == nil || details.RetryAfterSeconds != 1 {
		t.Errorf("%v: clients are not told to try again after a second", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}

// TestNoSpace creates and updates Services while etcd has no space left.
func TestNoSpace(t *testing.T) {
	c := start(t, nil)
	headless := must(c.create(request(t), svctest.MakeService("headless", svctest.SetHeadless), nil))
	external := must(c.create(request(t), svctest.MakeService("external", svctest.SetTypeExternalName, svctest.SetExternalName("example.com")), nil))
	withAddress := must(c.create(request(t), svctest.MakeService("a"), nil))
	c.full(t)
	_, err := c.create(request(t), svctest.MakeService("b"), nil)
	checkRetry(t, err, http.StatusInsufficientStorage, "failed to allocate a ClusterIP: etcd has no space left")
	_, err = c.create(request(t), svctest.MakeService("b", svctest.SetClusterIP("10.0.0.77")), nil)
	checkRetry(t, err, http.StatusInsufficientStorage, "failed to allocate a ClusterIP: etcd has no space left")
	svctest.SetTypeClusterIP(external)
	_, err = c.update(request(t), external, nil)
	checkRetry(t, err, http.StatusInsufficientStorage, "failed to allocate a ClusterIP: etcd has no space left")
	svctest.SetTypeNodePort(withAddress)
	for _, port := range []int{0, 30017} {
		svctest.SetNodePorts(port)(withAddress)
		_, err = c.update(request(t), withAddress.DeepCopy(), nil)
		checkRetry(t, err, http.StatusInsufficientStorage, "failed to allocate a node port: etcd has no space left")
	}
	// These need no value.
	_, err = c.create(request(t), svctest.MakeService("c", svctest.SetHeadless), nil)
	checkRetry(t, err, http.StatusInsufficientStorage, "failed to write the Service: etcd has no space left")
	headless.Labels = map[string]string{"a": "b"}
	_, err = c.update(request(t), headless, nil)
	checkRetry(t, err, http.StatusInsufficientStorage, "failed to write the Service: etcd has no space left")
}

// TestNotInitialised creates a Service before a repair has created the ranges of a new cluster.
func TestNotInitialised(t *testing.T) {
	c := start(t, nil)
	for _, of := range []struct{ name, kind string }{{"servicenodeports", "node port"}, {"serviceips", "ClusterIP"}} {
		if _, err := c.etcd.Delete(t.Context(), "/registry/ranges/"+of.name); err != nil {
			t.Fatal(err)
		}
		_, err := c.create(request(t), nodePort("a"), nil)
		checkRetry(t, err, http.StatusServiceUnavailable, of.kind)
	}
}

// TestErrorsOfRequests makes requests that ask for the wrong values. Their errors must be the released ones.
func TestErrorsOfRequests(t *testing.T) {
	c := start(t, nil)
	taken := must(c.create(request(t), nodePort("taken"), nil))
	for name, tweak := range map[string]svctest.Tweak{
		"an address in use":        svctest.SetClusterIP(taken.Spec.ClusterIP),
		"an address out of range":  svctest.SetClusterIP("10.1.0.1"),
		"a node port in use":       svctest.SetNodePorts(int(taken.Spec.Ports[0].NodePort)),
		"a node port out of range": svctest.SetNodePorts(31000),
	} {
		if _, err := c.create(request(t), svctest.MakeService("a", svctest.SetTypeNodePort, tweak), nil); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFullAfterARestore finds the range of node ports full in a restored etcd. It may only look full, as the server
// sets again what it has handed out.
func TestFullAfterARestore(t *testing.T) {
	c := start(t, nil)
	_, restored, _ := c.restored(t, "/registry/ranges/")
	for range c.ports.Free() {
		must(c.ports.AllocateNext())
	}
	_, err := c.create(request(t), nodePort("a"), nil)
	if !apierrors.IsInternalError(err) {
		t.Errorf("error %v, want that of the released code", err)
	}
	c.proxy.turn(restored)
	_, err = c.create(request(t), nodePort("a"), nil)
	checkRetry(t, err, http.StatusServiceUnavailable, "range is full", "etcd was restored under this server")
}

// TestAway creates and deletes a Service whose write has no answer. Clients must not try again by themselves.
func TestAway(t *testing.T) {
	for name, change := range map[string]func(context.Context, *cluster, rest.ValidateObjectFunc) error{
		"written": func(ctx context.Context, c *cluster, away rest.ValidateObjectFunc) error {
			_, err := c.Create(ctx, svctest.MakeService("b"), away, &metav1.CreateOptions{})
			return err
		},
		"deleted": func(ctx context.Context, c *cluster, away rest.ValidateObjectFunc) error {
			_, _, err := c.Delete(ctx, "a", away, &metav1.DeleteOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, nil)
			must(c.create(request(t), svctest.MakeService("a"), nil))
			// The etcd client may wait for a connection.
			ctx, cancel := context.WithTimeout(request(t), 10*time.Second)
			defer cancel()
			err := change(ctx, c, func(context.Context, runtime.Object) error {
				c.proxy.close()
				return nil
			})
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != http.StatusGatewayTimeout || status.Status().Details.RetryAfterSeconds != 0 ||
				!strings.Contains(err.Error(), "may have been "+name) {
				t.Errorf("error %v, want 504 without Retry-After, and that the Service may have been %s", err, name)
			}
		})
	}
}
