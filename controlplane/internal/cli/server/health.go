package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rangekeeper/rangekeeper/controlplane/controller"
)

// profile serves the profiles of Go's runtime, with which strangers could keep the program busy.
func profile(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// health serves how a controller is.
func health(c *controller.Controller, metrics prometheus.Gatherer) *http.ServeMux {
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := c.Health(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		alive(w, r)
	})
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case c.Stopping():
			http.Error(w, "the controller stops", http.StatusServiceUnavailable)
			return
		case !c.Started():
			http.Error(w, "the first repairs have not succeeded", http.StatusServiceUnavailable)
			return
		}
		alive(w, r)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}
