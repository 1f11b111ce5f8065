// Package features has the feature gate of the released tests. The copies of them import it instead of
// k8s.io/kubernetes/pkg/features.
package features

import (
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// DisableAllocatorDualWrite is on and locked since 1.35.
const DisableAllocatorDualWrite featuregate.Feature = "DisableAllocatorDualWrite"

func init() {
	runtime.Must(utilfeature.DefaultMutableFeatureGate.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		DisableAllocatorDualWrite: {
			{Version: version.MustParse("1.35"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},
		},
	}))
}
