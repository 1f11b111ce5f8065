package bootstrap

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// Whatever a server answers for its readiness but 200, it is not ready.
func TestReady(t *testing.T) {
	for code, want := range map[int]reason{
		http.StatusOK: "", http.StatusUnauthorized: notReady, http.StatusNotFound: notReady, http.StatusConflict: notReady,
		http.StatusInternalServerError: notReady, http.StatusServiceUnavailable: notReady,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		c, err := newCluster(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		got := c.ready(t.Context(), "/readyz")
		server.Close()
		if f, failed := got.(failed); failed != (want != "") || f.Failed.Reason != want {
			t.Errorf("%d: %v", code, got)
		}
		if f, _ := c.ready(t.Context(), "/readyz").(failed); f.Failed.Reason != unanswered {
			t.Errorf("no server: %v", f)
		}
	}
}
