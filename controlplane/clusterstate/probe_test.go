package clusterstate_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// TestProbeRefused has a server refuse the creation of a Service for something else than an allocated port, in the words of
// kube-apiserver 1.37.
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
