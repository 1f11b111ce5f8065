package etcdstore

import "sync/atomic"

// Stats counts what a Store has done since it was opened.
type Stats struct {
	// Operations have ended; Swaps, Confirms and Reads are the requests to etcd that it took.
	Operations, Swaps, Confirms, Reads int64
	// Conflicts are swaps and confirms that found another state, Unknown requests without an answer, Refused those that
	// etcd would not carry out.
	Conflicts, Unknown, Refused int64
}

type counters struct {
	operations, swaps, confirms, reads, conflicts, unknown, refused atomic.Int64
}

// Stats tells what the store has done since it was opened.
func (s *Store[V]) Stats() Stats {
	c := &s.counters
	return Stats{
		Operations: c.operations.Load(), Swaps: c.swaps.Load(), Confirms: c.confirms.Load(), Reads: c.reads.Load(),
		Conflicts: c.conflicts.Load(), Unknown: c.unknown.Load(), Refused: c.refused.Load(),
	}
}
