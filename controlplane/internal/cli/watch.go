package cli

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

const formatText = "text"

// The types of changes.
const (
	changeAllocated = "allocated"
	changeReleased  = "released"
	// changeCreated: the object was created, or is for another range now; its
	// allocated values come next.
	changeCreated = "created"
	changeDeleted = "deleted"
)

// change is one thing that has happened to a range.
type change struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Type       string `json:"type"`
	// Value is the address or port; of changeCreated and changeDeleted the range.
	Value string `json:"value"`
	// Revision is etcd's revision of the change.
	Revision int64 `json:"revision"`
}

func newChange(what, value string, revision int64) change {
	return change{audit.APIVersion, audit.KindRangeChange, what, value, revision}
}

func newWatch(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "watch RANGE",
		Short: "Print allocations and releases as they happen",
		Long: `Prints each allocation and release, by any client, on a line of its own until it is
interrupted: "allocated" or "released", the value, and etcd's revision. If the object
of the range is deleted, it prints "deleted"; if it is recreated, or created for
another range, it prints "created" and then its allocated values. If etcd does not
answer, or goes back to an older revision as after a restore, a line on stderr says so
within seconds; after a restore, what differs is printed.

` + p.rangesHelp(),
		Example: `  rangekeeper watch serviceips --endpoints http://127.0.0.1:2379
  rangekeeper watch servicenodeports -o json \
    --endpoints http://127.0.0.1:2379`,
		Args: usage.Arguments,
	}
	format := screen.AddFormat(c, formatText, screen.FormatJSON)
	var timeout time.Duration
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "end with exit code 3 after etcd has not answered for this long")
	usage.CompleteNothing(c, "timeout")
	ranges.Add(c, p.AddLocal, func(c *cobra.Command, args []string, s *ranges.Store) error {
		if err := s.Open(c.Context(), false); err != nil {
			return err
		}
		if s.InProcess() {
			fmt.Fprintf(s.Log, "rangekeeper: other commands reach this etcd with --endpoints %s\n", s.Client.Endpoints()[0])
		}
		values, err := s.Required(c.Context(), args[0])
		if err != nil {
			return err
		}
		w := rangeWatch{client: s.Client, key: s.Key(args[0]), parse: clusterstate.ParseRange(args[0]), restored: make(chan error)}
		ctx, end := context.WithCancelCause(c.Context())
		defer end(nil)
		began := false
		out := bufio.NewWriter(c.OutOrStdout())
		err = w.watch(ctx, func(changes []change, revision int64) error {
			if !began {
				began = true
				fmt.Fprintf(s.Log, "rangekeeper: watching %s %s after revision %d\n", w.key, values, revision)
				go func() { end(w.ask(ctx, revision, timeout, s.Log)) }()
			}
			for _, change := range changes {
				if *format == screen.FormatJSON {
					if err := screen.WriteOneOf(out, change, *format); err != nil {
						return err
					}
				} else {
					fmt.Fprintln(out, change.Type, change.Value, "revision", change.Revision)
				}
			}
			return out.Flush()
		})
		if c.Context().Err() != nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil { // the watch's own error is that it was ended
			return cause
		}
		return err
	})
	usage.AddRule(c, func([]string) error {
		if timeout <= 0 {
			return usage.Error(c, "--timeout is positive, not %s", timeout)
		}
		return nil
	})
	return c
}

// askInterval is the time between two questions whether etcd is there.
const askInterval = time.Second
