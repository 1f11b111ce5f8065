package etcdstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	// replacePause keeps a committer that fails again and again from taking a core.
	replacePause = 100 * time.Millisecond
	// unhealthyFor is how long Health reports that the committer was replaced.
	unhealthyFor = 5 * time.Minute
)

// failure is the last one of a committer.
type failure struct {
	sync.Mutex
	err error
	at  time.Time
}

// newCommitter has the store go on with a committer that knows nothing of the object yet.
func (s *Store) newCommitter() error {
	committer, err := rangekeeper.NewCommitter(s.config.Range, rangekeeper.CommitterConfig{
		Strategy: s.config.Strategy, Grace: s.config.Grace, Replace: s.config.Replace, Seed: rand.Uint64(),
	})
	if err == nil {
		s.committer.Store(committer)
	}
	return err
}

// replace replaces a committer that has failed by a new one. Operations of the old one have unknown outcomes. A new
// committer is safe: it reads before it writes, and clears only what it has seen in use.
func (d *driver) replace(reason error) error {
	d.counters.replaced.Add(1)
	d.failure.Lock()
	d.failure.err, d.failure.at = reason, time.Now()
	d.failure.Unlock()
	if d.config.Replaced != nil {
		d.config.Replaced(fmt.Errorf("%s: %w", d.config.Key, reason))
	}
	d.endWatch()
	old := d.committer()
	d.counters.restores.Add(int64(old.Known().Restores))
	if err := d.newCommitter(); err != nil {
		return err
	}
	old.Close()
	d.mu.Lock()
	calls := d.calls
	d.calls = make(map[rangekeeper.Ticket]*call)
	for _, c := range calls {
		c.ended = true
	}
	d.cancelled = nil
	d.ended(len(calls))
	d.mu.Unlock()
	for _, c := range calls {
		c.done <- rangekeeper.Unknown{}
	}
	return nil
}

func (d *driver) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(replacePause):
	}
}

// Health returns an error if the store's committer has failed in the last 5 minutes. The store goes on with a new one,
// but a fault of Rangekeeper should not stay unseen.
func (s *Store) Health() error {
	s.failure.Lock()
	defer s.failure.Unlock()
	if ago := time.Since(s.failure.at); s.failure.err != nil && ago < unhealthyFor {
		return fmt.Errorf("%s: the committer failed %s ago and was replaced: %w", s.config.Key, ago.Round(time.Second), s.failure.err)
	}
	return nil
}
