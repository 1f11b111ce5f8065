package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/compare/internal/apiserver"
)

const (
	// sharedSteps is the number of steps after which the servers no longer take turns: 18,000 Services. One more is
	// measured there.
	sharedSteps = 6
	// allSteps is the number of steps before the last one of Rangekeeper: 60,000 Services.
	allSteps = 20
	// warmUpPart is the part of a step's Services that are created and deleted before the first one.
	warmUpPart = 10
)

// growth creates Services on both servers in turn, then on the reference alone for some time, and then on Rangekeeper
// alone.
func (c comparison) growth(ctx context.Context) (*bothSides, error) {
	var both [2]*contender
	for i, side := range c.sides {
		own, err := c.start(ctx, side, c.folder(growthPart, side.Name), wideRange, i, nil)
		if err != nil {
			return nil, err
		}
		defer own.server.Stop()
		if err := own.warmUp(ctx, c.step/warmUpPart); err != nil {
			return nil, err
		}
		both[i] = own
	}
	reference, rangekeeper := both[0], both[1]
	for n := range sharedSteps + 1 {
		for i := range both {
			if err := both[(n+i)%2].create(ctx, c.step, time.Time{}); err != nil {
				return nil, err
			}
		}
	}
	for end := time.Now().Add(c.tail); reference.services <= allSteps*c.step && time.Now().Before(end); {
		if err := reference.create(ctx, c.step, end); err != nil {
			return nil, err
		}
	}
	reference.server.Stop()
	for rangekeeper.services <= allSteps*c.step {
		if err := rangekeeper.create(ctx, c.step, time.Time{}); err != nil {
			return nil, err
		}
	}
	return &bothSides{Reference: reference.steps, Rangekeeper: rangekeeper.steps}, nil
}

// warmUp creates and deletes Services that are not measured: a new server has cold caches, and would look slow when
// empty.
func (c *contender) warmUp(ctx context.Context, services int) error {
	if _, _, err := (apiserver.Load{Clients: c.clients, Requests: services, Do: apiserver.Create(corev1.ServiceTypeClusterIP)}).Run(ctx); err != nil {
		return err
	}
	do, err := apiserver.Delete(ctx, c.clients[0], corev1.ServiceTypeClusterIP, services)
	if err != nil {
		return err
	}
	_, _, err = apiserver.Load{Clients: c.clients, Requests: services, Do: do}.Run(ctx)
	return err
}
