package etcdstore

import (
	"context"
	"fmt"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

type edit struct {
	edit     rangekeeper.Edit
	deadline time.Duration
}

// Edit makes a change by hand, which depends on a list of Services from the etcd of the range, at the revision of the
// look; it needs Config.Services. Without a look it is a dry run. A value that it frees is fenced off: a Service that
// reaches etcd later cannot have it.
//
// Errors: rangekeeper.ErrServicesWritten, after which Services are to be listed again, with another look; ErrStaleList,
// a *rangekeeper.BatchError, and those of every operation. An edit that is not done is no error: Edited has what stands
// against it.
func (s *Store) Edit(ctx context.Context, look *Look, change rangekeeper.Edit) (rangekeeper.Edited, error) {
	switch {
	case s.isZero():
		return rangekeeper.Edited{}, rangekeeper.ErrClosed
	case s.config.Services == "":
		return rangekeeper.Edited{}, fmt.Errorf("%s: %w: an edit needs Config.Services", s.config.Key, rangekeeper.ErrInvalidArgument)
	case look != nil:
		change.Look, change.Listed = look.number, look.revision
	default:
		change.Look = 0
	}
	outcome, err := s.wait(ctx, &call{edit: &edit{edit: change, deadline: s.deadline(ctx)}, look: look})
	edited, _ := outcome.(rangekeeper.Edited)
	return edited, err
}
