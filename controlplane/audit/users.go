package audit

import (
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Users returns the namespace/name of the Services that use each value.
func Users(state *clusterstate.State) (map[rangekeeper.Value][]string, error) {
	all := make(map[rangekeeper.Value][]string)
	err := state.Services.Claims(func(some []rangekeeper.Claim) {
		for _, claim := range some {
			if claim.Value.IsValid() {
				addUser(all, state, claim)
			}
		}
	})
	return all, err
}

// users returns the namespace/name of the Services that use each of some values.
func (a *Audit) users(values ...rangekeeper.Value) (map[rangekeeper.Value][]string, error) {
	all := make(map[rangekeeper.Value][]string)
	err := a.state.Services.Claims(func(some []rangekeeper.Claim) {
		for _, claim := range some {
			if slices.Contains(values, claim.Value) {
				addUser(all, a.state, claim)
			}
		}
	})
	return all, err
}

// addUser adds the Service of a claim to the users of its value. The claims of a Service come together.
func addUser(all map[rangekeeper.Value][]string, state *clusterstate.State, claim rangekeeper.Claim) {
	of := state.Services.At(claim.Service)
	name := of.Namespace + "/" + of.Name
	if users := all[claim.Value]; len(users) == 0 || users[len(users)-1] != name {
		all[claim.Value] = append(users, name)
	}
}

// claimed returns the values that Services claim and for which is returns true, each as often as it is claimed.
func (a *Audit) claimed(is func(rangekeeper.Value) bool) (values []rangekeeper.Value, err error) {
	err = a.state.Services.Claims(func(some []rangekeeper.Claim) {
		for _, claim := range some {
			if is(claim.Value) {
				values = append(values, claim.Value)
			}
		}
	})
	return values, err
}

func isAddress(v rangekeeper.Value) bool { return v.Addr().IsValid() }
