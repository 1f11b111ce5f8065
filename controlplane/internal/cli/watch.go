package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const formatText = "text"

// The types of changes.
const (
	changeAllocated = "allocated"
	changeReleased  = "released"
	// changeCreated: the object was made, or is for another range now; what is
	// allocated in it comes next.
	changeCreated = "created"
	changeDeleted = "deleted"
)

// change is one thing that has happened to a range.
type change struct {
	Type string `json:"type"`
	// Value is the address or port; of changeCreated and changeDeleted the range.
	Value string `json:"value"`
	// Revision is etcd's revision of the change.
	Revision int64 `json:"revision"`
}

func newWatch() *cobra.Command {
	c := &cobra.Command{
		Use:   "watch RANGE",
		Short: "Print allocations and releases as they happen",
		Long: `Prints each allocation and release, by any client, on a line of its own until it is
interrupted: "allocated" or "released", the value, and etcd's revision. If the object
of the range is deleted, it prints "deleted"; if it is recreated, or created for
another range, it prints "created" and then what is allocated in it.

` + rangesHelp + ` Other commands reach that one meanwhile at a URL that is printed on
stderr.

Exit codes: 0 interrupted, 2 wrong usage or input that cannot be used, 3 etcd cannot
be reached.`,
		Example: `  rangekeeper watch serviceips --endpoints http://127.0.0.1:2379
  rangekeeper watch servicenodeports -o json`,
		Args: cobra.ExactArgs(1),
	}
	format := addFormat(c, formatText, formatJSON)
	withStore(c, func(c *cobra.Command, args []string, s *store) error {
		if err := format.check(); err != nil {
			return err
		}
		if err := s.open(c.Context(), false); err != nil {
			return err
		}
		if s.etcd != nil {
			fmt.Fprintf(s.log, "rangekeeper: other commands reach this etcd with --endpoints %s\n", s.etcd.Endpoints()[0])
		}
		k, err := s.stored(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer k.close()
		began := false
		out := bufio.NewWriter(c.OutOrStdout())
		err = k.watch(c.Context(), func(changes []change, revision int64) error {
			if !began {
				began = true
				fmt.Fprintf(s.log, "rangekeeper: watching %s %s after revision %d\n", s.key(args[0]), k.spec(), revision)
			}
			for _, change := range changes {
				if format.value == formatJSON {
					line, err := json.Marshal(change)
					if err != nil {
						return err
					}
					fmt.Fprintf(out, "%s\n", line)
				} else {
					fmt.Fprintln(out, change.Type, change.Value, "revision", change.Revision)
				}
			}
			return out.Flush()
		})
		if c.Context().Err() != nil {
			return nil
		}
		return err
	})
	return c
}

// watched is what a range is known to hold.
type watched[V rangekeeper.Value] struct {
	kind valueKind[V]
	// spec is empty if there is no object.
	spec   string
	values rangekeeper.Range[V]
	data   []byte
}

func (k *keptRange[V]) watch(ctx context.Context, tell func([]change, int64) error) error {
	known := watched[V]{kind: k.kind}
	// If the history is compacted faster than it is told, it goes on with what is
	// stored then.
	for first := true; ; first = false {
		from, err := k.catchUp(ctx, &known, first, tell)
		if err == nil {
			err = k.follow(ctx, &known, from, tell)
		}
		if ctx.Err() != nil || !errors.Is(err, rpctypes.ErrCompacted) {
			return unreachable(err)
		}
	}
}

// catchUp reads the object and tells how it differs from what was known, but for
// the first time. It gives the revision after which changes are to come.
func (k *keptRange[V]) catchUp(ctx context.Context, known *watched[V], first bool, tell func([]change, int64) error) (int64, error) {
	readCtx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	got, err := k.client.Get(readCtx, k.key)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", k.key, err)
	}
	var kv *mvccpb.KeyValue
	revision := got.Header.Revision
	if len(got.Kvs) > 0 {
		kv = got.Kvs[0]
	}
	changes, err := known.next(kv, revision)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", k.key, err)
	}
	if first {
		changes = nil
	}
	return revision, tell(changes, revision)
}

// follow tells all changes after a revision.
func (k *keptRange[V]) follow(ctx context.Context, known *watched[V], after int64, tell func([]change, int64) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for response := range k.client.Watch(ctx, k.key, clientv3.WithRev(after+1)) {
		for _, event := range response.Events {
			kv := event.Kv
			if event.Type == mvccpb.Event_DELETE {
				kv = nil
			}
			changes, err := known.next(kv, event.Kv.ModRevision)
			if err != nil {
				return fmt.Errorf("%s at revision %d: %w", k.key, event.Kv.ModRevision, err)
			}
			if err := tell(changes, event.Kv.ModRevision); err != nil {
				return err
			}
		}
		if err := response.Err(); err != nil {
			return fmt.Errorf("watch %s: %w", k.key, err)
		}
	}
	return fmt.Errorf("watch %s: %w", k.key, context.Cause(ctx))
}

// next takes in what is stored now, nil if nothing, and gives what has changed.
func (w *watched[V]) next(kv *mvccpb.KeyValue, revision int64) ([]change, error) {
	spec, data, err := "", []byte(nil), error(nil)
	if kv != nil {
		if spec, data, err = decode(kv.Value); err != nil {
			return nil, err
		}
	}
	var changes []change
	add := func(what string, value any) {
		changes = append(changes, change{what, fmt.Sprint(value), revision})
	}
	if spec == "" { // an object that is not initialised is as good as none
		if w.spec != "" {
			add(changeDeleted, w.spec)
		}
		w.spec, w.data = "", nil
		return changes, nil
	}
	values, err := w.kind.parseRange(spec)
	if err != nil {
		return nil, err
	}
	if w.spec != values.String() {
		w.spec, w.values, w.data = values.String(), values, nil
		add(changeCreated, values)
	}
	differences, err := w.values.Changes(w.data, data)
	if err != nil {
		return nil, err
	}
	w.data = data
	for _, d := range differences {
		what := changeReleased
		if d.Allocated {
			what = changeAllocated
		}
		add(what, d.Value)
	}
	return changes, nil
}
