package bootstrap

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Frontend stands before an API server, and can answer in its place.
type Frontend struct {
	server *httptest.Server
	// code is what it answers to the requests that concern it; 0 for what the API server answers.
	code     atomic.Int32
	answered atomic.Int64
}

// StartFrontend starts one, which may answer the requests that concern it, and returns how clients reach it.
func StartFrontend(t *testing.T, api *rest.Config, concerns func(*http.Request) bool) (*Frontend, *rest.Config) {
	t.Helper()
	anonymous := rest.CopyConfig(api)
	anonymous.BearerToken = "" // the client's own is passed on
	host, err := url.Parse(api.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(host)
	if proxy.Transport, err = rest.TransportFor(anonymous); err != nil {
		t.Fatal(err)
	}
	f := new(Frontend)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := int(f.code.Load())
		if code == 0 || !concerns(r) {
			proxy.ServeHTTP(w, r)
			return
		}
		f.answered.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1") // as API servers say it
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Message: "too much to do", Reason: metav1.StatusReasonUnknown,
		})
	}))
	t.Cleanup(f.server.Close)
	t.Cleanup(f.server.CloseClientConnections) // of watches
	return f, &rest.Config{Host: f.server.URL, BearerToken: api.BearerToken, QPS: -1}
}

// Answer makes it answer with this code, and ends what is under way.
func (f *Frontend) Answer(code int) {
	f.code.Store(int32(code))
	f.server.CloseClientConnections()
}

// Answered returns how many requests it has answered.
func (f *Frontend) Answered() int64 { return f.answered.Load() }
