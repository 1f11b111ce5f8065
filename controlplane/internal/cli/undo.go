package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// undo is one run of the command.
type undo struct {
	store   store
	journal string
	out     io.Writer
	log     io.Writer
}

func newUndo() *cobra.Command {
	u := new(undo)
	c := &cobra.Command{
		Use:   "undo JOURNAL",
		Short: "Reverse a repair that was made by a reviewed plan",
		Long: `Reverses what "repair --apply --plan" has written, for 24 hours: records the values that it
cleared, and releases those that it set. JOURNAL is the file that the repair wrote beside
its plan. It stays as long as a value is kept, and is renamed to JOURNAL.undone when all is
undone. All is written in one transaction.

A value is released if it was recorded all the time since the repair, and if no Service uses
it and it stays recorded for a minute, for which the command waits. A value that was
allocated again stays recorded, and so does one that may have been: etcd keeps old versions
of a range for some minutes only, and an interrupted repair left no time of its write. If
such a value is a leak, "repair --apply --clean-leaks" clears it.

Each value is printed with "allocated", with "released", with "free" if it was free already,
or with "kept" and the reason. The exit code is 1 if one is kept.`,
		Example: "  rangekeeper undo plan.json.journal \\\n    --endpoints http://127.0.0.1:2379",
		Args:    usage.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			u.journal, u.out, u.log = args[0], c.OutOrStdout(), c.ErrOrStderr()
			return nameStore(&u.store.connection, u.run(c.Context()))
		},
	}
	u.store.connection.AddFlags(c, "use a running etcd at these URLs")
	usage.Required(c, "endpoints")
	return c
}

func (u *undo) run(ctx context.Context) error {
	j, err := readChanges(u.journal, kindJournal)
	if err != nil {
		return err
	}
	if age := time.Since(j.Time); age > undoFor {
		return fmt.Errorf("%s: is %s old; a repair can be undone for %s", u.journal, age.Round(time.Minute), undoFor)
	}
	s := &u.store
	s.prefix = j.Prefix
	if err := s.open(ctx, false); err != nil {
		return err
	}
	defer s.close()
	if id, err := askCluster(ctx, s); err != nil {
		return err
	} else if id != j.Cluster {
		return fmt.Errorf("%s: is of another etcd cluster", u.journal)
	}
	first, err := u.look(ctx, j, nil)
	if err != nil {
		return err
	}
	first.close()
	if first.released > 0 {
		if err := awaitLeakAge(ctx, u.log, first.released); err != nil {
			return err
		}
	}
	var last *reversal
	err = untilWritten(u.journal, func() (bool, error) {
		if last, err = u.look(ctx, j, first); err != nil {
			return false, err
		}
		defer last.close()
		revision, err := s.swap(ctx, last.state.Revision, last.ranges...)
		return revision > 0, err
	})
	if err != nil {
		return err
	}
	var lines []string
	for value, what := range last.done {
		lines = append(lines, value+" "+what)
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(u.out, line)
	}
	if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, " "+keptBecause) }) {
		return ErrFound // the rest may be undone later
	}
	return os.Rename(u.journal, u.journal+undoneSuffix)
}

// undoneSuffix is that of a journal whose changes are all undone.
const undoneSuffix = ".undone"

// keptBecause is before the reason why a value is kept as it is.
const keptBecause = "kept: "

// reversal is how the changes are reversed at a state.
type reversal struct {
	state *clusterstate.State
	// ranges are those of the journal, with the changes reversed.
	ranges []*held
	// done is what happens to each value, by the name of its range and the value.
	done map[string]string
	// released is the number of values that are released.
	released int
}

func (r *reversal) close() {
	for _, h := range r.ranges {
		h.object.Close()
	}
}

// look reads the cluster and reverses the changes in memory. A second look releases only values that the first one releases, too.
func (u *undo) look(ctx context.Context, j *changes, first *reversal) (_ *reversal, err error) {
	state, err := clusterstate.ReadEtcd(ctx, u.store.client, clusterstate.Options{Prefix: u.store.prefix})
	if err == nil {
		err = state.CheckReadable()
	}
	if err != nil {
		return nil, err
	}
	r := &reversal{state: state, done: map[string]string{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	users := audit.Users(state)
	for _, one := range j.Ranges {
		h, err := u.store.hold(ctx, state, users, one.Name)
		if err != nil {
			return nil, err
		}
		r.ranges = append(r.ranges, h)
		if h.values.String() != one.Range {
			return nil, fmt.Errorf("%s: %w: %s is %s, not %s", u.journal, errChanged, one.Name, h.values, one.Range)
		}
		err = h.change(func(h *held, a *rangekeeper.Allocator) error { return u.reverse(ctx, j, one, h, a, first, r) })
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// reverse reverses the changes of one range.
func (u *undo) reverse(ctx context.Context, j *changes, one rangeChanges, h *held, a *rangekeeper.Allocator, first, r *reversal) error {
	var leaked []string
	if err := eachValue(one, func(value rangekeeper.Value, text string, set bool) error {
		if set && a.Has(value) && len(h.users[value]) == 0 {
			leaked = append(leaked, text)
		}
		return nil
	}); err != nil {
		return err
	}
	kept, err := u.allocatedAgain(ctx, j, one.Name, h, leaked, first)
	if err != nil {
		return err
	}
	return eachValue(one, func(value rangekeeper.Value, text string, set bool) (err error) {
		name, what := one.Name+" "+text, ""
		switch by := strings.Join(h.users[value], ", "); {
		case set && !a.Has(value):
			what = alreadyFree
		case set && by != "":
			what = keptBecause + "used by " + by
		case set && kept[text] != "":
			what = keptBecause + kept[text]
		case set && first != nil && first.done[name] != changeReleased:
			what = first.done[name]
		case set:
			what = changeReleased
			r.released++
			_, err = a.Release(value)
		case !a.Has(value):
			what = changeAllocated
			err = a.Allocate(value)
		default:
			if what = keptBecause + "allocated again"; j.Outcome == outcomeUnknown {
				what += ", or never cleared"
			}
		}
		r.done[name] = what
		return err
	})
}

// allocatedAgain returns why values that the repair has set, and that no Service uses, may have been allocated by another client: the
// record of a value does not say whose it is. A first look reads the versions of the range since the repair, a second one those
// since the first.
func (u *undo) allocatedAgain(ctx context.Context, j *changes, name string, h *held, values []string, first *reversal) (map[string]string, error) {
	const again, unsure = "allocated again", "may have been allocated again"
	because, freed, err := again, values, error(nil)
	switch {
	case first != nil:
		freed, err = u.store.freedSince(ctx, h, first.state.Ranges[name].ModRevision, name, values)
	case j.Outcome == outcomeUnknown:
		because = unsure
	default:
		if freed, err = u.store.freedSince(ctx, h, j.WrittenRevision, name, values); errors.Is(err, rpctypes.ErrCompacted) {
			because, freed, err = unsure, values, nil
		}
	}
	kept := map[string]string{}
	for _, value := range freed {
		kept[value] = because
	}
	return kept, err
}
