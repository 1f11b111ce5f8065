// Package registrytest makes repair passes over the registries of the released tests, which keep a range in memory. A
// kube-apiserver has no such registry.
package registrytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// RangeOf returns the range of a registry. rangeSpec is a CIDR, or ports as in "30000-32767".
func RangeOf(registry rangeallocation.RangeRegistry, rangeSpec string) repair.Range {
	values, err := rangekeeper.ParsePortRange(rangeSpec)
	if err != nil {
		values = must(rangekeeper.ParseCIDR(rangeSpec))
	}
	committer := must(rangekeeper.NewCommitter(values, rangekeeper.CommitterConfig{Grace: time.Minute, Replace: rangekeeper.ReplaceAlways}))
	return &driver{registry: registry, committer: committer, revision: 1}
}

// driver drives a committer over a registry, which it presents as a key of etcd.
type driver struct {
	registry  rangeallocation.RangeRegistry
	committer *rangekeeper.Committer
	now       time.Duration

	// The last known state of the key, which was created at revision 1 and is the only key: each revision is a version
	// of it.
	content  content
	revision int64
}

// content is what a registry stores.
type content struct{ text, data string }

// betweenPasses is longer than the grace and than the interval of every test.
const betweenPasses = 24 * time.Hour

func (d *driver) ReadForPass(_ context.Context, pass *rangekeeper.RepairPass) (view rangekeeper.View, needsFence bool, err error) {
	d.now += betweenPasses
	if err := d.committer.BeginPass(pass); err != nil {
		return view, false, err
	}
	if _, err := d.committer.Submit(rangekeeper.ReadOperation(rangekeeper.NoDeadline)); err != nil {
		return view, false, err
	}
	outcome, err := d.run()
	if err != nil {
		return view, false, err
	}
	view = outcome.(rangekeeper.View)
	needsFence, err = d.committer.PassRead(pass, view.Revision, view.Snapshot, d.now)
	return view, needsFence, err
}

// Fence writes nothing: revisions of the registry cannot be compared with those of a list of Services.
func (d *driver) Fence(context.Context, *rangekeeper.RepairPass, *etcdstore.Look) (*etcdstore.Look, error) {
	return nil, nil
}

func (d *driver) CheckRepair(pass *rangekeeper.RepairPass) error { return d.committer.CheckPass(pass) }

func (d *driver) Repair(_ context.Context, pass *rangekeeper.RepairPass, _ *etcdstore.Look, listed rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	if _, err := d.committer.SubmitRepair(rangekeeper.NoDeadline, pass, listed); err != nil {
		return rangekeeper.Repaired{}, err
	}
	outcome, err := d.run()
	if err != nil {
		return rangekeeper.Repaired{}, err
	}
	return outcome.(rangekeeper.Repaired), nil
}

// run carries out steps until the one operation that was submitted has ended. It needs no watch: each state of the
// registry that it reads is the next version of the key.
func (d *driver) run() (rangekeeper.Outcome, error) {
	for {
		step, err := d.committer.Poll(d.now)
		if err != nil {
			return nil, err
		}
		switch step.Kind {
		case rangekeeper.StepRead, rangekeeper.StepConfirm, rangekeeper.StepSwap:
			if err := d.perform(step); err != nil {
				return nil, err
			}
		case rangekeeper.StepWait:
			d.now = step.Until
		case rangekeeper.StepFinished:
			if failed, ok := step.Finished[0].Outcome.(rangekeeper.Failed); ok {
				return nil, failed.Err
			}
			return step.Finished[0].Outcome, nil
		case rangekeeper.StepIdle:
			return nil, errors.New("the committer is idle before its operation has ended")
		}
	}
}

// perform sends a request and reports to the committer how it ended.
func (d *driver) perform(step rangekeeper.Step) error {
	held, err := d.transaction(step)
	if err != nil {
		return d.committer.Refused(d.now, err.Error())
	}
	answer := rangekeeper.Answer{ClusterID: 1, RaftTerm: 1, Revision: d.revision, Held: held}
	if !held {
		answer.Key = d.key()
		answer.Value = must(json.Marshal(corev1.RangeAllocation{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}, Range: d.content.text, Data: []byte(d.content.data),
		}))
	}
	return d.committer.Answered(d.now, answer)
}

// transaction returns whether the guard of a step held. A confirm writes, too: the released tests expect a write in
// each pass.
func (d *driver) transaction(step rangekeeper.Step) (held bool, err error) {
	stored, err := d.registry.Get()
	if err != nil {
		return false, fmt.Errorf("read the registry: %w", err)
	}
	d.observe(content{stored.Range, string(stored.Data)})
	if step.Kind == rangekeeper.StepRead || step.Guard != d.key() {
		return false, nil
	}
	if step.Kind == rangekeeper.StepSwap {
		var next corev1.RangeAllocation
		if err := json.Unmarshal(must(d.committer.Value(nil)), &next); err != nil {
			return false, err
		}
		stored.Range, stored.Data = next.Range, next.Data
	}
	written := content{stored.Range, string(stored.Data)}
	if err := d.registry.CreateOrUpdate(stored); err != nil {
		return false, fmt.Errorf("write the registry: %w", err)
	}
	d.observe(written)
	return true, nil
}

// observe makes a content that differs from the last known one the next version of the key.
func (d *driver) observe(found content) {
	if found != d.content {
		d.content, d.revision = found, d.revision+1
	}
}

func (d *driver) key() rangekeeper.KeyState {
	return rangekeeper.KeyState{ModRevision: d.revision, Version: d.revision, CreateRevision: 1}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
