package reconcilers

import (
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rangekeeper/rangekeeper/controlplane/servermetrics"
)

// serverMetrics are those of `rangekeeper controller`, too.
var serverMetrics = servermetrics.New()

func init() { legacyregistry.RawMustRegister(serverMetrics) }
