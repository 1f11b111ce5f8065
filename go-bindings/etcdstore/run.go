package etcdstore

import (
	"context"
	"errors"
	"strings"
	"time"
	"unsafe"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// requestTimeout is how long a request to etcd may take before its outcome counts as unknown.
const requestTimeout = 5 * time.Second

// After an error a watch is started again, but not at once: the cluster may have no leader for a while.
const watchPause = 100 * time.Millisecond

// watched is a report of a watch: changes, or its end.
type watched struct {
	changes []rangekeeper.Change
	ended   bool
	// compacted: there are changes that no watch can report any more.
	compacted bool
}

// driver is the state of run; no other goroutine sees it.
type driver struct {
	*Store
	calls     map[rangekeeper.Ticket]*call
	value     []byte
	stopWatch context.CancelFunc // nil while there is no watch
	reports   chan watched       // of that watch
	restores  int64              // that were reported

	watcher clientv3.Watcher
	// decided is when the committer was last asked for a step; all connections that were known before were reported.
	decided time.Time
}

// run carries out the committer's steps until ctx is done.
func (s *Store) run(ctx context.Context) {
	client := s.config.Client
	d := &driver{Store: s, calls: make(map[rangekeeper.Ticket]*call), watcher: s.connections.watcher(client)}
	go s.connections.await(ctx, client.ActiveConnection())
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer d.end()
	for ctx.Err() == nil {
		d.submitAll()
		d.decided = time.Now()
		d.drain()
		step, err := d.committer().Poll(s.now())
		if err != nil {
			if d.replace(err) != nil {
				return
			}
			d.pause(ctx)
			continue
		}
		switch step.Kind {
		case rangekeeper.StepFinished:
			d.deliver(step.Finished)
		case rangekeeper.StepWatch:
			d.startWatch(ctx, step.WatchFrom)
		case rangekeeper.StepStopWatch:
			d.endWatch()
		case rangekeeper.StepWait:
			timer.Reset(max(step.Until-s.now(), 0))
			d.wait(ctx, timer.C)
		case rangekeeper.StepIdle:
			d.wait(ctx, nil)
		default:
			d.perform(ctx, step)
		}
	}
}

// wait returns when something happens.
func (d *driver) wait(ctx context.Context, timeout <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-timeout:
	case <-d.wake:
	case <-d.connections.reconnected:
		d.committer().Reconnected(d.now())
	case w := <-d.reports:
		d.observe(w)
	}
}

func (d *driver) committer() *rangekeeper.Committer { return d.Store.committer.Load() }

// submitAll hands new operations and cancellations to the committer.
func (d *driver) submitAll() {
	d.reportWritten()
	d.mu.Lock()
	calls, cancelled := d.submitted, d.cancelled
	d.submitted, d.cancelled = nil, nil
	for _, c := range calls {
		c.taken = true
	}
	d.mu.Unlock()
	if len(calls) > 0 {
		d.hand(calls)
	}
	for _, c := range cancelled {
		if d.calls[c.ticket] == c { // it may have ended meanwhile, or never have had a ticket
			d.committer().Cancel(c.ticket)
		}
	}
}

// reportWritten reports to the committer whose Services are written: before each answer, which may be that of a
// restored etcd.
func (d *driver) reportWritten() {
	d.mu.Lock()
	written := d.written
	d.written = nil
	d.mu.Unlock()
	if len(written) > 0 {
		d.committer().Written(written...)
	}
}

// hand lets the committer take calls on, most of them in one crossing.
func (d *driver) hand(calls []*call) {
	together := make([]*call, 0, len(calls))
	operations := make([]rangekeeper.Operation, 0, len(calls))
	for _, c := range calls {
		if r := c.repair; r != nil {
			ticket, err := d.committer().SubmitRepair(r.deadline, r.pass, r.listed)
			d.handed(c, ticket, err)
			continue
		}
		if e := c.edit; e != nil {
			ticket, err := d.committer().SubmitEdit(e.deadline, e.edit)
			d.handed(c, ticket, err)
			continue
		}
		together, operations = append(together, c), append(operations, c.operation)
	}
	tickets, err := d.committer().Submit(operations...)
	for i, c := range together {
		d.handed(c, tickets[i], err)
	}
}

func (d *driver) handed(c *call, ticket rangekeeper.Ticket, err error) {
	if err == nil {
		c.ticket = ticket
		d.calls[ticket] = c
		return
	}
	c.done <- rangekeeper.Failed{Err: err}
	d.mu.Lock()
	d.ended(1)
	d.mu.Unlock()
}

