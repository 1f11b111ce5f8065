package clusterstate_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestProbeRefused has a server refuse the creation of a Service for something else than an allocated port, in the
// words of kube-apiserver 1.37.
func TestProbeRefused(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	forbidden := func(name, why string) *apierrors.StatusError {
		return apierrors.NewForbidden(services, name, errors.New(why))
	}
	const noRight, limit, flag = "the right to create Services in namespace web", "name a namespace without such a limit with -n", "--service-node-port-range"
	for name, c := range map[string]struct {
		refusal *apierrors.StatusError
		want    string
	}{
		"right":  {forbidden("", `User "auditor" cannot create resource "services" in API group "" in the namespace "web"`), noRight},
		"quota":  {forbidden("rangekeeper-probe-x2v9k", "exceeded quota: ports, requested: services.nodeports=100, used: services.nodeports=1, limited: services.nodeports=5"), limit},
		"policy": {forbidden("rangekeeper-probe-x2v9k", "ValidatingAdmissionPolicy 'no-node-ports' with binding 'web' denied request: no node ports"), limit},
		"range": {apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "rangekeeper-probe-x2v9k", field.ErrorList{
			field.Invalid(field.NewPath("spec", "ports").Index(0).Child("nodePort"), 30000, "provided port is not in the valid range. The range of valid ports is 30100-30399"),
		}), flag},
		"namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "web"), `namespaces "web" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			config := fakeAPI(t, func(path string, query url.Values) (int, any) {
				if path != "/api/v1/namespaces/web/services" || query.Get("dryRun") != "All" {
					return failure(http.StatusInternalServerError, "")
				}
				status := c.refusal.ErrStatus
				status.APIVersion, status.Kind = "v1", "Status"
				return int(status.Code), status
			})
			read := func() (*clusterstate.State, error) {
				return &clusterstate.State{Unseen: &clusterstate.Unseen{}}, nil
			}
			_, err := clusterstate.ProbeNodePorts(t.Context(), config, read, clusterstate.ProbeOptions{
				Namespace: "web",
				Range:     func(*clusterstate.State) (rangekeeper.Range, error) { return rangekeeper.ParsePortRange("30000-30009") },
				Progress:  func(int64, int64) {},
			})
			if err == nil || !strings.Contains(err.Error(), c.refusal.Error()) {
				t.Fatal(err)
			}
			for _, hint := range []string{noRight, limit, flag} {
				if strings.Contains(err.Error(), hint) != (hint == c.want) {
					t.Errorf("%v", err)
				}
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("no %q in %v", c.want, err)
			}
		})
	}
}

// TestProbeWaits asks servers that see a port as recorded at both looks, or at the first one only, as a stock server
// does after another one has released it.
func TestProbeWaits(t *testing.T) {
	for name, c := range map[string]struct {
		stock bool
		looks int
		log   string
		want  []uint16
	}{
		"Rangekeeper": {false, 2, "1 node port is refused though no Service used it; looking again in 1ms", []uint16{30005}},
		"stock":       {true, 2, "1 node port is refused though no Service used it; looking again in 2ms, after the server's next repair", []uint16{30005}},
		"released":    {true, 1, "1 node port is refused though no Service used it; looking again in 2ms, after the server's next repair", nil},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			refusal := func(at int, why string) (int, any) {
				status := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "rangekeeper-probe-x2v9k", field.ErrorList{
					field.Invalid(field.NewPath("spec", "ports").Index(at).Child("nodePort"), 0, why),
				}).ErrStatus
				status.APIVersion, status.Kind = "v1", "Status"
				return int(status.Code), status
			}
			config := fakeServer(t, func(r *http.Request) (int, any) {
				var service corev1.Service
				if err := json.NewDecoder(r.Body).Decode(&service); err != nil {
					t.Error(err)
				}
				for i, port := range service.Spec.Ports {
					if outside := port.NodePort < 30000 || port.NodePort > 30009; outside && !c.stock {
						return refusal(i, "provided port is not in the valid range. The range of valid ports is 30000-30009")
					}
					if port.NodePort == 30005 {
						if looks++; looks <= c.looks {
							return refusal(i, "provided port is already allocated")
						}
					}
				}
				return http.StatusCreated, &service
			})
			var log []string
			state, err := clusterstate.ProbeNodePorts(t.Context(), config, func() (*clusterstate.State, error) {
				return &clusterstate.State{Unseen: &clusterstate.Unseen{}}, nil
			}, clusterstate.ProbeOptions{
				Namespace: "web", Wait: time.Millisecond, StockWait: 2 * time.Millisecond,
				Range:    func(*clusterstate.State) (rangekeeper.Range, error) { return rangekeeper.ParsePortRange("30000-30009") },
				Progress: func(int64, int64) {}, Log: func(text string) { log = append(log, text) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(state.Unseen.RecordedNodePorts, c.want) || state.Unseen.SeesAll == c.stock || !slices.Equal(log, []string{c.log}) {
				t.Errorf("%+v, %q", state.Unseen, log)
			}
		})
	}
}
