package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
is kept, and is renamed to JOURNAL.undone when all is undone. Each range is written as a
whole.

A value is released if it was recorded all the time since the repair, and if no Service uses
it now or a minute later, for which the command waits. A value that was
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
	if strings.HasSuffix(u.journal, undoneSuffix) {
		return fmt.Errorf("%s: all of it was undone", u.journal)
	}
	// What was not written is not undone.
	j.Ranges = slices.DeleteFunc(j.Ranges, func(one rangeChanges) bool { return one.Outcome == outcomePending })
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
	ranges, err := s.newEditors(j, func(ctx context.Context, at int64) (*clusterstate.State, error) {
		state, err := s.lookReadable(ctx, at)
		if err == nil {
			err = j.checkCluster(u.journal, state)
		}
		return state, err
	})
	defer closeAll(ranges)
	if err != nil {
		return err
	}
	report := undoReport{APIVersion: audit.APIVersion, Kind: kindUndo, DryRun: u.dryRun, Values: []undoneValue{}}
	released := 0
	var done []map[string]undone
	for i, e := range ranges {
		set, clear, err := j.Ranges[i].values()
		if err != nil {
			return err
		}
		first, err := u.edit(ctx, e, &j.Ranges[i], rangekeeper.Edit{Set: clear, Clear: set}, true, &report)
		if err != nil {
			return err
		}
		done = append(done, first)
		for _, what := range first {
			if what.Result == changeReleased {
				released++
			}
		}
	}
	if !u.dryRun {
		if released > 0 {
			if err := awaitLeakAge(ctx, u.log, released); err != nil {
				return err
			}
		}
		for i, e := range ranges {
			if err := u.reverse(ctx, e, &j.Ranges[i], done[i], &report); err != nil {
				return err
			}
		}
	}
	for i, e := range ranges {
		for text, what := range done[i] {
			report.Values = append(report.Values, undoneValue{e.name, text, what})
		}
	}
	isKept := false
	for _, value := range report.Values {
		isKept = isKept || value.Result == undoKept
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

// reverse reverses the changes of one range, of whose values done says what the first look made of them. It releases what that would
// release, too; of the other values it says what they are by now.
func (u *undo) reverse(ctx context.Context, e *editor, one *rangeChanges, done map[string]undone, report *undoReport) error {
	set, clear, err := one.values()
	if err != nil {
		return err
	}
	isReleased := func(value rangekeeper.Value) bool { return done[value.String()].Result == changeReleased }
	others := slices.DeleteFunc(slices.Clone(set), isReleased)
	set = slices.DeleteFunc(set, func(value rangekeeper.Value) bool { return !isReleased(value) })
	written, err := u.edit(ctx, e, one, rangekeeper.Edit{Set: clear, Clear: set}, false, report)
	if err != nil {
		return err
	}
	now, err := u.edit(ctx, e, one, rangekeeper.Edit{Clear: others}, true, report)
	for text, what := range now {
		if what.Result != changeReleased {
			done[text] = what
		}
	}
	maps.Copy(done, written)
	return err
}

// edit makes a change, or says what it would do, and returns what becomes of each value, by its text. A value that the repair has set is
// released if it was recorded all the time since: the record of a value does not say whose it is. While the outcome of the repair is
// unknown, so is that.
func (u *undo) edit(ctx context.Context, e *editor, one *rangeChanges, change rangekeeper.Edit, dryRun bool, report *undoReport) (map[string]undone, error) {
	change.Kind, change.Since = rangekeeper.EditUndo, one.WrittenRevision
	edited, state, err := e.run(ctx, change, dryRun, func(*clusterstate.State) error { return nil })
	if mismatched := (*rangekeeper.MismatchedRangeError)(nil); errors.As(err, &mismatched) {
		return nil, fmt.Errorf("%s: %w: %s is %s, not %s", u.journal, errChanged, one.Name, mismatched.Found, one.Range)
	}
	if errors.Is(err, rangekeeper.ErrNotInitialised) {
		return nil, u.store.missing(ctx, one.Name)
	}
	if err != nil {
		return nil, err
	}
	if !dryRun && edited.Revision > state.Revision {
		report.WrittenRevision = edited.Revision
	}
	report.Source = sourceOf(kindEtcd, u.store.connection.String(), state)
	users, err := audit.Users(state)
	all := map[string]undone{}
	for _, value := range edited.Values {
		all[value.Value.String()] = result(value, users[value.Value])
	}
	return all, err
}

// result says what becomes of a value that Services use.
func result(value rangekeeper.EditedValue, users []string) undone {
	switch value.Fate {
	case rangekeeper.FateSet:
		return undone{Result: changeAllocated}
	case rangekeeper.FateAlreadySet: // by an earlier undo, or as it was allocated again
		return undone{Result: alreadyRecorded}
	case rangekeeper.FateCleared:
		return undone{Result: changeReleased}
	case rangekeeper.FateAlreadyClear:
		return undone{Result: alreadyFree}
	case rangekeeper.FateInUse:
		return kept("used by " + strings.Join(users, ", "))
	case rangekeeper.FateReallocated:
		return kept("allocated again")
	}
	return kept("may have been allocated again")
}
