package main

import (
	"fmt"

	"github.com/rangekeeper/rangekeeper/bench/upstream/internal/apiserver"
)

// floor is a demand on a figure of Rangekeeper.
type floor struct {
	Name string `json:"name"`
	// Want is the lowest accepted value, or the highest one if AtMost is true. Got is the measured one.
	Want   float64 `json:"want"`
	AtMost bool    `json:"at_most,omitempty"`
	Got    float64 `json:"got"`
	Holds  bool    `json:"holds"`
}

func newFloor(name string, got float64, atMost bool, want float64) floor {
	holds := got >= want
	if atMost {
		holds = got <= want
	}
	return floor{Name: name, Want: want, AtMost: atMost, Got: got, Holds: holds}
}

func (c comparison) growthFloors(g bothSides) []floor {
	theirs := g.Reference[sharedSteps]
	first, shared, last := g.Rangekeeper[0], g.Rangekeeper[sharedSteps], g.Rangekeeper[allSteps]
	return []floor{
		newFloor(fmt.Sprintf("creations at %d Services, of the reference's", shared.Services), shared.PerSecond/theirs.PerSecond, false, 8),
		newFloor(fmt.Sprintf("creations at %d Services, of those at 0", shared.Services), shared.PerSecond/first.PerSecond, false, 0.85),
		newFloor(fmt.Sprintf("creations at %d Services, of those at 0", last.Services), last.PerSecond/first.PerSecond, false, 0.75),
		newFloor(fmt.Sprintf("median of one client at %d Services, of that at 0", shared.Services), shared.SingleP50/first.SingleP50, true, 1.3),
	}
}

func fullFloors(results []fullResult) (floors []floor) {
	for _, r := range results {
		if r.Side == apiserver.RangekeeperName {
			floors = append(floors, newFloor("a creation in "+r.Range+", of one in an empty range", r.Ratio, true, 1.2))
		}
	}
	return floors
}
