package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// rangeWatch watches one stored range.
type rangeWatch struct {
	client *clientv3.Client
	key    string
	parse  func(string) (rangekeeper.Range, error)

	// The stored state as far as reported; values is zero if there is no object.
	values rangekeeper.Range
	data   []byte
	// restored has the revisions of a restore that was noticed.
	restored chan error
}

// wentBack says that a store has an older revision than it had reached.
func wentBack(before, now int64) string {
	return fmt.Sprintf("the store went back from revision %d to %d, as after a restore from a backup", before, now)
}

// errRestored: changes after the revision of a watch are none of what is stored now.
var errRestored = errors.New("the store was restored")

// watch reports all changes until the context is done; the first report has none.
func (w *rangeWatch) watch(ctx context.Context, report func([]change, int64) error) error {
	// If the history is compacted before it is reported, or lost by a restore, the watch resumes from the state that is
	// stored then.
	for first := true; ; first = false {
		from, err := w.catchUp(ctx, first, report)
		if err == nil {
			err = w.follow(ctx, from, report)
		}
		if ctx.Err() != nil || !errors.Is(err, rpctypes.ErrCompacted) && !errors.Is(err, errRestored) {
			return etcdflags.Explained(err)
		}
	}
}

// ask returns an error once etcd has not answered for the timeout: a watch itself waits for ever. After a restore it
// has the watch begin again, which would wait for the revision that it had reached.
func (w *rangeWatch) ask(ctx context.Context, reached int64, timeout time.Duration, log io.Writer) error {
	ticker := time.NewTicker(min(askInterval, timeout))
	defer ticker.Stop()
	for answered, silent := time.Now(), false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		asked, cancel := context.WithTimeout(ctx, askInterval)
		got, err := w.client.Get(asked, w.key, clientv3.WithKeysOnly())
		cancel()
		if err == nil {
			if now := got.Header.Revision; now < reached {
				fmt.Fprintln(log, "rangekeeper:", wentBack(reached, now))
				select {
				case w.restored <- errRestored:
				case <-ctx.Done():
				}
			}
			reached = got.Header.Revision
		}
		if err = etcdflags.Explained(err); ctx.Err() != nil {
			return ctx.Err()
		}
		switch gone := errors.Is(err, clusterstate.ErrUnreachable); {
		case !gone && silent:
			fmt.Fprintln(log, "rangekeeper: etcd answers again")
			fallthrough
		case !gone:
			answered, silent = time.Now(), false
		case time.Since(answered) >= timeout:
			return fmt.Errorf("watch %s: no answer for %s: %w", w.key, timeout, err)
		case !silent:
			silent = true
			fmt.Fprintf(log, "rangekeeper: etcd does not answer, so changes are not seen; the watch ends after %s without an answer\n", timeout)
		}
	}
}

// catchUp reads the object and, except for the first time, reports how it differs from
// the state known before. It returns the revision of the read.
func (w *rangeWatch) catchUp(ctx context.Context, first bool, report func([]change, int64) error) (int64, error) {
	readCtx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	got, err := w.client.Get(readCtx, w.key)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", w.key, err)
	}
	var kv *mvccpb.KeyValue
	revision := got.Header.Revision
	if len(got.Kvs) > 0 {
		kv = got.Kvs[0]
	}
	changes, err := w.next(kv, revision)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", w.key, err)
	}
	if first {
		changes = nil
	}
	return revision, report(changes, revision)
}

// follow reports all changes after a revision.
func (w *rangeWatch) follow(ctx context.Context, after int64, report func([]change, int64) error) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	go func() {
		select {
		case err := <-w.restored:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	for response := range w.client.Watch(ctx, w.key, clientv3.WithRev(after+1)) {
		for _, event := range response.Events {
			kv := event.Kv
			if event.Type == mvccpb.Event_DELETE {
				kv = nil
			}
			changes, err := w.next(kv, event.Kv.ModRevision)
			if err != nil {
				return fmt.Errorf("%s at revision %d: %w", w.key, event.Kv.ModRevision, err)
			}
			if err := report(changes, event.Kv.ModRevision); err != nil {
				return err
			}
		}
		if err := response.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch %s: %w", w.key, err)
		}
	}
	return fmt.Errorf("watch %s: %w", w.key, context.Cause(ctx))
}

// next records the key as stored now, nil for none, and returns the changes.
func (w *rangeWatch) next(kv *mvccpb.KeyValue, revision int64) ([]change, error) {
	spec, data, err := "", []byte(nil), error(nil)
	if kv != nil {
		if spec, data, err = clusterstate.DecodeRange(kv.Value); err != nil {
			return nil, err
		}
	}
	var changes []change
	add := func(what string, value any) {
		changes = append(changes, newChange(what, fmt.Sprint(value), revision))
	}
	if spec == "" { // an object that is not initialised is as good as none
		if w.values != (rangekeeper.Range{}) {
			add(changeDeleted, w.values)
		}
		w.values, w.data = rangekeeper.Range{}, nil
		return changes, nil
	}
	values, err := w.parse(spec)
	if err != nil {
		return nil, err
	}
	if w.values.String() != values.String() {
		w.values, w.data = values, nil
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
