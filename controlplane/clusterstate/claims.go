package clusterstate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Claims returns what the Services of the state claim, each by its place among them; see [rangekeeper.Services.Claims].
func (s *State) Claims() ([]rangekeeper.Claim, error) {
	return servicebatch.Claims(len(s.Services), func(i int) *corev1.Service { return &s.Services[i] })
}
