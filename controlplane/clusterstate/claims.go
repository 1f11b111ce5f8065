package clusterstate

import (
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Claims returns what the Services of the state claim, each by its place among them; see [rangekeeper.Services.Claims].
func (s *State) Claims() (all []rangekeeper.Claim, err error) {
	err = s.Services.Claims(func(some []rangekeeper.Claim) { all = append(all, some...) })
	return all, err
}
