package audit

import (
	"cmp"
	"slices"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// APIVersion is in every document of the audit.
const APIVersion = "rangekeeper/v1"

// The kinds of documents.
const (
	KindAudit      = "Audit"
	KindRepairPlan = "RepairPlan"
)

// RangeMode says how allocations from a range are recorded.
type RangeMode string

const (
	// ModeBitmap is one RangeAllocation for the whole range.
	ModeBitmap RangeMode = "bitmap"
	// ModeIPAddress is one IPAddress object for each address.
	ModeIPAddress RangeMode = "ipaddress"
	// ModeStale is a bitmap of ClusterIPs in a cluster that has gone over to
	// IPAddress objects: it is not audited.
	ModeStale RangeMode = "stale"
	// ModeUninitialized is a bitmap that no server has set up yet: there is
	// nothing to compare with.
	ModeUninitialized RangeMode = "uninitialized"
)

// Report is the document of an audit. Findings and leaks are sorted by
// range, value, namespace, name and reason, all of them as text.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Ranges     []Range   `json:"ranges"`
	Findings   []Finding `json:"findings"`
	Leaks      []Leak    `json:"leaks"`
	Summary    Summary   `json:"summary"`
}

// Range is one range of ClusterIPs or node ports.
type Range struct {
	// Name is the last segment of the key of a bitmap, or the name of a
	// ServiceCIDR object.
	Name string `json:"name"`
	// Range is the CIDR, or low-high for ports.
	Range string `json:"range"`
	// Size is how many values can be allocated; Used are recorded as allocated,
	// Free are not.
	Size uint64    `json:"size"`
	Used uint64    `json:"used"`
	Free uint64    `json:"free"`
	Mode RangeMode `json:"mode"`
}

// Finding is one thing that is wrong with a Service or an IPAddress object.
type Finding struct {
	// Reason is that of the Event that kube-apiserver reports it by.
	Reason string `json:"reason"`
	// Range is the name of the range that it is about.
	Range string `json:"range"`
	// Value is the address, port or text that is wrong.
	Value string `json:"value"`
	// Namespace is empty for an IPAddress object.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Message is for people.
	Message string `json:"message"`
	// Remedy says who repairs it.
	Remedy rangekeeper.Remedy `json:"-"`
}

// Leak is a value that is recorded as allocated though no Service uses it.
type Leak struct {
	Range string `json:"range"`
	Value string `json:"value"`
	// Remedy says who frees it.
	Remedy rangekeeper.Remedy `json:"-"`
	// Stays reports whether the repair of a running cluster leaves it for now.
	Stays bool `json:"stays,omitempty"`
}

// Summary counts.
type Summary struct {
	Findings int    `json:"findings"`
	Leaks    int    `json:"leaks"`
	Services uint64 `json:"services"`
}

// Clean reports whether nothing was found.
func (r *Report) Clean() bool { return len(r.Findings)+len(r.Leaks) == 0 }

func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Range, b.Range), cmp.Compare(a.Value, b.Value),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
}

func sortLeaks(leaks []Leak) {
	slices.SortStableFunc(leaks, func(a, b Leak) int {
		return cmp.Or(cmp.Compare(a.Range, b.Range), cmp.Compare(a.Value, b.Value))
	})
}
