package repairloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// OverRegistry returns the range of a registry, which passes read by Get and write by CreateOrUpdate, with the
// ResourceVersion that was read. So a pass writes nothing if the range was written since, and ends with the registry's
// error, which is a conflict: what was allocated since is not cleared. rangeSpec is a CIDR, or ports as in
// "30000-32767"; each pass fails if it is neither.
//
// A leak is cleaned if as many passes as the reference needs have seen it, an interval apart. All are counted from the
// start once the range was written between the passes, but for what a [Follower] knows: then only those of the values
// that were changed. Once the object has an older ResourceVersion than before, or another content at the same one, its
// store was restored under the program: then a list of Services over an API server proves nothing, and passes set and
// clear nothing until the program restarts. A restore goes unnoticed if the object was written so often since that its
// ResourceVersion is a later one. between is time that is added between two passes, for tests that do not wait for the
// interval.
func OverRegistry(registry Registry, rangeSpec string, between time.Duration) repair.Range {
	values, err := rangekeeper.ParsePortRange(rangeSpec)
	if err != nil {
		if values, err = rangekeeper.ParseCIDR(rangeSpec); err != nil {
			return refusing{fmt.Errorf("range %q: %w", rangeSpec, err)}
		}
	}
	return &registered{registry: registry, values: values, between: between, started: time.Now(), store: 1, revision: 1}
}

// registered drives a committer over a registry, which it presents as a key of etcd.
type registered struct {
	registry  Registry
	values    rangekeeper.Range
	committer *rangekeeper.Committer // nil before the first pass, and after a fault of Rangekeeper

	started time.Time
	// between is added to skipped with each pass. skipped is how far the committer's clock is ahead.
	between, skipped time.Duration

	// read is what the pass has read; Repair writes it.
	read *corev1.RangeAllocation
	// writes is set during Repair.
	writes bool
	// The last known content of the key and its ResourceVersion, which some registries do not have; and the number of
	// that state. The key was created at revision 1 and is the only one: each revision is a version of it.
	content         content
	resourceVersion string
	revision        int64
	// store numbers the histories of the registry: a restored one is another store for the committer. newest is the
	// highest ResourceVersion of this one, 0 if its versions are no numbers.
	store, newest uint64
	// ahead are states that came after it and that the committer has not seen, the next one first.
	ahead []content
	// conflicts is how often another write came before that of the Repair under way.
	conflicts int
	// failure is the registry's error for the request under way.
	failure error
}

// maxConflicts is how many writes of its own program a pass gives way to.
const maxConflicts = 20

// content is what a registry stores.
type content struct{ text, data string }

func contentOf(object *corev1.RangeAllocation) content {
	return content{object.Range, string(object.Data)}
}

func (d *registered) now() time.Duration { return time.Since(d.started) + d.skipped }

func (d *registered) ReadForPass(_ context.Context, pass *rangekeeper.RepairPass) (view rangekeeper.View, needsFence bool, err error) {
	defer d.replaceIfPoisoned(&err)
	d.skipped += d.between
	if d.committer == nil {
		// It allocates nothing, so nothing needs the grace, which leaks would wait for. The range that the caller names
		// is the operator's word.
		config := rangekeeper.CommitterConfig{Grace: time.Millisecond, Replace: rangekeeper.ReplaceAlways}
		if d.committer, err = rangekeeper.NewCommitter(d.values, config); err != nil {
			return view, false, err
		}
	}
	if err := d.committer.BeginPass(pass); err != nil {
		return view, false, err
	}
	d.read = nil
	for isFirst := true; isFirst || len(d.ahead) > 0; isFirst = false {
		if _, err := d.committer.Submit(rangekeeper.ReadOperation(rangekeeper.NoDeadline)); err != nil {
			return view, false, err
		}
		outcome, err := d.run()
		if err != nil {
			return view, false, err
		}
		view = outcome.(rangekeeper.View)
	}
	needsFence, err = d.committer.PassRead(pass, view.Revision, view.Snapshot, d.now())
	return view, needsFence, err
}

// Fence writes nothing: revisions of the registry cannot be compared with those of a list of Services.
func (d *registered) Fence(context.Context, *rangekeeper.RepairPass, *etcdstore.Look) (*etcdstore.Look, error) {
	return nil, nil
}

