package etcdstore

import "sync/atomic"

// Stats are the counters of a Store since it was opened.
type Stats struct {
	// Operations have ended; Swaps, Confirms and Reads are the requests to etcd that it took.
	Operations, Swaps, Confirms, Reads int64
	// Conflicts are compare-and-swaps and confirms that found another state, Unknown requests without an answer,
	// Refused those that etcd would not carry out.
	Conflicts, Unknown, Refused int64
	// Replaced committers have failed, by a fault of Rangekeeper.
	Replaced int64
	// Restores is how often another etcd, or an older state of it, has answered than before.
	Restores int64
}

type counters struct {
	operations, swaps, confirms, reads, conflicts, unknown, refused, replaced atomic.Int64
	// restores are those that committers had noticed that were replaced since.
	restores atomic.Int64
}

// Stats returns the counters of the store since it was opened.
func (s *Store) Stats() Stats {
	c := &s.counters
	return Stats{
		Operations: c.operations.Load(), Swaps: c.swaps.Load(), Confirms: c.confirms.Load(), Reads: c.reads.Load(),
		Conflicts: c.conflicts.Load(), Unknown: c.unknown.Load(), Refused: c.refused.Load(), Replaced: c.replaced.Load(),
		Restores: c.restores.Load() + int64(s.Known().Restores),
	}
}
