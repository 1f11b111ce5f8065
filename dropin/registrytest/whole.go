// Package registrytest makes repair passes over a registry that can only be read and written as a whole. The released tests of
// the repair controllers keep their ranges in such registries; a kube-apiserver has none.
package registrytest

import (
	"context"
	"fmt"
	"slices"

	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Whole returns the range of a registry. rangeSpec is a CIDR, or ports as in "30000-32767".
func Whole(registry rangeallocation.RangeRegistry, rangeSpec string) repair.Uncommitted {
	return &whole{registry: registry, text: rangeSpec}
}

// whole fails to write if there was another write since its read.
type whole struct {
	registry rangeallocation.RangeRegistry
	text     string

	// The state that the current pass has read, and its findings.
	values rangekeeper.Range
	stored *api.RangeAllocation
	index  int
	report *rangekeeper.Report
}

func (w *whole) ReadForPass(context.Context, *rangekeeper.Pass) (view rangekeeper.State, err error) {
	if w.values, err = rangekeeper.ParsePortRange(w.text); err != nil {
		if w.values, err = rangekeeper.ParseCIDR(w.text); err != nil {
			return view, err
		}
	}
	if w.stored, err = w.registry.Get(); err != nil {
		return view, fmt.Errorf("read range %s: %w", w.text, err)
	}
	return rangekeeper.State{Snapshot: w.stored.Data, Initialised: w.stored.Range != ""}, nil
}

func (w *whole) Add(audit *rangekeeper.Audit) (err error) {
	w.index, err = audit.AddBitmap(w.values, rangekeeper.Stored{Range: w.stored.Range, Data: w.stored.Data})
	return err
}

func (w *whole) Found(report *rangekeeper.Report) { w.report = report }

func (w *whole) Repair(context.Context, *rangekeeper.Pass, rangekeeper.ServiceList) (rangekeeper.Repaired, error) {
	next, err := w.report.Snapshot(w.index, nil)
	if err != nil {
		return rangekeeper.Repaired{}, err
	}
	w.stored.Range, w.stored.Data = w.values.String(), next
	if err := w.registry.CreateOrUpdate(w.stored); err != nil {
		return rangekeeper.Repaired{}, fmt.Errorf("write range %s: %w", w.text, err)
	}
	return rangekeeper.Repaired{
		Set:     slices.Collect(w.report.Values(w.index, rangekeeper.ValuesSet)),
		Cleared: slices.Collect(w.report.Values(w.index, rangekeeper.ValuesClear)),
	}, nil
}
