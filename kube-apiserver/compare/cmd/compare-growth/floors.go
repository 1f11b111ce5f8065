package main

import (
	"fmt"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/floor"
)

func (c comparison) growthFloors(g bothSides) []floor.Floor {
	theirs := g.Reference[sharedSteps]
	first, shared, last := g.Rangekeeper[0], g.Rangekeeper[sharedSteps], g.Rangekeeper[allSteps]
	return []floor.Floor{
		floor.AtLeast(fmt.Sprintf("creations at %d Services, of the reference's", shared.Services), shared.PerSecond/theirs.PerSecond, 8),
		floor.AtLeast(fmt.Sprintf("creations at %d Services, of those at 0", shared.Services), shared.PerSecond/first.PerSecond, 0.85),
		floor.AtLeast(fmt.Sprintf("creations at %d Services, of those at 0", last.Services), last.PerSecond/first.PerSecond, 0.75),
		floor.AtMost(fmt.Sprintf("median of one client at %d Services, of that at 0", shared.Services), shared.SingleP50/first.SingleP50, 1.3),
	}
}

func fullFloors(results []fullResult) (floors []floor.Floor) {
	for _, r := range results {
		if r.Side == apiserver.RangekeeperName {
			floors = append(floors, floor.AtMost("a creation in "+r.Range+", of one in an empty range", r.Ratio, 1.2))
		}
	}
	return floors
}