// deliver hands out outcomes. A caller may have stopped waiting before the committer knew.
func (d *driver) deliver(finished []rangekeeper.Finished) {
	n := 0
	d.mu.Lock()
	for _, f := range finished {
		c := d.calls[f.Ticket]
		if c == nil {
			continue
		}
		delete(d.calls, f.Ticket)
		c.ended = true
		c.done <- f.Outcome
		n++
		if allocated, ok := f.Outcome.(rangekeeper.Allocated); ok && c.givenUp {
			d.committer().Abandon(allocated)
		}
	}
	d.ended(n)
	d.mu.Unlock()
	d.counters.operations.Add(int64(n))
}

// end answers all that has not ended.
func (d *driver) end() {
	d.endWatch()
	d.watcher.Close() // its error is that the watch was stopped
	if step, err := d.committer().Poll(d.now()); err == nil {
		d.deliver(step.Finished)
	}
	d.mu.Lock()
	left := d.submitted
	d.submitted = nil
	d.refuse()
	for _, c := range d.calls {
		left = append(left, c)
	}
	if d.pending > 0 {
		d.ended(d.pending)
	}
	d.mu.Unlock()
	for _, c := range left {
		c.done <- rangekeeper.Unknown{}
	}
	close(d.stopped)
}

// perform sends a request and reports to the committer how it ended.
func (d *driver) perform(ctx context.Context, step rangekeeper.Step) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if step.Kind == rangekeeper.StepSwap || step.Kind == rangekeeper.StepConfirm {
		ctx = overKnown(ctx, &knownBy{connections: d.connections, at: d.decided})
	}
	txn, err := d.transaction(ctx, step)
	if err != nil {
		return
	}
	response, err := txn.Commit()
	now := d.now()
	select {
	case <-d.connections.reconnected: // before the answer: it may be another etcd's
		d.committer().Reconnected(now)
	default:
	}
	switch {
	case err == nil:
	case step.Kind == rangekeeper.StepReadAt && errors.Is(err, rpctypes.ErrCompacted):
		d.committer().Compacted(now)
		return
	case isRefusal(err):
		d.counters.refused.Add(1)
		err, _ = ExplainKine(err)
		d.committer().Refused(now, err.Error())
		return
	default:
		d.counters.unknown.Add(1)
		d.committer().Unknown(now)
		return
	}
	answer := rangekeeper.Answer{
		ClusterID: response.Header.ClusterId, Revision: response.Header.Revision, RaftTerm: response.Header.RaftTerm,
		Held: response.Succeeded,
	}
	if !response.Succeeded && step.Kind != rangekeeper.StepRead && step.Kind != rangekeeper.StepReadAt {
		d.counters.conflicts.Add(1)
	}
	for _, one := range response.Responses {
		for _, kv := range one.GetResponseRange().GetKvs() {
			answer.Key, answer.Value = keyState(kv), kv.Value
		}
	}
	d.reportWritten()
	if step.Kind == rangekeeper.StepReadAt {
		d.committer().Past(now, answer)
		return
	}
	d.committer().Answered(now, answer)
	if !answer.Held && d.config.Restored != nil {
		d.noticeRestores()
	}
}

// noticeRestores reports restores that the committer has noticed since the last call.
func (d *driver) noticeRestores() {
	if restores := d.Stats().Restores; restores > d.restores {
		d.restores = restores
		d.config.Restored()
	}
}

// transaction returns the transaction of a step.
func (d *driver) transaction(ctx context.Context, step rangekeeper.Step) (clientv3.Txn, error) {
	key := d.config.Key
	read := clientv3.OpGet(key)
	var conditions []clientv3.Cmp
	var puts []clientv3.Op
	switch step.Kind {
	case rangekeeper.StepRead, rangekeeper.StepReadAt:
		d.counters.reads.Add(1)
		// A condition that never holds: a transaction reads linearizably, and answers in the form of the others.
		conditions = append(conditions, clientv3.Compare(clientv3.Version(key), "<", 0))
		if step.Kind == rangekeeper.StepReadAt {
			read = clientv3.OpGet(key, clientv3.WithRev(step.At))
		}
	case rangekeeper.StepConfirm:
		d.counters.confirms.Add(1)
		conditions = guard(key, step.Guard)
	case rangekeeper.StepSwap:
		d.counters.swaps.Add(1)
		var err error
		if d.value, err = d.committer().Value(d.value); err != nil {
			return nil, err
		}
		conditions = guard(key, step.Guard)
		if since := step.ServicesUnchangedSince; since > 0 {
			services := clientv3.Compare(clientv3.ModRevision(d.config.Services), "<", since+1).WithPrefix()
			conditions = append(conditions, services)
		}
		if step.Look != 0 {
			conditions = append(conditions, d.look(step.Look).IsThere())
		}
		// OpPut copies the text; another copy for each batch would keep the collector busy.
		puts = append(puts, clientv3.OpPut(key, unsafe.String(unsafe.SliceData(d.value), len(d.value))))
		switch step.Witness {
		case rangekeeper.PutWitness:
			puts = append(puts, clientv3.OpPut(WitnessKey(key), ""))
		case rangekeeper.DeleteWitness:
			puts = append(puts, fenceOp(key))
		}
	}
	return d.kv.Txn(ctx).If(conditions...).Then(puts...).Else(read), nil
}

