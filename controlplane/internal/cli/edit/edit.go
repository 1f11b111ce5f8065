// Package edit changes ranges by hand: single values, a plan that was reviewed, and what an undo of it takes back. The
// core decides what is written; here the documents are read and written, and the cluster is looked at.
package edit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// What becomes of a value.
const (
	ValueAllocated = "allocated"
	ValueReleased  = "released"
	// valueRecorded and valueFree: the value is recorded or free already, as it was to become.
	valueRecorded = "recorded"
	ValueFree     = "free"
	// ValueKept: it stays as it is.
	ValueKept = "kept"
)

const (
	// changeTimeout is how long a change of a range is tried while Services are written.
	changeTimeout = 30 * time.Second
	// changePause is between two attempts.
	changePause = 100 * time.Millisecond
)

// LeakAge is how long a value must be leaked: a Service that is being created has its value before it is written.
var LeakAge = time.Minute

// ErrBusy: a Service was written during each attempt.
var ErrBusy = errors.New("a Service was written during each attempt, so nothing was written; run the command again")

// ErrMayBeWritten: no answer says whether a write took effect.
var ErrMayBeWritten = errors.New("the write may have taken effect")

// ErrInUse: a Service uses a value.
var ErrInUse = errors.New("in use")

// InUseHelp says how far the commands that change a range protect the values of Services.
const InUseHelp = `All Services are read, and the range is written only if none of them was written since. A
value that a Service uses is refused, with the names of the Services; --force overrides
this. Two things are not seen: a Service that a server is creating at this moment, whose
value is recorded before the Service is written, and Services that are kept in another
etcd.`

// editor changes one range by hand. Its store knows what has become of a value since it was opened.
type editor struct {
	name   string
	ranged *etcdstore.Store
	// look reads the cluster, at a revision if that is not 0.
	look func(ctx context.Context, at int64) (*clusterstate.State, error)
}

// newEditor opens a range that is stored.
func newEditor(s *ranges.Store, name string, values rangekeeper.Range, look func(context.Context, int64) (*clusterstate.State, error)) (*editor, error) {
	ranged, err := s.OpenRange(name, values, etcdstore.DefaultGrace)
	return &editor{name, ranged, look}, err
}

// run looks at the cluster, checks it, and makes the change, again while Services are written meanwhile; a dry run
// writes nothing. It returns what the look has seen.
func (e *editor) run(ctx context.Context, change rangekeeper.Edit, dryRun bool, check func(*clusterstate.State) error) (edited rangekeeper.Edited, state *clusterstate.State, err error) {
	for began := time.Now(); ; {
		var look *etcdstore.Look
		if !dryRun {
			if look, err = e.ranged.Look(ctx); err != nil {
				return edited, nil, etcdflags.Explained(err)
			}
		}
		if state, err = e.look(ctx, look.At()); err == nil {
			err = check(state)
		}
		if err == nil {
			change.InUse, err = state.Services.InUse(e.ranged.Range())
		}
		if err == nil {
			change.Listed = state.Revision
			edited, err = e.edit(ctx, look, change)
		}
		look.End(context.WithoutCancel(ctx))
		if !errors.Is(err, rangekeeper.ErrServicesWritten) {
			return edited, state, err
		}
		if time.Since(began) > changeTimeout {
			return edited, state, fmt.Errorf("%s: %w", e.ranged.Key(), ErrBusy)
		}
		select {
		case <-time.After(changePause):
		case <-ctx.Done():
			return edited, state, ctx.Err()
		}
	}
}

// edit makes a change once, and explains its error.
func (e *editor) edit(ctx context.Context, look *etcdstore.Look, change rangekeeper.Edit) (rangekeeper.Edited, error) {
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	edited, err := e.ranged.Edit(ctx, look, change)
	if of := (*rangekeeper.BatchError)(nil); errors.As(err, &of) { // which value it is about stands in it
		err = fmt.Errorf("%s: %w", e.ranged.Key(), of.Err)
	}
	switch err = etcdflags.Explained(err); {
	case errors.Is(err, etcdstore.ErrUnknown):
		err = fmt.Errorf("%w (%w)", err, ErrMayBeWritten)
	case errors.Is(err, rangekeeper.ErrRefused):
		err = fmt.Errorf("%w (this writes %s and keys below it)", err, e.ranged.Key())
	}
	return edited, err
}

// Change makes a change of the kind EditChange or EditForce, all or nothing. what is the participle of what is to
// be done.
func Change(ctx context.Context, s *ranges.Store, name, what string, change rangekeeper.Edit, check func(*clusterstate.State) error) (edited rangekeeper.Edited, err error) {
	values, err := s.Required(ctx, name)
	if err != nil {
		return edited, err
	}
	e, err := newEditor(s, name, values, lookReadable(s))
	if err != nil {
		return edited, err
	}
	defer ranges.CloseRange(e.ranged)
	edited, state, err := e.run(ctx, change, false, check)
	if err == nil && !edited.Done {
		err = e.refusal(state, what, edited)
	}
	return edited, err
}

// lookReadable returns the function that reads a cluster all of whose objects can be read.
func lookReadable(s *ranges.Store) func(ctx context.Context, at int64) (*clusterstate.State, error) {
	return func(ctx context.Context, at int64) (*clusterstate.State, error) {
		state, err := clusterstate.ReadEtcd(ctx, s.Client, clusterstate.Options{Prefix: s.Prefix, Revision: at})
		if err == nil {
			err = state.CheckReadable()
		}
		return state, err
	}
}

// refusal says what stands against a change.
func (e *editor) refusal(state *clusterstate.State, what string, edited rangekeeper.Edited) error {
	users, err := audit.Users(state)
	if err != nil {
		return err
	}
	var used []string
	for _, one := range edited.Values {
		switch one.Fate {
		case rangekeeper.FateInUse:
			used = append(used, fmt.Sprintf("%s is used by %s", one.Value, strings.Join(users[one.Value], ", ")))
		case rangekeeper.FateAlreadySet:
			err := fmt.Errorf("%s: %w", e.ranged.Key(), &rangekeeper.ValueError{Value: one.Value, Range: e.ranged.Range(), Err: rangekeeper.ErrAlreadyAllocated})
			if services := users[one.Value]; len(services) > 0 {
				err = fmt.Errorf("%w; it is used by %s", err, strings.Join(services, ", "))
			}
			return err
		}
	}
	return fmt.Errorf("%s: %w: %s; nothing is %s, except with --force", e.ranged.Key(), ErrInUse, strings.Join(used, "; "), what)
}
