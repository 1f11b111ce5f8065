package bootstrap

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestBrokenWatch lets only requests for single objects through to an API server: what is read of a cache whose watch
// is broken is what the server has. A fresh read is none of the cache.
func TestBrokenWatch(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints()})
	api := server.RESTConfig(apiservertest.Admin)
	client, err := kubernetes.NewForConfig(api)
	if err != nil {
		t.Fatal(err)
	}
	server.Initialise()
	endpoints := client.CoreV1().Endpoints(metav1.NamespaceDefault)
	if _, err := endpoints.Create(t.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: serviceName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	front, config := StartFrontend(t, api, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/endpoints") })
	c, err := newCluster(config)
	if err != nil {
		t.Fatal(err)
	}
	c.start(t.Context(), func(objectKey) {})
	await := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	key := objectKey{Kind: "Endpoints", Namespace: metav1.NamespaceDefault, Name: serviceName}
	await("the cache does not get current", c.caches["Endpoints"].isCurrent)
	if _, ok := c.get(t.Context(), key, false).(found); !ok {
		t.Fatal("the object is not there")
	}
	for range 100 { // the watch reports some of them later than they are read
		written, err := endpoints.Update(t.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Annotations: map[string]string{"at": time.Now().String()},
		}}, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := c.get(t.Context(), key, true).(found)
		if version := got.Object.GetResourceVersion(); !ok || version != written.ResourceVersion {
			t.Fatalf("a fresh read has the resource version %q, and %q was written", version, written.ResourceVersion)
		}
	}
	front.Answer(http.StatusForbidden)
	await("the watch does not begin again", func() bool { return front.Answered() > 1 })
	if err := endpoints.Delete(t.Context(), serviceName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.get(t.Context(), key, false); got != notFound {
		t.Errorf("a deleted object is read as %v", got)
	}
}
