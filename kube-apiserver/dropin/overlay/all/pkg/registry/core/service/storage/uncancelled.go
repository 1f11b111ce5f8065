package storage

import (
	"context"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/requesttimeout"
)

// uncancelled returns a context for a write that is being sent. A client that disconnects does not cancel it: the
// outcome of the write would be unknown. It ends at the deadline of the request.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(requesttimeout.Get())
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}
