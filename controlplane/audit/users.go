package audit

import (
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Users returns the namespace/name of the Services that use each value.
func Users(state *clusterstate.State) (map[rangekeeper.Value][]string, error) {
	return usersOf(state, rangekeeper.Value.IsValid)
}

// users returns the namespace/name of the Services that use each of some values.
func (a *Audit) users(values ...rangekeeper.Value) (map[rangekeeper.Value][]string, error) {
	return usersOf(a.state, func(v rangekeeper.Value) bool { return slices.Contains(values, v) })
}

func usersOf(state *clusterstate.State, is func(rangekeeper.Value) bool) (map[rangekeeper.Value][]string, error) {
	all := make(map[rangekeeper.Value][]string)
	err := eachClaim(state, is, func(claim rangekeeper.Claim) { addUser(all, state, claim) })
	return all, err
}

// eachClaim calls see with the claims of the values for which is returns true.
func eachClaim(state *clusterstate.State, is func(rangekeeper.Value) bool, see func(rangekeeper.Claim)) error {
	return state.Services.Claims(func(some []rangekeeper.Claim) {
		for _, claim := range some {
			if is(claim.Value) {
				see(claim)
			}
		}
	})
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
func claimed(state *clusterstate.State, is func(rangekeeper.Value) bool) (values []rangekeeper.Value, err error) {
	err = eachClaim(state, is, func(claim rangekeeper.Claim) { values = append(values, claim.Value) })
	return values, err
}

func isAddress(v rangekeeper.Value) bool { return v.Addr().IsValid() }