// look returns the look with this number: one of the operations under way has it.
func (d *driver) look(number uint64) *Look {
	for _, c := range d.calls {
		if c.look != nil && c.look.number == number {
			return c.look
		}
	}
	return &Look{key: d.config.Key + "/look/"} // which is not there
}

func guard(key string, state rangekeeper.KeyState) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", state.ModRevision),
		clientv3.Compare(clientv3.Version(key), "=", state.Version),
		clientv3.Compare(clientv3.CreateRevision(key), "=", state.CreateRevision),
	}
}

func keyState(kv *mvccpb.KeyValue) rangekeeper.KeyState {
	return rangekeeper.KeyState{ModRevision: kv.ModRevision, Version: kv.Version, CreateRevision: kv.CreateRevision}
}

// isRefusal says of an error that etcd will not carry the request out, or not another time.
func isRefusal(err error) bool {
	for _, refusal := range []error{
		rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrCorrupt,
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrAuthNotEnabled,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	// A store that takes only some of etcd's requests, such as kine, answers the others so.
	code := status.Code(err)
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		code = e.Code()
	}
	if code == codes.ResourceExhausted && strings.Contains(err.Error(), "trying to send message larger than max") {
		return true // by the client, of a range of more than some 16 million values
	}
	return code == codes.InvalidArgument || code == codes.Unimplemented
}

// startWatch starts to watch the key.
func (d *driver) startWatch(ctx context.Context, from int64) {
	ctx, d.stopWatch = context.WithCancel(ctx)
	d.reports = make(chan watched)
	go d.follow(ctx, d.watcher, from, d.reports)
}

// endWatch ends the watch, if there is one.
func (d *driver) endWatch() {
	if d.stopWatch != nil {
		d.stopWatch()
		d.stopWatch, d.reports = nil, nil
	}
}

// follow reports to the driver all changes of the key from a revision on.
func (s *Store) follow(ctx context.Context, watcher clientv3.Watcher, from int64, reports chan watched) {
	tell := func(w watched) bool {
		select {
		case reports <- w:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for response := range watcher.Watch(clientv3.WithRequireLeader(ctx), s.config.Key, clientv3.WithRev(from)) {
		var w watched
		for _, event := range response.Events {
			change := rangekeeper.Change{Key: keyState(event.Kv), Value: event.Kv.Value}
			if event.Type == clientv3.EventTypeDelete {
				change = rangekeeper.Change{Key: rangekeeper.KeyState{ModRevision: event.Kv.ModRevision}}
			}
			w.changes = append(w.changes, change)
		}
		if errors.Is(response.Err(), rpctypes.ErrCompacted) {
			tell(watched{ended: true, compacted: true})
			return
		}
		if response.Err() != nil {
			break
		}
		if len(w.changes) > 0 && !tell(w) {
			return
		}
	}
	select {
	case <-time.After(watchPause):
		tell(watched{ended: true})
	case <-ctx.Done():
	}
}

// drain reports a new connection and the watch's reports to the committer, before the next request.
func (d *driver) drain() {
	for {
		select {
		case <-d.connections.reconnected:
			d.committer().Reconnected(d.now())
		case w := <-d.reports:
			d.observe(w)
		default:
			return
		}
	}
}

// observe passes a watch's report to the committer.
func (d *driver) observe(w watched) {
	if w.ended {
		d.endWatch()
		if w.compacted {
			d.committer().WatchFailed(d.now())
		} else {
			d.committer().WatchEnded(d.now())
		}
		return
	}
	d.committer().Watched(d.now(), w.changes...)
}
