package edit

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
)

// markTime is how long a mark stays: longer than what was written can be undone.
const markTime = undoFor + time.Hour

// putMark puts the mark of a journal, before the first write and after each: a key in etcd with a random name, which an
// etcd that was restored from an older state does not have. The revisions of the journal are those of the history that
// has it.
func (c *Changes) putMark(ctx context.Context, stored *ranges.Store) error {
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	mark := rand.Text()
	lease, err := stored.Client.Grant(ctx, int64(markTime/time.Second))
	if err == nil {
		_, err = stored.Client.Put(ctx, markKey(stored.Prefix, mark), "", clientv3.WithLease(lease.ID))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", markKey(stored.Prefix, mark), etcdflags.Explained(err))
	}
	c.Mark = mark
	return nil
}

// checkMark fails if the document has a mark, and etcd did not have it at the revision of a state. Else a write that
// depends on a look at that revision is of the history of the document.
func (c *Changes) checkMark(ctx context.Context, stored *ranges.Store, state *clusterstate.State) error {
	if c.Mark == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ranges.OperationTimeout)
	defer cancel()
	found, err := stored.Client.Get(ctx, markKey(stored.Prefix, c.Mark), clientv3.WithRev(state.Revision), clientv3.WithKeysOnly())
	if err != nil {
		return etcdflags.Explained(err)
	}
	if len(found.Kvs) == 0 {
		return fmt.Errorf("%s: etcd has no %s: it was restored from an older state since; nothing was written", c.file, markKey(stored.Prefix, c.Mark))
	}
	return nil
}

// markKey returns the key of a mark. The audit takes no key below another one of the ranges for a range.
func markKey(prefix, mark string) string { return clusterstate.RangeKey(prefix, "journal/"+mark) }
