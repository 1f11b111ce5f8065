package audit

import (
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Users returns the namespace/name of the Services that use each value.
func Users(state *clusterstate.State) (map[rangekeeper.Value][]string, error) {
	all := make(map[rangekeeper.Value][]string)
	claims, err := state.Claims()
	for _, claim := range claims {
		name := state.Services[claim.Service].Namespace + "/" + state.Services[claim.Service].Name
		if users := all[claim.Value]; claim.Value.IsValid() && (len(users) == 0 || users[len(users)-1] != name) {
			all[claim.Value] = append(users, name)
		}
	}
	return all, err
}
