package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	// changeTimeout is how long a change of a range is tried while Services are written.
	changeTimeout = 30 * time.Second
	// changePause is between two attempts.
	changePause = 100 * time.Millisecond
)

// leakAge is how long a value must be leaked: a Service that is being created has its value before it is written.
var leakAge = time.Minute

// errBusy: a Service was written during each attempt.
var errBusy = errors.New("a Service was written during each attempt, so nothing was written; run the command again")

// errMayBeWritten: no answer says whether a write took effect.
var errMayBeWritten = errors.New("the write may have taken effect")

// errInUse: a Service uses a value.
var errInUse = errors.New("in use")

// inUseHelp says how far the commands that change a range protect the values of Services.
const inUseHelp = `All Services are read, and the range is written only if none of them was written since. A
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
func (s *store) newEditor(name string, values rangekeeper.Range, look func(context.Context, int64) (*clusterstate.State, error)) (*editor, error) {
	ranged, err := openRange(s.client, s.prefix, name, values, etcdstore.DefaultGrace)
	if err != nil {
		return nil, err
	}
	return &editor{name, ranged, look}, nil
}

// newEditors opens the ranges of a document.
func (s *store) newEditors(c *changes, look func(context.Context, int64) (*clusterstate.State, error)) (all []*editor, err error) {
	for _, one := range c.Ranges {
		values, err := parseRange(one.Name)(one.Range)
		if err != nil {
			return all, err
		}
		e, err := s.newEditor(one.Name, values, look)
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// closeAll closes ranges, of which nothing is under way.
func closeAll(all []*editor) {
	for _, e := range all {
		closeRange(e.ranged)
	}
}

// run looks at the cluster, checks it, and makes the change, again while Services are written meanwhile; a dry run writes nothing. It
// returns what the look has seen.
func (e *editor) run(ctx context.Context, change rangekeeper.Edit, dryRun bool, check func(*clusterstate.State) error) (edited rangekeeper.Edited, state *clusterstate.State, err error) {
	for began := time.Now(); ; {
		if edited, state, err = e.try(ctx, change, dryRun, check); !errors.Is(err, rangekeeper.ErrServicesWritten) {
			return edited, state, err
		}
		if time.Since(began) > changeTimeout {
			return edited, state, fmt.Errorf("%s: %w", e.ranged.Key(), errBusy)
		}
		select {
		case <-time.After(changePause):
		case <-ctx.Done():
			return edited, state, ctx.Err()
		}
	}
}

func (e *editor) try(ctx context.Context, change rangekeeper.Edit, dryRun bool, check func(*clusterstate.State) error) (edited rangekeeper.Edited, state *clusterstate.State, err error) {
	var look *etcdstore.Look
	if !dryRun {
		if look, err = e.ranged.Look(ctx); err != nil {
			return edited, nil, unreachable(err)
		}
		defer look.End(context.WithoutCancel(ctx))
	}
	if state, err = e.look(ctx, look.At()); err != nil {
		return edited, nil, err
	}
	if err = check(state); err != nil {
		return edited, state, err
	}
	change.Listed = state.Revision
	if change.Kind == rangekeeper.EditPlan && change.Since == 0 { // the first look: the change comes later, and looks back to here
		change.Since = change.Listed
	}
	if change.InUse, err = audit.InUse(state, e.ranged.Range()); err != nil {
		return edited, state, err
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	edited, err = e.ranged.Edit(ctx, look, change)
	of, isUnknown := (*rangekeeper.BatchError)(nil), errors.Is(err, etcdstore.ErrUnknown)
	if errors.As(err, &of) { // which value it is about stands in it
		err = fmt.Errorf("%s: %w", e.ranged.Key(), of.Err)
	}
	switch err = unreachable(err); {
	case isUnknown:
		err = fmt.Errorf("%w (%w)", err, errMayBeWritten)
	case errors.Is(err, rangekeeper.ErrRefused):
		err = fmt.Errorf("%w (this writes %s and keys below it)", err, e.ranged.Key())
	}
	return edited, state, err
}

// changeRange makes a change of the kind EditChange or EditForce, all or nothing. change says what is to be done, and what is the
// participle of that.
func (s *store) changeRange(ctx context.Context, name, what string, change rangekeeper.Edit, check func(*clusterstate.State) error) (rangekeeper.Edited, error) {
	none := rangekeeper.Edited{}
	if err := s.open(ctx, false); err != nil {
		return none, err
	}
	values, err := s.stored(ctx, name)
	if err != nil {
		return none, err
	}
	e, err := s.newEditor(name, values, s.lookReadable)
	if err != nil {
		return none, err
	}
	defer closeRange(e.ranged)
	edited, state, err := e.run(ctx, change, false, check)
	if err == nil && !edited.Done {
		err = e.refusal(state, what, edited)
	}
	return edited, err
}

// lookReadable reads a cluster all of whose objects can be read.
func (s *store) lookReadable(ctx context.Context, at int64) (*clusterstate.State, error) {
	state, err := clusterstate.ReadEtcd(ctx, s.client, clusterstate.Options{Prefix: s.prefix, Revision: at})
	if err == nil {
		err = state.CheckReadable()
	}
	return state, err
}

// refusal says what stands against a change.
func (e *editor) refusal(state *clusterstate.State, what string, edited rangekeeper.Edited) error {
	users, err := audit.Users(state)
	if err != nil {
		return err
	}
	var used, others []string
	for _, one := range edited.Values {
		switch one.Fate {
		case rangekeeper.FateInUse:
			used = append(used, fmt.Sprintf("%s is used by %s", one.Value, strings.Join(users[one.Value], ", ")))
		case rangekeeper.FateAlreadySet:
			return fmt.Errorf("%s: %w", e.ranged.Key(), &rangekeeper.ValueError{Value: one.Value, Range: e.ranged.Range(), Err: rangekeeper.ErrAlreadyAllocated})
		case rangekeeper.FateSet, rangekeeper.FateCleared, rangekeeper.FateAlreadyClear:
		default:
			others = append(others, fmt.Sprintf("%s is %s", one.Value, one.Fate))
		}
	}
	if len(used) == 0 {
		return fmt.Errorf("%s: %s; nothing is %s", e.ranged.Key(), strings.Join(others, "; "), what)
	}
	return fmt.Errorf("%s: %w: %s; nothing is %s, except with --force", e.ranged.Key(), errInUse, strings.Join(used, "; "), what)
}

// awaitLeakAge waits for [leakAge], before a second look at a number of values to clear.
func awaitLeakAge(ctx context.Context, log io.Writer, values int) error {
	fmt.Fprintf(log, "rangekeeper: waiting %.0f s to look again at %s to clear: a request that creates a Service may be under way\n", leakAge.Seconds(), count(values, "value"))
	select {
	case <-time.After(leakAge):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted before anything is written: %w", ctx.Err())
	}
}
