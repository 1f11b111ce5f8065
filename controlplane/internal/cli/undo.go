package cli

import (
	"context"
	"fmt"
	"io"
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

// undo is one run of the command.
type undo struct {
	store   store
	journal string
	out     io.Writer
}

func newUndo() *cobra.Command {
	u := new(undo)
	c := &cobra.Command{
		Use:   "undo JOURNAL",
		Short: "Reverse a repair that was made by a reviewed plan",
		Long: `Reverses what "repair --apply --plan" has written, for 24 hours: records the values that it
cleared, and clears those that it set. JOURNAL is the file that the repair wrote beside
its plan, and is removed. A value that a Service uses stays recorded, and so does one
that was allocated again; the command prints each value with what it did.`,
		Example: "  rangekeeper undo plan.json.journal \\\n    --endpoints http://127.0.0.1:2379",
		Args:    usage.Arguments,
		RunE: func(c *cobra.Command, args []string) error {
			u.journal, u.out = args[0], c.OutOrStdout()
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
	var lines []string
	var kept bool
	err = untilWritten(u.journal, func() (written bool, err error) {
		lines, kept, written, err = u.try(ctx, j)
		return written, err
	})
	if err != nil {
		return err
	}
	if err := os.Remove(u.journal); err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(u.out, line)
	}
	return foundIf(kept, nil)
}

// try reverses the changes in one transaction. It returns a line about each value, and whether one is kept as it is.
func (u *undo) try(ctx context.Context, j *changes) (lines []string, kept, written bool, err error) {
	s := &u.store
	state, err := clusterstate.ReadEtcd(ctx, s.client, clusterstate.Options{Prefix: s.prefix})
	if err == nil {
		err = state.CheckReadable()
	}
	if err != nil {
		return nil, false, false, err
	}
	users := audit.Users(state)
	var ranges []*held
	for _, one := range j.Ranges {
		h, err := s.hold(ctx, state, users, one.Name)
		if err != nil {
			return nil, false, false, err
		}
		defer h.object.Close()
		ranges = append(ranges, h)
		if h.values.String() != one.Range {
			return nil, false, false, fmt.Errorf("%s: %w: %s is %s, not %s", u.journal, errChanged, one.Name, h.values, one.Range)
		}
		err = h.change(func(h *held, a *rangekeeper.Allocator) error {
			return eachValue(one, func(value rangekeeper.Value, text string, set bool) error {
				line := one.Name + " " + text + " "
				switch by := strings.Join(users[value], ", "); {
				case set && by != "":
					line, kept = line+"kept: used by "+by, true
				case set:
					if _, err := a.Release(value); err != nil {
						return err
					}
					line += changeReleased
				case a.Has(value):
					if line, kept = line+"kept: allocated again", true; j.Outcome == outcomeUnknown {
						line += ", or never cleared"
					}
				default:
					if err := a.Allocate(value); err != nil {
						return err
					}
					line += changeAllocated
				}
				lines = append(lines, line)
				return nil
			})
		})
		if err != nil {
			return nil, false, false, err
		}
	}
	slices.Sort(lines)
	written, err = s.swap(ctx, state.Revision, ranges...)
	return lines, kept, written, err
}