func (d *registered) CheckRepair(pass *rangekeeper.RepairPass) error {
	return d.committer.CheckPass(pass)
}

func (d *registered) Repair(_ context.Context, pass *rangekeeper.RepairPass, _ *etcdstore.Look, listed rangekeeper.ServiceList) (_ rangekeeper.Repaired, err error) {
	defer d.replaceIfPoisoned(&err)
	d.writes, d.conflicts = true, 0
	defer func() { d.writes = false }()
	if _, err := d.committer.SubmitRepair(rangekeeper.NoDeadline, pass, listed); err != nil {
		return rangekeeper.Repaired{}, err
	}
	outcome, err := d.run()
	if err != nil {
		return rangekeeper.Repaired{}, err
	}
	return outcome.(rangekeeper.Repaired), nil
}

func (d *registered) replaceIfPoisoned(err *error) {
	if errors.Is(*err, rangekeeper.ErrPoisoned) {
		d.committer.Close()
		d.committer = nil
	}
}

// run carries out steps until the one operation that was submitted has ended. It needs no watch: it reads the
// registry before each write. Nor does it wait for other writers: a conflict with one of another program ends the pass.
func (d *registered) run() (rangekeeper.Outcome, error) {
	d.failure = nil
	for {
		// The time stands still during a request: a late answer is as good as any, as CreateOrUpdate has a condition.
		now := d.now()
		step, err := d.committer.Poll(now)
		if err != nil {
			return nil, err
		}
		switch step.Kind {
		case rangekeeper.StepRead, rangekeeper.StepConfirm, rangekeeper.StepSwap:
			if err := d.perform(step, now); err != nil {
				return nil, err
			}
		case rangekeeper.StepWait:
			d.skipped += max(step.Until-d.now(), 0)
		case rangekeeper.StepFinished:
			if failed, ok := step.Finished[0].Outcome.(rangekeeper.Failed); ok {
				if d.failure != nil {
					return nil, d.failure
				}
				return nil, failed.Err
			}
			return step.Finished[0].Outcome, nil
		case rangekeeper.StepIdle:
			return nil, errors.New("the committer is idle before its operation has ended")
		}
	}
}

// perform sends a request and reports to the committer how it ended. After an error the next pass reads first, so that
// the registry may have taken the write all the same.
func (d *registered) perform(step rangekeeper.Step, now time.Duration) error {
	held, err := d.transaction(step)
	if err != nil {
		d.failure = err
		return d.committer.Refused(now, err.Error())
	}
	answer := rangekeeper.Answer{ClusterID: d.store, RaftTerm: 1, Revision: d.revision, Held: held}
	if !held {
		answer.Key = d.key()
		answer.Value, err = json.Marshal(corev1.RangeAllocation{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}, Range: d.content.text, Data: []byte(d.content.data),
		})
		if err != nil {
			return err
		}
	}
	return d.committer.Answered(now, answer)
}

// transaction returns whether the guard of a step held. In a repair a confirm writes, too, as the reference does in
// each pass: a registry then refuses an object that was written since.
func (d *registered) transaction(step rangekeeper.Step) (held bool, err error) {
	if d.read == nil {
		if err := d.get(); err != nil {
			return false, err
		}
	}
	if d.goOn() {
		return false, nil
	}
	if step.Kind == rangekeeper.StepRead || step.Guard != d.key() {
		return false, nil
	}
	if !d.writes {
		return true, nil
	}
	if step.Kind == rangekeeper.StepSwap {
		value, err := d.committer.Value(nil)
		if err != nil {
			return false, err
		}
		var next corev1.RangeAllocation
		if err := json.Unmarshal(value, &next); err != nil {
			return false, err
		}
		d.read.Range, d.read.Data = next.Range, next.Data
	}
	written, before := contentOf(d.read), d.read.ResourceVersion
	if err := d.registry.CreateOrUpdate(d.read); err != nil {
		if _, ok := d.registry.(Follower); ok && apierrors.IsConflict(err) && d.conflicts < maxConflicts {
			d.conflicts++
			if d.get() == nil && d.goOn() {
				return false, nil // the committer decides again, and clears nothing that has changed
			}
		}
		return false, fmt.Errorf("write the range %s: %w", d.values, err)
	}
	if written != d.content {
		d.content, d.revision = written, d.revision+1
	}
	// A registry may say at which version it has written. One that does not, as kube-apiserver's, writes no content
	// that does not change; after a change the next state that is found counts as one of others.
	if d.resourceVersion = d.read.ResourceVersion; d.resourceVersion == "" {
		d.resourceVersion = before
	}
	return true, nil
}

