package audit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Users returns the namespace/name of the Services that use each value.
func Users(state *clusterstate.State) (map[rangekeeper.Value][]string, error) {
	all := make(map[rangekeeper.Value][]string)
	var batch rangekeeper.Services
	for some := range slices.Chunk(state.Services, batchSize) {
		batch.Reset()
		addAll(&batch, some)
		claims, err := batch.Claims()
		if err != nil {
			return nil, err
		}
		for _, claim := range claims {
			name := some[claim.Service].Namespace + "/" + some[claim.Service].Name
			if users := all[claim.Value]; len(users) == 0 || users[len(users)-1] != name {
				all[claim.Value] = append(users, name)
			}
		}
	}
	return all, nil
}

func addAll(batch *rangekeeper.Services, services []corev1.Service) {
	for i := range services {
		servicebatch.Add(batch, &services[i])
	}
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
		addAll(batch, state.Services[from:to])
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
