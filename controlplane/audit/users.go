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
		of := state.Services.At(claim.Service)
		name := of.Namespace + "/" + of.Name
		if users := all[claim.Value]; claim.Value.IsValid() && (len(users) == 0 || users[len(users)-1] != name) {
			all[claim.Value] = append(users, name)
		}
	}
	return all, err
}

// Claims is [clusterstate.State.Claims] of the state. It must not be changed. Cost: that of one call of it in all.
func (a *Audit) Claims() ([]rangekeeper.Claim, error) { return a.claims() }

// claimed returns the values that Services claim and for which is returns true, each as often as it is claimed.
func (a *Audit) claimed(is func(rangekeeper.Value) bool) (values []rangekeeper.Value, err error) {
	claims, err := a.claims()
	for _, claim := range claims {
		if is(claim.Value) {
			values = append(values, claim.Value)
		}
	}
	return values, err
}

func isAddress(v rangekeeper.Value) bool { return v.Addr().IsValid() }
