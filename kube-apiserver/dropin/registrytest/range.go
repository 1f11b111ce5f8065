// Package registrytest makes repair passes over the registries of the released tests, which keep a range in memory. A
// kube-apiserver has no such registry.
package registrytest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/rangeallocation"

	"github.com/rangekeeper/rangekeeper/controlplane/repair"
	"github.com/rangekeeper/rangekeeper/controlplane/repairloop"
)

// betweenPasses is longer than the interval of every test.
const betweenPasses = 24 * time.Hour

// RangeOf returns the range of a registry. rangeSpec is a CIDR, or ports as in "30000-32767".
func RangeOf(registry rangeallocation.RangeRegistry, rangeSpec string) repair.Range {
	return repairloop.OverRegistry(&converted{registry: registry}, rangeSpec, betweenPasses)
}

// converted is a registry of k8s.io/api's type.
type converted struct {
	registry rangeallocation.RangeRegistry
	// read is the object that the registry has returned. The released tests expect the same one to be written.
	read *api.RangeAllocation
}

func (c *converted) Get() (*corev1.RangeAllocation, error) {
	var err error
	if c.read, err = c.registry.Get(); err != nil {
		return nil, err
	}
	return &corev1.RangeAllocation{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: c.read.ResourceVersion}, Range: c.read.Range, Data: c.read.Data,
	}, nil
}

func (c *converted) CreateOrUpdate(object *corev1.RangeAllocation) error {
	c.read.Range, c.read.Data = object.Range, object.Data
	return c.registry.CreateOrUpdate(c.read)
}
