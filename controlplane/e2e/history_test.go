package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// history replays every change of every Service in etcd and records each one by which two Services have the same address or port.
// It does not read ranges.
type history struct {
	changes int
	// owners has the Service's key by value, values the values by the Service's key.
	owners map[string]string
	values map[string][]string
	wrong  []string
}

// checkHistory fails the test if two Services ever had the same value, and returns the number of changes. etcd must not have
// compacted any revision.
func checkHistory(t *testing.T, etcd *clientv3.Client) int {
	t.Helper()
	h := readHistory(t, etcd, 1)
	if len(h.wrong) > 0 {
		t.Errorf("%d violations in %d changes, the first of them:\n%s", len(h.wrong), h.changes, strings.Join(h.wrong[:min(10, len(h.wrong))], "\n"))
	}
	return h.changes
}

// readHistory reads all changes from a revision on. Services that were stored before it and have not changed since are unknown.
func readHistory(t *testing.T, etcd *clientv3.Client, from int64) *history {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := &history{owners: make(map[string]string), values: make(map[string][]string)}
	services := clusterstate.ServiceKeys(clusterstate.DefaultPrefix)
	end := must(etcd.Get(ctx, services)).Header.Revision
	watch := etcd.Watch(ctx, services, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify())
	for response := range watch {
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range response.Events {
			h.change(event)
		}
		if response.IsProgressNotify() && response.Header.Revision >= end {
			break
		}
		if err := etcd.RequestProgress(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := ctx.Err(); err != nil {
		t.Fatalf("read the history of Services: %v", err)
	}
	return h
}

func (h *history) change(event *clientv3.Event) {
	h.changes++
	key := string(event.Kv.Key)
	for _, value := range h.values[key] {
		delete(h.owners, value)
	}
	delete(h.values, key)
	if event.Type == clientv3.EventTypeDelete {
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(event.Kv.Value, nil, nil)
	service, ok := object.(*corev1.Service)
	if !ok {
		h.wrong = append(h.wrong, fmt.Sprintf("revision %d: %s is not a Service: %v", event.Kv.ModRevision, key, err))
		return
	}
	for _, value := range valuesOf(service) {
		if owner, taken := h.owners[value]; taken {
			h.wrong = append(h.wrong, fmt.Sprintf("revision %d: %s has %s, which %s owns", event.Kv.ModRevision, key, value, owner))
			continue
		}
		h.owners[value] = key
		h.values[key] = append(h.values[key], value)
	}
}

// valuesOf returns the addresses and ports of a Service.
func valuesOf(s *corev1.Service) []string {
	var values []string
	for _, ip := range append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP) {
		if address, err := netip.ParseAddr(ip); err == nil {
			values = append(values, address.String())
		}
	}
	for _, port := range s.Spec.Ports {
		if port.NodePort != 0 {
			values = append(values, portValue(port.NodePort))
		}
	}
	if s.Spec.HealthCheckNodePort != 0 {
		values = append(values, portValue(s.Spec.HealthCheckNodePort))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func portValue(port int32) string { return fmt.Sprintf("port %d", port) }
