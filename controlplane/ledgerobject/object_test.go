package ledgerobject

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore/ledgerstoretest"
)

var vnis = rangekeeper.Pool{Range: "4096-16777215", Choice: rangekeeper.Lowest}

func startServer(t *testing.T) *apiservertest.Server {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true})
	server.Initialise()
	return server
}

func clients(t *testing.T, server *apiservertest.Server) (dynamic.Interface, kubernetes.Interface) {
	t.Helper()
	config := server.RESTConfig(apiservertest.Admin)
	config.QPS = -1
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return objects, typed
}

// TestObject changes the object in all ways in which others can, between a read and a write.
func TestObject(t *testing.T) {
	server := startServer(t)
	objects, client := clients(t, server)
	ctx := t.Context()
	maps := client.CoreV1().ConfigMaps("default")
	store := ConfigMap(objects, "default", "vnis", "ledger")

	ledgerstoretest.Check(t, func(name string) ledgerstore.Store { return ConfigMap(objects, "default", name, "ledger") })
	get := func(want string) []byte {
		t.Helper()
		value, token, err := store.Get(ctx)
		if err != nil || string(value) != want || token == nil {
			t.Fatalf("got %q, %q, %v, not %q", value, token, err, want)
		}
		return token
	}
	put := func(value string, token []byte) []byte {
		t.Helper()
		token, err := store.Put(ctx, []byte(value), token)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	refused := func(token []byte) {
		t.Helper()
		if token, err := store.Put(ctx, []byte("refused"), token); !errors.Is(err, ledgerstore.ErrChanged) {
			t.Fatalf("got %q, %v", token, err)
		}
	}
	unknown := func(token []byte) {
		t.Helper()
		if token, err := store.Put(ctx, []byte("unknown"), token); err == nil || errors.Is(err, ledgerstore.ErrChanged) || !strings.Contains(err.Error(), "unknown") {
			t.Fatalf("got %q, %v", token, err)
		}
	}
	second := put("two", nil)

	// Somebody adds a field of their own: it stays, and the token is another one.
	object, err := maps.Get(ctx, "vnis", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Data = map[string]string{"note": "ours"}
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(second)
	third := put("three", get("two"))
	if object, err = maps.Get(ctx, "vnis", metav1.GetOptions{}); err != nil || object.Data["note"] != "ours" || string(object.BinaryData["ledger"]) != "three" {
		t.Error(object, err)
	}

	// Somebody deletes the object, and creates it again without a ledger. What it had before is unknown.
	if err := maps.Delete(ctx, "vnis", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	unknown(third)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "vnis"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	unknown(third)
	refused(nil)
	put("four", get(""))

	// Another field of the object may have a ledger, too.
	another := ConfigMap(objects, "default", "vnis", "second")
	if value, token, err := another.Get(ctx); err != nil || len(value) > 0 {
		t.Error(value, err)
	} else if _, err := another.Put(ctx, []byte("of another range"), token); err != nil {
		t.Error(err)
	}
	get("four")

	// Somebody empties the field. That is no new ledger, unless the annotation is removed, too.
	for _, data := range []map[string][]byte{{"ledger": {}}, {"other": []byte("x")}, nil} {
		if object, err = maps.Get(ctx, "vnis", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		object.BinaryData = data
		if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if value, _, err := store.Get(ctx); err == nil || !strings.HasPrefix(err.Error(), "ConfigMap vnis: field binaryData.ledger is empty, and annotation "+ReplacedAnnotation) {
			t.Errorf("got %q, %v", value, err)
		}
	}
	if object, err = maps.Get(ctx, "vnis", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(object.Annotations, ReplacedAnnotation)
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	put("five", get(""))

	// A value that nobody can read.
	other := Object{Client: store.Client, Kind: store.Kind, Name: "vnis", Field: []string{"data", "note"}}
	if object, err = maps.Get(ctx, "vnis", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	object.Data = map[string]string{"note": "not base64"}
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if value, _, err := other.Get(ctx); err == nil || err.Error() != "ConfigMap vnis: field data.note: illegal base64 data at input byte 3" {
		t.Errorf("got %q, %v", value, err)
	}
	// A field that the API server does not keep.
	dropped := Object{Client: store.Client, Kind: store.Kind, Name: "vnis", Field: []string{"status", "ledger"}}
	_, token, err := dropped.Get(ctx)
	if err != nil || token == nil {
		t.Fatal(token, err)
	}
	if _, err := dropped.Put(ctx, []byte("x"), token); err == nil || err.Error() != "ConfigMap vnis: the API server does not keep field status.ledger" {
		t.Error(err)
	}
	missing := Object{Client: objects.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "pools"}), Name: "vnis", Field: []string{"spec", "ledger"}}
	if _, err := missing.Put(ctx, []byte("x"), nil); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// customResource makes a custom resource whose spec may have any fields, and returns its client once it is served.
func customResource(t *testing.T, objects dynamic.Interface) dynamic.ResourceInterface {
	t.Helper()
	var definition unstructured.Unstructured
	if err := json.Unmarshal([]byte(`{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "pools.example.com"},
		"spec": {
			"group": "example.com", "scope": "Cluster", "names": {"plural": "pools", "kind": "Pool"},
			"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
				"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
			}}}]
		}
	}`), &definition.Object); err != nil {
		t.Fatal(err)
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := objects.Resource(definitions).Create(t.Context(), &definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := objects.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "pools"})
	for {
		_, err := pools.List(t.Context(), metav1.ListOptions{})
		if err == nil {
			return pools
		}
		if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestPatches has programs write an object all at once, in which others have put more or less of the paths to the
// ledger and its annotation: one of them does, and what others have put stays.
func TestPatches(t *testing.T) {
	const programs = 8
	server := startServer(t)
	objects, _ := clients(t, server)
	ctx := t.Context()
	maps := ConfigMap(objects, "default", "", "ledger")
	pools := Object{
		Client: customResource(t, objects), Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pool"},
		Field: []string{"spec", "of~the/network", "ledger"},
	}
	for n, test := range []struct {
		store Object
		has   string
	}{
		{maps, `{}`},
		{maps, `{"metadata": {"annotations": {}}, "binaryData": {}}`},
		{maps, `{"metadata": {"annotations": {"ours": "x"}}, "binaryData": {"ours": "eA=="}}`},
		{maps, `{"metadata": {"annotations": {"` + ReplacedAnnotation + `": ""}}, "binaryData": {"ledger": ""}}`},
		{pools, `{}`},
		{pools, `{"spec": {}}`},
		{pools, `{"metadata": {"annotations": {"ours": "x"}}, "spec": {"ours": "x", "of~the/network": {}}}`},
		{pools, `{"spec": {"of~the/network": {"ours": "x"}}}`},
		{pools, `{"spec": {"of~the/network": null}}`},
	} {
		t.Run(test.store.Kind.Kind+test.has, func(t *testing.T) {
			store := test.store
			store.Name = fmt.Sprint("object-", n)
			var object unstructured.Unstructured
			if err := json.Unmarshal([]byte(test.has), &object.Object); err != nil {
				t.Fatal(err)
			}
			object.SetGroupVersionKind(store.Kind)
			object.SetName(store.Name)
			want, err := store.Client.Create(ctx, &object, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for write := range 3 {
				_, token, err := store.Get(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var group sync.WaitGroup
				var written, refused atomic.Int64
				var value atomic.Value
				for p := range programs {
					group.Go(func() {
						own := fmt.Sprint("of program ", p)
						_, err := store.Put(ctx, []byte(own), token)
						switch {
						case err == nil:
							written.Add(1)
							value.Store(own)
						case errors.Is(err, ledgerstore.ErrChanged):
							refused.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				group.Wait()
				if written.Load() != 1 || refused.Load() != programs-1 {
					t.Fatalf("write %d: %d programs have written, and %d were refused", write, written.Load(), refused.Load())
				}
				if got, _, err := store.Get(ctx); err != nil || string(got) != value.Load() {
					t.Errorf("got %q, %v, and not %q", got, err, value.Load())
				}
			}
			// In another history the object has this resource version, too, and had other writes before, or none.
			value, token, err := store.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, before := range []struct {
				annotation string
				steps      int
			}{{"", 1}, {"", 2}, {"0 field number", 3}} {
				var at state
				if err := json.Unmarshal(token, &at); err != nil {
					t.Fatal(err)
				}
				at.Annotation, at.AnnotationSteps = before.annotation, before.steps
				if _, err := store.Put(ctx, []byte("of another history"), at.token()); err == nil {
					t.Errorf("a write of another history, with %+v", before)
				}
			}
			if got, again, err := store.Get(ctx); err != nil || !bytes.Equal(got, value) || !bytes.Equal(again, token) {
				t.Errorf("got %q, %s, %v, and not %q, %s", got, again, err, value, token)
			}
			got, err := store.Client.Get(ctx, store.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if ours := got.GetAnnotations()["ours"]; ours != want.GetAnnotations()["ours"] {
				t.Errorf("the annotation of others is %q", ours)
			}
			for _, path := range [][]string{{"binaryData", "ours"}, {"spec", "ours"}, {"spec", "of~the/network", "ours"}} {
				had, _, _ := unstructured.NestedString(want.Object, path...)
				if has, _, _ := unstructured.NestedString(got.Object, path...); has != had {
					t.Errorf("%v of others is %q, and not %q", path, has, had)
				}
			}
		})
	}
}

// TestTooLarge puts ledgers that are refused by their size, each at another place.
func TestTooLarge(t *testing.T) {
	server := startServer(t)
	objects, _ := clients(t, server)
	ctx := t.Context()
	revisions := Object{
		Client: objects.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}).Namespace("default"),
		Kind:   schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"}, Name: "vnis", Field: []string{"data", "ledger"},
	}
	maps := ConfigMap(objects, "default", "vnis", "ledger")
	token, err := maps.Put(ctx, []byte("first"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		place string
		store Object
		token []byte
		size  int
	}{
		{"validation", ConfigMap(objects, "default", "other", "ledger"), nil, 1_100_000},
		{"validation", maps, token, 1_100_000},
		{"API server", maps, token, 3_000_000},
		{"etcd", revisions, nil, 1_200_000},
		{"client of etcd", revisions, nil, 1_700_000},
	} {
		if _, err := test.store.Put(ctx, make([]byte, test.size), test.token); !errors.Is(err, ledgerstore.ErrTooLarge) {
			t.Errorf("%s, %d bytes: %v", test.place, test.size, err)
		}
	}
	if value, _, err := maps.Get(ctx); string(value) != "first" || err != nil {
		t.Errorf("got %d bytes, %v", len(value), err)
	}
}

// gateway stands before an API server. It passes all requests on, and answers the next writes itself, though they were
// carried out: 503, with Retry-After, as a gateway whose own time is over may.
type gateway struct {
	mutex sync.Mutex
	// failing is how many writes it answers so.
	failing int
	// between is called after such a write was carried out, and before it is answered.
	between func()
	failed  int
}

// answered returns how many writes it has answered so since the last call of fail.
func (g *gateway) answered() int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.failed
}

func (g *gateway) fail(writes int, between func()) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.failing, g.between, g.failed = writes, between, 0
}

// start returns a client whose requests go through the gateway.
func (g *gateway) start(t *testing.T, server *apiservertest.Server) dynamic.Interface {
	t.Helper()
	config := server.RESTConfig(apiservertest.Admin)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(answer *http.Response) error {
			if answer.Request.Method == http.MethodGet {
				return nil
			}
			g.mutex.Lock()
			defer g.mutex.Unlock()
			if g.failing == 0 || answer.StatusCode >= http.StatusBadRequest {
				return nil
			}
			g.failing--
			g.failed++
			g.between()
			_ = answer.Body.Close()
			answer.StatusCode, answer.Header, answer.Body = http.StatusServiceUnavailable, http.Header{"Retry-After": {"0"}}, http.NoBody
			return nil
		},
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	objects, err := dynamic.NewForConfig(&rest.Config{Host: front.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestRepeatedRequests loses answers of writes, so that the client sends them again. Other programs write meanwhile.
func TestRepeatedRequests(t *testing.T) {
	server := startServer(t)
	objects, _ := clients(t, server)
	var g gateway
	behind := g.start(t, server)
	ctx := t.Context()
	var others atomic.Int64
	// write has another program write the ledger so many times.
	write := func(name string, times int) func() {
		return func() {
			store := ConfigMap(objects, "default", name, "ledger")
			for range times {
				value, token, err := store.Get(ctx)
				if err == nil {
					_, err = store.Put(ctx, value, token)
				}
				if err != nil {
					t.Error(err)
				}
				others.Add(1)
			}
		}
	}
	open := func(objects dynamic.Interface, name string) *ledgerstore.Ledger {
		ledger, err := ledgerstore.New(ConfigMap(objects, "default", name, "ledger"), vnis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ledger.Close() })
		return ledger
	}
	used := func(ledger *ledgerstore.Ledger, want uint64) {
		t.Helper()
		known, err := ledger.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer known.Close()
		if usage, err := known.Usage(); err != nil || usage.Used != want {
			t.Errorf("%d values are in use, and not %d: %v", usage.Used, want, err)
		}
	}
	for _, times := range []int{0, 1, 3} {
		name := fmt.Sprintf("vnis-%d", times)
		ledger := open(behind, name)
		for n := range 3 { // the first one creates the object
			g.fail(1, write(name, times))
			got, err := ledger.Allocate(ctx, rangekeeper.WantAny(), "")
			if err != nil || got.First.Integer() != 4096+uint64(n) || g.answered() != 1 {
				t.Errorf("write %d beside %d others, of which %d had no answer: %v, %v", n, times, g.answered(), got, err)
			}
			used(ledger, uint64(n+1))
		}
		// The value is given to another program before the release is sent again, which must not release that one's.
		other := open(objects, name)
		g.fail(1, func() {
			if got, err := other.Allocate(ctx, rangekeeper.WantAny(), ""); err != nil || got.First.Integer() != 4096 {
				t.Error(got, err)
			}
		})
		if released, err := ledger.Release(ctx, rangekeeper.IntegerValue(4096)); err != nil || !released || g.answered() != 1 {
			t.Error(released, err)
		}
		used(ledger, 3)
	}
	// After more writes than the annotation has, nobody knows.
	ledger := open(behind, "vnis-0")
	g.fail(1, write("vnis-0", keptWrites))
	if got, err := ledger.Allocate(ctx, rangekeeper.WantAny(), ""); !errors.Is(err, rangekeeper.ErrUnanswered) {
		t.Error(got, err)
	}
	used(ledger, 4)
	t.Logf("%d writes of others beside repeated ones", others.Load())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRefusedOnItsWay has a gateway refuse a write that is still on its way, and comes after it was looked for: that it
// was never carried out is not said.
func TestRefusedOnItsWay(t *testing.T) {
	server := startServer(t)
	objects, _ := clients(t, server)
	var onItsWay func() (*http.Response, error)
	config := server.RESTConfig(apiservertest.Admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch {
				return next.RoundTrip(r)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			later := r.Clone(t.Context())
			later.Body = io.NopCloser(bytes.NewReader(body))
			onItsWay = func() (*http.Response, error) { return next.RoundTrip(later) }
			return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
	})
	behind, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	store := ConfigMap(objects, "default", "vnis", "ledger")
	token, err := store.Put(t.Context(), []byte("one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := ConfigMap(behind, "default", "vnis", "ledger").Put(t.Context(), []byte("two"), token); err == nil || errors.Is(err, ledgerstore.ErrChanged) {
		t.Errorf("got %q, %v", token, err)
	}
	answer, err := onItsWay()
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	if value, _, err := store.Get(t.Context()); string(value) != "two" {
		t.Errorf("got %q, %v", value, err)
	}
}

type requests struct{ gets, puts, changed atomic.Int64 }

// counted counts the requests of a store.
type counted struct {
	ledgerstore.Store
	*requests
}

func (c *counted) Get(ctx context.Context) (value, token []byte, err error) {
	c.gets.Add(1)
	return c.Store.Get(ctx)
}

func (c *counted) Put(ctx context.Context, value, token []byte) (newToken []byte, err error) {
	c.puts.Add(1)
	newToken, err = c.Store.Put(ctx, value, token)
	if errors.Is(err, ledgerstore.ErrChanged) {
		c.changed.Add(1)
	}
	return newToken, err
}

// TestManyClients has 128 programs allocate 17 values each in one ConfigMap, all at once.
func TestManyClients(t *testing.T) {
	const programs, each = 128, 17
	server := startServer(t)
	var group sync.WaitGroup
	var mutex sync.Mutex
	owners := map[uint64]string{}
	var ledgers []*ledgerstore.Ledger
	var requests requests
	for range programs {
		objects, _ := clients(t, server)
		ledger, err := ledgerstore.New(&counted{Store: ConfigMap(objects, "default", "vnis", "ledger"), requests: &requests}, vnis)
		if err != nil {
			t.Fatal(err)
		}
		defer ledger.Close()
		ledgers = append(ledgers, ledger)
	}
	began := time.Now()
	for p, ledger := range ledgers {
		for e := range each {
			group.Go(func() {
				owner := fmt.Sprintf("pod-%d/net%d", p, e)
				got, err := ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
				for errors.Is(err, context.DeadlineExceeded) { // the server is too busy for one answer; the owner asks again
					got, err = ledger.Allocate(t.Context(), rangekeeper.WantAny(), owner)
				}
				if err != nil {
					t.Error(owner, err)
					return
				}
				mutex.Lock()
				defer mutex.Unlock()
				if other := owners[got.First.Integer()]; other != "" {
					t.Errorf("%s and %s have %v", other, owner, got.First)
				}
				owners[got.First.Integer()] = owner
			})
		}
	}
	group.Wait()
	t.Logf("%d programs with %d allocations each in one ConfigMap: %v, %d reads, %d writes, of which %d were refused", programs, each,
		time.Since(began).Round(time.Millisecond), requests.gets.Load(), requests.puts.Load(), requests.changed.Load())

	// What is stored is what they were told.
	objects, client := clients(t, server)
	ledger, err := ledgerstore.New(ConfigMap(objects, "default", "vnis", "ledger"), vnis)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	known, err := ledger.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for value := range known.Values() {
		if owner, _, err := known.OwnerOf(value); err != nil || owner != owners[value.Integer()] {
			t.Errorf("%v has the owner %q, not %q: %v", value, owner, owners[value.Integer()], err)
		}
		n++
	}
	if n != programs*each || len(owners) != n {
		t.Errorf("%d values are stored, and %d were given", n, len(owners))
	}
	object, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "vnis", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := known.Encode()
	if err != nil || string(stored) != string(object.BinaryData["ledger"]) {
		t.Errorf("%s is stored, not %s: %v", base64.StdEncoding.EncodeToString(object.BinaryData["ledger"]), base64.StdEncoding.EncodeToString(stored), err)
	}
	t.Logf("%d values with owners take %d bytes", n, len(stored))
}
