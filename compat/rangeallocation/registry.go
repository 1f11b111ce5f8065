// Package rangeallocation has the registry of a stored RangeAllocation.
package rangeallocation

import api "k8s.io/api/core/v1"

// RangeRegistry reads and writes a RangeAllocation.
type RangeRegistry interface {
	// Get returns the stored object; one without a ResourceVersion and a Range if there is none yet.
	Get() (*api.RangeAllocation, error)
	// CreateOrUpdate replaces the stored object of the same ResourceVersion, or creates it if there is none. Otherwise
	// the error is a conflict (k8s.io/apimachinery/pkg/api/errors, IsConflict).
	CreateOrUpdate(*api.RangeAllocation) error
}