// get gets the stored object, and numbers its state, as for any store that has tokens and no revisions: another one
// than the last known comes after at least one that nobody has seen. So a leak counts only from there on: the value may
// have been released and allocated again meanwhile.
//
// If it is known what was changed, the committer sees two states. In the first one all that has changed differs from
// the second, or from the one before. So it knows of each value that it has changed, and of the others that they have
// not.
func (d *registered) get() (err error) {
	var stored *corev1.RangeAllocation
	var changed []int
	var isKnown bool
	if follower, ok := d.registry.(Follower); ok {
		stored, changed, isKnown, err = follower.GetSince(d.resourceVersion)
	} else {
		stored, err = d.registry.Get()
	}
	if err != nil {
		return fmt.Errorf("read the range %s: %w", d.values, err)
	}
	now := contentOf(stored)
	if d.isRestored(stored.ResourceVersion, now) {
		d.store, d.newest, d.ahead, isKnown = d.store+1, 0, nil, false
	}
	if version, err := strconv.ParseUint(stored.ResourceVersion, 10, 64); err == nil {
		d.newest = max(d.newest, version)
	}
	if isSame := now == d.content && stored.ResourceVersion == d.resourceVersion; !isSame || len(d.ahead) > 0 {
		var between content
		if isKnown && len(d.ahead) == 0 {
			between, isKnown = d.stateBetween(now, changed)
		}
		if isKnown && len(d.ahead) == 0 {
			d.ahead = []content{between, now}
		} else {
			d.ahead, d.content, d.revision = nil, now, d.revision+2
		}
	}
	d.read, d.resourceVersion = stored, stored.ResourceVersion
	return nil
}

// isRestored reports whether the history that was read before cannot have come to a state.
func (d *registered) isRestored(resourceVersion string, now content) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	known := d.content
	if len(d.ahead) > 0 {
		known = d.ahead[len(d.ahead)-1]
	}
	return err == nil && version < d.newest || resourceVersion != "" && resourceVersion == d.resourceVersion && now != known
}

// goOn presents the next state that the committer has not seen, and returns whether there was one.
func (d *registered) goOn() bool {
	if len(d.ahead) == 0 {
		return false
	}
	d.content, d.ahead, d.revision = d.ahead[0], d.ahead[1:], d.revision+1
	return true
}

// stateBetween returns a state between the known one and the one now: what was changed, by its offset, and is as before
// is otherwise in it. It returns false if one of the states is not of the range.
func (d *registered) stateBetween(now content, changed []int) (content, bool) {
	var both [2]*rangekeeper.Allocator
	for i, state := range []content{d.content, now} {
		a, err := rangekeeper.NewAllocator(d.values, rangekeeper.Contiguous, 1)
		if err != nil {
			return content{}, false
		}
		defer a.Close()
		if err := a.Restore(state.text, []byte(state.data)); err != nil {
			return content{}, false
		}
		both[i] = a
	}
	for _, offset := range changed {
		value, ok := d.values.ValueAt(uint32(offset))
		if !ok {
			return content{}, false
		}
		is := both[0].Has(value)
		if is != both[1].Has(value) {
			continue
		}
		var err error
		if is {
			_, err = both[0].Release(value)
		} else {
			err = both[0].Allocate(value)
		}
		if err != nil {
			return content{}, false
		}
	}
	data, err := both[0].Snapshot(nil)
	return content{d.content.text, string(data)}, err == nil
}

func (d *registered) key() rangekeeper.KeyState {
	return rangekeeper.KeyState{ModRevision: d.revision, Version: d.revision, CreateRevision: 1}
}
