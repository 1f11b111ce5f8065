package clusterstate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// fakeAPI answers each request by a function of its path, without the prefix of a proxy, and its parameters.
func fakeAPI(t *testing.T, answer func(path string, query url.Values) (code int, body any)) *rest.Config {
	t.Helper()
	return fakeServer(t, func(r *http.Request) (int, any) {
		path, ok := strings.CutPrefix(r.URL.Path, "/proxy/cluster")
		if !ok {
			t.Errorf("%s: not through the proxy", r.URL)
		}
		return answer(path, r.URL.Query())
	})
}

// fakeServer answers each request.
func fakeServer(t *testing.T, answer func(*http.Request) (code int, body any)) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := answer(r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL + "/proxy/cluster"}
}

// page is a list with one object for each name.
func page(version, next string, names ...string) map[string]any {
	items := []any{}
	for _, name := range names {
		items = append(items, map[string]any{"metadata": map[string]any{"name": name, "namespace": "ns"}})
	}
	return map[string]any{"metadata": map[string]any{"resourceVersion": version, "continue": next}, "items": items}
}

func failure(code int, reason metav1.StatusReason) (int, any) {
	return code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "it said " + string(reason),
	}
}

// TestReadAPIPages reads lists in pages, all at the version of the first one, from a server that has the older API
// group.
func TestReadAPIPages(t *testing.T) {
	var asked []string
	config := fakeAPI(t, func(path string, query url.Values) (int, any) {
		asked = append(asked, fmt.Sprintf("%s continue=%s version=%s%s", path, query.Get("continue"), query.Get("resourceVersionMatch"), query.Get("resourceVersion")))
		switch {
		case path == "/api/v1/services" && query.Get("continue") == "":
			return http.StatusOK, page("77", "more", "a", "b")
		case path == "/api/v1/services":
			return http.StatusOK, page("77", "", "c")
		case path == "/apis/networking.k8s.io/v1beta1/ipaddresses":
			return http.StatusOK, page("77", "", "10.0.0.1")
		case path == "/api/v1/namespaces/kube-system":
			return http.StatusOK, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "one"}}
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	state, err := clusterstate.ReadAPI(t.Context(), config, clusterstate.APIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if state.Revision != 77 || state.Identity.UID != "one" || state.Services.Len() != 3 || state.IPAddresses.Len() != 1 || len(state.ServiceCIDRs) != 0 || state.Unseen == nil {
		t.Errorf("%+v", state)
	}
	want := []string{
		// Are Services in the store of ServiceCIDRs?
		"/api/v1/services continue= version=",
		"/apis/networking.k8s.io/v1/servicecidrs continue= version=",
		"/apis/networking.k8s.io/v1beta1/servicecidrs continue= version=",
		"/api/v1/services continue= version=",
		"/api/v1/services continue=more version=",
		"/apis/networking.k8s.io/v1/servicecidrs continue= version=Exact77",
		"/apis/networking.k8s.io/v1beta1/servicecidrs continue= version=Exact77",
		"/apis/networking.k8s.io/v1/ipaddresses continue= version=Exact77",
		"/apis/networking.k8s.io/v1beta1/ipaddresses continue= version=Exact77",
		"/apis/resource.k8s.io/v1 continue= version=",
		"/metrics continue= version=",
		"/api/v1/namespaces/kube-system continue= version=",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
}

// TestReadAPIExpires reads from a server that compacts the version of the first answer so many times.
func TestReadAPIExpires(t *testing.T) {
	for times := range 4 {
		version := 10
		config := fakeAPI(t, func(path string, query url.Values) (int, any) {
			if query.Get("limit") == "1" {
				return http.StatusOK, page(fmt.Sprint(version), "")
			}
			if path == "/api/v1/services" {
				version++
				return http.StatusOK, page(fmt.Sprint(version), "", "a")
			}
			if version <= 10+times {
				return failure(http.StatusGone, metav1.StatusReasonExpired)
			}
			return http.StatusOK, page(query.Get("resourceVersion"), "", "kubernetes")
		})
		state, err := clusterstate.ReadAPI(t.Context(), config, clusterstate.APIOptions{})
		switch {
		case times == 3 && err == nil:
			t.Error("read, though each version was compacted")
		case times < 3 && (err != nil || state.Revision != int64(11+times) || state.Services.Len() != 1):
			t.Errorf("compacted %d times: %+v, %v", times, state, err)
		}
	}
}

// TestReadAPIUnreadable reads a list with a Service that cannot be used among others.
func TestReadAPIUnreadable(t *testing.T) {
	config := fakeAPI(t, func(path string, _ url.Values) (int, any) {
		if path == "/api/v1/services" {
			return http.StatusOK, page("1", "", "a", "", "b")
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	state, err := clusterstate.ReadAPI(t.Context(), config, clusterstate.APIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if state.Services.Len() != 2 || len(state.Unreadable) != 1 || state.Unreadable[0].Kind != "Service" || state.Unreadable[0].Problem != "Service without a name" {
		t.Errorf("%d Services, %+v", state.Services.Len(), state.Unreadable)
	}
}

// TestReadAPIBadCIDR reads ServiceCIDRs, of which one cannot be used: a server validates what is written to it, and not
// what lies in etcd.
func TestReadAPIBadCIDR(t *testing.T) {
	of := func(name, cidr string) networkingv1.ServiceCIDR {
		return networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
	}
	config := fakeAPI(t, func(path string, query url.Values) (int, any) {
		switch {
		case path == "/apis/networking.k8s.io/v1/servicecidrs" && query.Get("limit") != "1":
			list := &networkingv1.ServiceCIDRList{Items: []networkingv1.ServiceCIDR{of("c", "10.1.0.0"), of("kubernetes", "10.96.0.0/16")}}
			list.ResourceVersion = "1"
			return http.StatusOK, list
		case path == "/api/v1/services", path == "/apis/networking.k8s.io/v1/servicecidrs":
			return http.StatusOK, page("1", "")
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound)
	})
	state, err := clusterstate.ReadAPI(t.Context(), config, clusterstate.APIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(state.ServiceCIDRs) != 1 || len(state.Unreadable) != 1 || state.Unreadable[0].Key != "c" || state.Unreadable[0].Kind != "ServiceCIDR" {
		t.Errorf("%+v, %+v", state.ServiceCIDRs, state.Unreadable)
	}
}

// TestReadAPIErrors compares the errors of servers that answer something else.
func TestReadAPIErrors(t *testing.T) {
	for _, c := range []struct {
		want     string
		notReady bool
		code     int
		body     any
	}{
		{"it said Forbidden; deploy/audit has a ClusterRole", false, http.StatusForbidden, metav1.StatusReasonForbidden},
		{"does not accept the credentials: it said Unauthorized", false, http.StatusUnauthorized, metav1.StatusReasonUnauthorized},
		{"it said InternalError; a server answers so if it cannot decode an object of the list: --endpoints or --etcd-snapshot names the object by its key",
			false, http.StatusInternalServerError, metav1.StatusReasonInternalError},
		{"it said StorageReadError; a server answers so", false, http.StatusInternalServerError, metav1.StatusReasonStoreReadError},
		{"the API server cannot serve this now: it said ServiceUnavailable; try again", true, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable},
		{"the API server cannot serve this now: it said TooManyRequests; try again", true, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests},
		{"the API server cannot serve this now: it said ", true, http.StatusBadGateway, metav1.StatusReasonUnknown},
		{"the API server cannot serve this now: it said Timeout; try again", true, http.StatusGatewayTimeout, metav1.StatusReasonTimeout},
		{"it said NotFound", false, http.StatusNotFound, metav1.StatusReasonNotFound},
		{"the answer is not a list of Kubernetes objects", false, http.StatusOK, map[string]any{}},
		{"damaged answer", false, http.StatusOK, []int{1}},
		{"resource version", false, http.StatusOK, page("x", "")},
	} {
		config := fakeAPI(t, func(string, url.Values) (int, any) {
			if reason, ok := c.body.(metav1.StatusReason); ok {
				return failure(c.code, reason)
			}
			return c.code, c.body
		})
		_, err := clusterstate.ReadAPI(t.Context(), config, clusterstate.APIOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/api/v1/services") ||
			errors.Is(err, clusterstate.ErrAPINotReady) != c.notReady || errors.Is(err, clusterstate.ErrAPIUnreachable) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
