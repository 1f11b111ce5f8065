package clusterstate

import (
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// claimsBatch is how many Services cross to the core at once.
const claimsBatch = 4096

// Claims returns what the Services of the state claim, each by its place among them; see [rangekeeper.Services.Claims].
func (s *State) Claims() (all []rangekeeper.Claim, err error) {
	var batch rangekeeper.Services
	for from := 0; from < len(s.Services); from += claimsBatch {
		batch.Reset()
		servicebatch.AddAll(&batch, s.Services[from:min(from+claimsBatch, len(s.Services))])
		claims, err := batch.Claims()
		if err != nil {
			return nil, err
		}
		for _, claim := range claims {
			claim.Service += from
			all = append(all, claim)
		}
	}
	return all, nil
}
