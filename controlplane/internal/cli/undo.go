package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// kindUndo is the kind of the document of an undo.
const kindUndo = "RepairUndo"

// undoneSuffix is that of a journal whose changes are all undone.
const undoneSuffix = ".undone"

// undo is one run of the command.
type undo struct {
	store   store
	journal string
	dryRun  bool
	format  *string
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
its plan; another cluster than the one it was made for refuses it. It stays as long as a value
is kept, and is renamed to JOURNAL.undone when all is undone. All is written in one
transaction.

A value is released if it was recorded all the time since the repair, and if no Service uses
it and it stays recorded for a minute, for which the command waits. A value that was
allocated again stays recorded, and so does one that may have been: etcd keeps old versions
of a range for some minutes only, and an interrupted repair left no time of its write. If
such a value is a leak, "repair --apply --clean-leaks" clears it.

Each value is printed with "allocated" or "released", with "recorded" or "free" if it was so
already, or with "kept" and the reason. The exit code is 1 if one is kept: run the command
again when the reason is gone. With --dry-run nothing is written or waited for.`,
		Example: "  rangekeeper undo plan.json.journal --dry-run \\\n    --endpoints http://127.0.0.1:2379",
		Args:    usage.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			u.journal, u.out, u.log = args[0], c.OutOrStdout(), c.ErrOrStderr()
			return nameStore(&u.store.connection, u.run(c.Context()))
		},
	}
	u.format = addFormat(c, formatTable, formatJSON, formatYAML)
	c.Flags().BoolVar(&u.dryRun, "dry-run", false, "show what would be undone now, and write nothing")
	u.store.connection.AddFlags(c, "use a running etcd at these URLs")
	usage.Required(c, "endpoints")
	return c
}

// undoReport is the document of an undo.
type undoReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is what was read last.
	Source *audit.Source `json:"source"`
	// DryRun says that nothing was written.
	DryRun bool `json:"dryRun"`
	// WrittenRevision is that of the write; 0 if nothing was written.
	WrittenRevision int64 `json:"writtenRevision,omitempty"`
	// Values are those that the repair has changed, by range and value.
	Values []undoneValue `json:"values"`
}

// undoneValue is what becomes of a value.
type undoneValue struct {
	Range string `json:"range"`
	Value string `json:"value"`
	undone
}

// undone is what becomes of a value: changeAllocated, changeReleased, alreadyRecorded, alreadyFree or undoKept.
type undone struct {
	Result string `json:"result"`
	// Reason is why the value is kept.
	Reason string `json:"reason,omitempty"`
}

// alreadyRecorded is the result of a value that the repair cleared and that is recorded, so it need not be recorded again.
const alreadyRecorded = "recorded"

// undoKept is the result of a value that stays as it is.
const undoKept = "kept"

func kept(reason string) undone { return undone{undoKept, reason} }

func (u *undo) run(ctx context.Context) error {
	j, err := readChanges(u.journal, kindJournal)
	if err != nil {
		return err
	}
	if age := time.Since(j.Time); age > undoFor {
		return fmt.Errorf("%s: is %s old; a repair can be undone for %s", u.journal, age.Round(time.Minute), undoFor)
	}
	if _, err := os.Stat(u.journal + undoneSuffix); err == nil && !u.dryRun {
		return fmt.Errorf("%s%s: is of an earlier undo; rename it first", u.journal, undoneSuffix)
	}
	s := &u.store
	s.prefix = j.Cluster.Prefix
	if err := s.open(ctx, false); err != nil {
		return err
	}
	defer s.close()
	last, err := u.look(ctx, j, nil)
	if err != nil {
		return err
	}
	last.close()
	report := undoReport{APIVersion: audit.APIVersion, Kind: kindUndo, DryRun: u.dryRun, Values: []undoneValue{}}
	if !u.dryRun {
		revision := int64(0)
		if last, revision, err = u.write(ctx, j, last); err != nil {
			return err
		}
		if revision > last.state.Revision {
			report.WrittenRevision = revision
		}
	}
	report.Source = sourceOf(kindEtcd, s.connection.String(), last.state)
	isKept := false
	for at, what := range last.done {
		report.Values = append(report.Values, undoneValue{at.name, at.value, what})
		isKept = isKept || what.Result == undoKept
	}
	slices.SortFunc(report.Values, func(a, b undoneValue) int {
		return cmp.Or(cmp.Compare(a.Range, b.Range), audit.CompareValues(a.Value, b.Value))
	})
	if err := u.print(report); err != nil {
		return err
	}
	switch {
	case isKept:
		return ErrFound // the rest may be undone later
	case u.dryRun:
		return nil
	}
	err = os.Rename(u.journal, u.journal+undoneSuffix)
	if errors.Is(err, fs.ErrNotExist) { // another undo has done it
		return nil
	}
	return err
}

// write writes what can be undone, and returns what that was and the revision of the write, or that of the state if nothing was written.
func (u *undo) write(ctx context.Context, j *changes, first *reversal) (last *reversal, revision int64, err error) {
	if first.released > 0 {
		if err := awaitLeakAge(ctx, u.log, first.released); err != nil {
			return nil, 0, err
		}
	}
	err = untilWritten(u.journal, func() (bool, error) {
		if last, err = u.look(ctx, j, first); err != nil {
			return false, err
		}
		defer last.close()
		revision, err = u.store.swap(ctx, last.state.Revision, last.ranges...)
		return revision > 0, err
	})
	return last, revision, err
}

func (u *undo) print(report undoReport) error {
	if *u.format != formatTable {
		return writeDocument(u.out, report, *u.format)
	}
	for _, value := range report.Values {
		what := value.Result
		if value.Reason != "" {
			what += ": " + value.Reason
		}
		if report.DryRun {
			what += " (dry run)"
		}
		if _, err := fmt.Fprintln(u.out, value.Range, value.Value, what); err != nil {
			return err
		}
	}
	return nil
}

// valueOf is a value of a range.
type valueOf struct{ name, value string }

// reversal is how the changes are reversed at a state.
type reversal struct {
	state *clusterstate.State
	// ranges are those of the journal, with the changes reversed.
	ranges []*held
	// done is what becomes of each value.
	done map[valueOf]undone
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
		err = j.checkCluster(u.journal, state)
	}
	if err == nil {
		err = state.CheckReadable()
	}
	if err != nil {
		return nil, err
	}
	r := &reversal{state: state, done: map[valueOf]undone{}}
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
	again, err := u.allocatedAgain(ctx, j, one.Name, h, leaked, first)
	if err != nil {
		return err
	}
	return eachValue(one, func(value rangekeeper.Value, text string, set bool) (err error) {
		at, what := valueOf{one.Name, text}, undone{}
		switch by := strings.Join(h.users[value], ", "); {
		case set && !a.Has(value):
			what.Result = alreadyFree
		case set && by != "":
			what = kept("used by " + by)
		case set && again[text] != "":
			what = kept(again[text])
		case set && first != nil && first.done[at].Result != changeReleased:
			what = first.done[at]
		case set:
			what.Result = changeReleased
			r.released++
			_, err = a.Release(value)
		case !a.Has(value):
			what.Result = changeAllocated
			err = a.Allocate(value)
		default:
			what.Result = alreadyRecorded // by an earlier undo, or as it was allocated again
		}
		r.done[at] = what
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
	all := map[string]string{}
	for _, value := range freed {
		all[value] = because
	}
	return all, err
}
