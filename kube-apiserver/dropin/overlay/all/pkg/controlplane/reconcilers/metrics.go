package reconcilers

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"
)

// The metrics of `rangekeeper controller` under the same names. They have no samples before the first turn.
var (
	addresses = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "rangekeeper_apiserver_addresses",
		Help: "Addresses of API servers in leases, in the Endpoints and in the EndpointSlice of the Service kubernetes.",
	}, []string{"object"})
	addressesAgree = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "rangekeeper_apiserver_addresses_agree",
		Help: "1 if the last turn has found Endpoints and EndpointSlice of the Service kubernetes as they should be; else it writes them.",
	}, nil)
)

func init() { legacyregistry.MustRegister(addresses, addressesAgree) }

// count sets the metrics to what a turn has found.
func count(found bootstrapplan.Found) {
	addresses.WithLabelValues("MasterLease").Set(float64(found.Leases))
	addresses.WithLabelValues("Endpoints").Set(float64(found.Endpoints))
	addresses.WithLabelValues("EndpointSlice").Set(float64(found.Slice))
	agree := 0.0
	if found.Agree {
		agree = 1
	}
	addressesAgree.WithLabelValues().Set(agree)
}
