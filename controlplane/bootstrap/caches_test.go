package bootstrap

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestBrokenWatch lets only requests for single objects through to an API server: what is read of a cache whose watch
// is broken is what the server has.
func TestBrokenWatch(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints()})
	api := server.RESTConfig(apiservertest.Admin)
	client, err := kubernetes.NewForConfig(api)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	endpoints := client.CoreV1().Endpoints(metav1.NamespaceDefault)
	if _, err := endpoints.Create(t.Context(), &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: serviceName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	target, err := url.Parse(api.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(api)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	var refuses atomic.Bool
	var refused atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() && strings.HasSuffix(r.URL.Path, "/endpoints") {
			refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	c, err := newCluster(&rest.Config{Host: front.URL, QPS: -1})
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
	refuses.Store(true)
	front.CloseClientConnections()
	await("the watch does not begin again", func() bool { return refused.Load() > 1 })
	if err := endpoints.Delete(t.Context(), serviceName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.get(t.Context(), key, false); got != notFound {
		t.Errorf("a deleted object is read as %v", got)
	}
}
