package main

import (
	"context"
)

// deletion deletes as many Services as the servers share in growth, on both servers in turn.
func (c comparison) deletion(ctx context.Context) (*bothSides, error) {
	addresses := fullRange{cidr: wideRange}.used()[:sharedSteps*c.step]
	var both [2]*contender
	for i, side := range c.sides {
		own, err := c.start(ctx, side, c.folder(deletionPart, side.Name), wideRange, i, addresses)
		if err != nil {
			return nil, err
		}
		defer own.server.Stop()
		both[i] = own
	}
	for n := range sharedSteps {
		for i := range both {
			if err := both[(n+i)%2].delete(ctx, c.step); err != nil {
				return nil, err
			}
		}
	}
	return &bothSides{Reference: both[0].steps, Rangekeeper: both[1].steps}, nil
}
