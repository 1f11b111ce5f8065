package controller

import "context"

// runOnce is what the release's tests make a pass with.
func (c *Repair) runOnce() error { return c.loop.Once(context.Background()) }
