package audit

import (
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
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

// InUse returns the values of a range that Services use, in the form of a bitmap.
func InUse(state *clusterstate.State, values rangekeeper.Range) ([]byte, error) {
	core, err := rangekeeper.NewAudit()
	if err != nil {
		return nil, err
	}
	defer core.Close()
	// What is recorded does not matter.
	at, err := core.AddUnseen(values, nil)
	if err != nil {
		return nil, err
	}
	err = core.ObserveAll(len(state.Services), func(batch *rangekeeper.Services, from, to int) {
		servicebatch.AddAll(batch, state.Services[from:to])
	})
	if err != nil {
		return nil, err
	}
	report, err := core.Finish()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	return report.Snapshot(at, rangekeeper.ValuesInUse, nil)
}
