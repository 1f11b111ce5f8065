package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
)

// repairServers looks a second time at what the API servers keep, if the last pass has found something that no server
// may repair, and repairs what nobody has written meanwhile: a server that lives would have.
func (r *repair) repairServers(ctx context.Context, plan *audit.Plan) error {
	wait := r.last.LookAgain()
	if wait == 0 {
		return nil
	}
	look, earlier, err := r.source.Look(ctx, nil)
	defer look.End(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "rangekeeper: waiting %.0f s to look again at %s about the API servers' own objects: a server that lives repairs them\n",
		wait.Seconds(), screen.Count(plan.LookedAtAgain(), "finding"))
	since := time.Now() // after the state was read
	renewed, err := r.source.LeasesWritten(ctx, earlier, wait)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted before the second look at the API servers' objects, which stay as they are: %w", ctx.Err())
	}
	if err != nil {
		return err
	}
	watched := time.Since(since)
	look, state, err := r.source.Look(ctx, look)
	if err != nil {
		return err
	}
	o := r.source.AuditOptions(state)
	o.Earlier, o.Watched, o.Renewed = earlier.Bootstrap, watched, renewed
	later, err := r.source.AuditWith(state, o)
	if err != nil {
		return err
	}
	objects, err := later.ServerObjects(time.Now())
	if err != nil {
		return r.source.Explain(err)
	}
	var done []audit.ServerObject
	for _, object := range objects {
		written, err := r.source.WriteServerObject(ctx, object, state, look)
		if err != nil {
			plan.ServersRepaired(later, done)
			return err
		}
		if !written {
			fmt.Fprintf(r.log, "rangekeeper: %s %s stays as it is: it has changed meanwhile, a server has started, or etcd was restored\n", object.Kind, screen.Printable(object.Name))
			r.leftAlone++
			if object.Kind == audit.KindMasterLease {
				continue
			}
			break // the slice depends on the Endpoints
		}
		done = append(done, object)
	}
	plan.ServersRepaired(later, done)
	return nil
}
