package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// serve serves the lists of a cluster in pages, as a kube-apiserver does, and writes a kubeconfig for it. Its own work
// is in this process, and so in no figure.
func (c cluster) serve(kubeconfig string) (*httptest.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/services", func(w http.ResponseWriter, r *http.Request) {
		list := &corev1.ServiceList{}
		all, meta := page(r, c.services)
		list.ListMeta = meta
		for _, i := range all {
			list.Items = append(list.Items, *c.service(i))
		}
		answer(w, "v1", "ServiceList", list)
	})
	stored := make([]int, 0, c.services)
	for i := range c.services {
		if !c.isLost(i) {
			stored = append(stored, i)
		}
	}
	slices.SortFunc(stored, func(a, b int) int { return cmp.Compare(address(a), address(b)) })
	mux.HandleFunc("GET /apis/networking.k8s.io/v1/ipaddresses", func(w http.ResponseWriter, r *http.Request) {
		list := &networkingv1.IPAddressList{}
		all, meta := page(r, len(stored))
		list.ListMeta = meta
		for _, i := range all {
			list.Items = append(list.Items, *c.ipAddress(stored[i]))
		}
		answer(w, "networking.k8s.io/v1", "IPAddressList", list)
	})
	mux.HandleFunc("GET /apis/networking.k8s.io/v1/servicecidrs", func(w http.ResponseWriter, r *http.Request) {
		answer(w, "networking.k8s.io/v1", "ServiceCIDRList", &networkingv1.ServiceCIDRList{
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []networkingv1.ServiceCIDR{*serviceCIDR()},
		})
	})
	server := httptest.NewServer(mux)
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: measured
contexts: [{name: measured, context: {cluster: measured, user: measured}}]
clusters: [{name: measured, cluster: {server: %q}}]
users: [{name: measured, user: {token: none}}]
`, server.URL)
	return server, os.WriteFile(kubeconfig, []byte(text), 0o600)
}

// page returns the places of the objects of the page that a request asks for.
func page(r *http.Request, count int) (places []int, meta metav1.ListMeta) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from := after(r.URL.Query().Get("continue"))
	to := min(from+limit, count)
	for i := from; i < to; i++ {
		places = append(places, i)
	}
	meta.ResourceVersion = "1"
	if to < count {
		meta.Continue, meta.RemainingItemCount = fmt.Sprintf("after-%d", to), ptr.To(int64(count-to))
	}
	return places, meta
}

func answer(w http.ResponseWriter, version, kind string, o interface{ Marshal() ([]byte, error) }) {
	raw, err := o.Marshal()
	if err == nil {
		raw, err = (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw}).Marshal()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	w.Write(append([]byte("k8s\x00"), raw...))
}
