package kubernetesservice

import "context"

// deleteAddress does nothing: servers of 1.32 keep no IPAddress objects by default.
func (c *Controller) deleteAddress(context.Context, string) error { return nil }
