package audit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// APIVersion is in every document of the audit.
const APIVersion = "rangekeeper/v1"

// The kinds of documents.
const (
	KindAudit       = "Audit"
	KindRepairPlan  = "RepairPlan"
	KindRangeUse    = "RangeUse"
	KindExplanation = "Explanation"
	KindFreeList    = "FreeList"
	KindRangeChange = "RangeChange"
	KindReason      = "Reason"
)

// The kinds of objects that findings are about.
const (
	KindService     = "Service"
	KindIPAddress   = "IPAddress"
	KindServiceCIDR = "ServiceCIDR"
	// KindRangeAllocation is that of a stored bitmap.
	KindRangeAllocation = "RangeAllocation"
	// KindMasterLease is that of an API server's lease, a key below masterleases/, which has its address.
	KindMasterLease   = "MasterLease"
	KindEndpoints     = "Endpoints"
	KindEndpointSlice = "EndpointSlice"
)

// RangeMode says how allocations from a range are recorded.
type RangeMode string

const (
	// ModeBitmap is one RangeAllocation for the whole range.
	ModeBitmap RangeMode = "bitmap"
	// ModeIPAddress is one IPAddress object for each address.
	ModeIPAddress RangeMode = "ipaddress"
	// ModeStale is a bitmap of ClusterIPs that is left over in a cluster that has
	// gone over to IPAddress objects: no server writes it, and it is not audited.
	ModeStale RangeMode = "stale"
	// ModeUnseen is a bitmap that the source cannot read, or that is missing or damaged. It has bounds: the values that
	// Services use or that are known to be recorded are used, and no more than the others are free.
	ModeUnseen RangeMode = "unseen"
	// ModeUninitialized is a bitmap that no server has set up yet: there is
	// nothing to compare with.
	ModeUninitialized RangeMode = "uninitialized"
)

// Severity is the harm of a finding or a leak, as the core decides it.
type Severity string

const (
	// BreaksTraffic: two Services answer on one value (on a port if their protocols are the same), or no range hands it
	// out.
	BreaksTraffic Severity = "breaksTraffic"
	// DuplicateRisk: a server may allocate the value a second time.
	DuplicateRisk Severity = "duplicateRisk"
	// Exhausted: no value or few values of a range are free.
	Exhausted Severity = "exhausted"
	// Wasted: no server allocates the value, though no Service uses it.
	Wasted Severity = "wasted"
)

// Severities are all of them, the worst first.
var Severities = []Severity{BreaksTraffic, DuplicateRisk, Exhausted, Wasted}

// SeveritiesOfValues are those of findings about values, and of leaks: all but that of full ranges. A repair looks for
// these.
var SeveritiesOfValues = []Severity{BreaksTraffic, DuplicateRisk, Wasted}

// Report is the document of an audit. Findings and leaks are sorted by range and
// value, findings then by namespace, name and reason. Addresses and ports are
// sorted as such, not as text.
type Report struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Source     *Source `json:"source"`
	// Namespace is the one that the findings are about, empty for all; see [Report.InNamespace].
	Namespace string    `json:"namespace,omitempty"`
	Ranges    []Range   `json:"ranges"`
	Findings  []Finding `json:"findings"`
	Leaks     []Leak    `json:"leaks"`
	Summary   Summary   `json:"summary"`
	// Servers are the addresses of API servers, by address.
	Servers []Server `json:"servers,omitempty"`
	// Unreadable are the objects that cannot be decoded, by key.
	Unreadable []Unreadable `json:"unreadable,omitempty"`
	// Unknown is what the source cannot see.
	Unknown []Unknown `json:"unknown,omitempty"`
	// Ignored is what [Report.Ignoring] has left out; nil without a list.
	Ignored *Ignored `json:"ignored,omitempty"`
	// SuspectsLeaks says that an API server has counted more node ports than Services use, which a probe can name.
	SuspectsLeaks bool `json:"-"`
}

// Range is one range of ClusterIPs or node ports.
type Range struct {
	// Name is the last segment of the key of a bitmap, or the name of a
	// ServiceCIDR object.
	Name string `json:"name"`
	// Range is the CIDR, or low-high for ports; empty if it is not known.
	Range string `json:"range"`
	// Size is how many values can be allocated; Used are recorded as allocated,
	// Free are not.
	Size Amount `json:"size"`
	Used Amount `json:"used"`
	Free Amount `json:"free"`
	// InUse is how many values Services use.
	InUse uint64    `json:"inUse"`
	Mode  RangeMode `json:"mode"`
	// NotReady says that servers allocate no new address from the ServiceCIDR: it is being deleted, or its Ready
	// condition is not true.
	NotReady bool `json:"notReady,omitempty"`
}

// Finding is one thing that is wrong with a Service, an IPAddress object, or an
// address of a ServiceCIDR that no other object has.
type Finding struct {
	// Reason is that of the Event that kube-apiserver reports it by, or one of
	// ours where it has none.
	Reason string `json:"reason"`
	// Severity is that of the reason.
	Severity Severity `json:"severity"`
	// Range is the name of the range that it is about; empty if it is about no range.
	Range string `json:"range"`
	// Mode is that of the range: a ServiceCIDR object can have the name of a bitmap.
	Mode RangeMode `json:"-"`
	// Value is the address, port or text that is wrong.
	Value string `json:"value"`
	// Kind is the kind of the object: Service, IPAddress, ServiceCIDR, RangeAllocation, MasterLease, Endpoints,
	// EndpointSlice or Namespace.
	Kind string `json:"kind"`
	// Namespace is empty if the object has none.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// ParentRef is what an IPAddress object is said to be of: of a Service its namespace and name, of anything else
	// with the resource before them. It is empty for other objects, and if there is no spec.parentRef.
	ParentRef string `json:"parentRef,omitempty"`
	// Message is for people.
	Message string `json:"message"`
	// Claimants are the objects that claim a value that is claimed more than once,
	// the one that keeps it first, then by age.
	Claimants []Claimant `json:"claimants,omitempty"`
	// Remedy says who repairs it.
	Remedy rangekeeper.Remedy `json:"-"`
	// Stays reports whether the repair of a running cluster leaves it for now.
	Stays bool `json:"stays,omitempty"`
	// ofBootstrap says that it is about an object of the bootstrap controllers.
	ofBootstrap bool
}

// Subject is what a finding can be looked up by: the Service kubernetes, if it is about what API servers keep; its
// value, or else, if that is no address or port, the Service, or the reason.
func (f *Finding) Subject() string {
	if f.ofBootstrap {
		return corev1.NamespaceDefault + "/" + clusterstate.KubernetesService
	}
	if _, err := rangekeeper.ParseValue(f.Value); err == nil {
		return f.Value
	}
	if f.Namespace != "" {
		return f.Namespace + "/" + f.Name
	}
	return f.Reason
}

// Claimant is an object that claims a value. The Service that the IPAddress object of an address refers to keeps the
// address, and the others that claim it keep no port either that another Service claims; else the oldest one keeps the
// value. The others are to change it, or to be recreated. One without a time counts as the youngest; of several with
// one time, the one that an object refers to keeps the value; or else the one that was written to etcd first; or else
// the first by namespace and name.
type Claimant struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// CreationTimestamp is in RFC 3339, empty if unknown.
	CreationTimestamp string `json:"creationTimestamp"`
	// Keeps says that it keeps the value; none of those that are tied is known to.
	Keeps bool `json:"keeps"`
	// Tied says that nothing but the names could decide whether it keeps the value.
	Tied bool `json:"tied,omitempty"`
}

// Leak is a value that is recorded as allocated though no Service uses it.
type Leak struct {
	Severity Severity `json:"severity"`
	Range    string   `json:"range"`
	// Mode is as in [Finding].
	Mode  RangeMode `json:"-"`
	Value string    `json:"value"`
	// Remedy says who frees it.
	Remedy rangekeeper.Remedy `json:"-"`
	// Stays reports whether the repair of a running cluster leaves it for now.
	Stays bool `json:"stays,omitempty"`
}

// Unknown is something that the source cannot see.
type Unknown struct {
	// Range is the name of the range that it is about; empty if it is about what API servers keep, or about all.
	Range string `json:"range"`
	// What is it in a few words, and Message says why it is not seen; both are for people.
	What    string `json:"what"`
	Message string `json:"message"`
	// Hides are the severities of the findings and leaks that there may be though the source does not show them.
	Hides []Severity `json:"hides"`
}

// IsOfBootstrap reports whether it is about what API servers keep, and not about a range.
func (u Unknown) IsOfBootstrap() bool { return u.Range == "" }

// Summary counts.
type Summary struct {
	Findings   Count      `json:"findings"`
	Leaks      Count      `json:"leaks"`
	Services   uint64     `json:"services"`
	Unreadable int        `json:"unreadable"`
	BySeverity BySeverity `json:"bySeverity"`
	// Found are the same numbers of what the source shows: no 0 of them says that there is nothing.
	Found Found `json:"found"`
}

// Found counts what the lists have.
type Found struct {
	Findings      int `json:"findings"`
	Leaks         int `json:"leaks"`
	BreaksTraffic int `json:"breaksTraffic"`
	DuplicateRisk int `json:"duplicateRisk"`
	Exhausted     int `json:"exhausted"`
	Wasted        int `json:"wasted"`
}

// BySeverity counts findings and leaks together.
type BySeverity struct {
	BreaksTraffic Count `json:"breaksTraffic"`
	DuplicateRisk Count `json:"duplicateRisk"`
	Exhausted     Count `json:"exhausted"`
	Wasted        Count `json:"wasted"`
}

// Of returns the count of one severity.
func (b *BySeverity) Of(s Severity) *Count {
	switch s {
	case BreaksTraffic:
		return &b.BreaksTraffic
	case DuplicateRisk:
		return &b.DuplicateRisk
	case Exhausted:
		return &b.Exhausted
	default:
		return &b.Wasted
	}
}

// countSeverities counts findings and leaks. Unless full ranges were looked for, their count is not known.
func countSeverities(findings []Finding, leaks []Leak, unknown []Unknown, findsFullRanges bool) BySeverity {
	b := BySeverity{Exhausted: Count{IsAtLeast: !findsFullRanges}}
	for _, f := range findings {
		b.Of(f.Severity).Found++
	}
	for _, l := range leaks {
		b.Of(l.Severity).Found++
	}
	for _, u := range unknown {
		for _, severity := range u.Hides {
			b.Of(severity).IsAtLeast = true
		}
	}
	return b
}

// summarize counts what the lists hold.
func (r *Report) summarize(findsFullRanges bool) {
	by := countSeverities(r.Findings, r.Leaks, r.Unknown, findsFullRanges)
	r.Summary.BySeverity = by
	r.Summary.Findings = Count{len(r.Findings), by.BreaksTraffic.IsAtLeast || by.DuplicateRisk.IsAtLeast}
	r.Summary.Leaks = Count{len(r.Leaks), by.Wasted.IsAtLeast}
	r.Summary.Unreadable = len(r.Unreadable)
	r.Summary.Found = Found{len(r.Findings), len(r.Leaks), by.BreaksTraffic.Found, by.DuplicateRisk.Found, by.Exhausted.Found, by.Wasted.Found}
}

// Severities are those that the report counts, the worst first: ranges are no namespace's.
func (r *Report) Severities() []Severity {
	if r.Namespace != "" {
		return SeveritiesOfValues
	}
	return Severities
}

// Has reports whether something of this severity or a worse one was found, or an object cannot be read.
func (r *Report) Has(severity Severity) bool {
	return len(r.Unreadable) > 0 || r.anyUpTo(severity, func(c *Count) bool { return c.Found > 0 })
}

// NotShown is what of these there may be a finding or leak of this severity in.
func NotShown(unknown []Unknown, severity Severity) (what []string) {
	for _, u := range unknown {
		if slices.Contains(u.Hides, severity) && !slices.Contains(what, u.What) {
			what = append(what, u.What)
		}
	}
	return what
}

// Hides reports whether there may be something of this severity or a worse one that the source does not show.
func (r *Report) Hides(severity Severity) bool {
	return r.anyUpTo(severity, func(c *Count) bool { return c.IsAtLeast })
}

func (r *Report) anyUpTo(severity Severity, is func(*Count) bool) bool {
	for _, one := range Severities {
		if is(r.Summary.BySeverity.Of(one)) {
			return true
		}
		if one == severity {
			break
		}
	}
	return false
}

// InNamespace returns the report with the findings about Services of one namespace only, also those that claim a value
// together with another one: leaks, IPAddress objects, ranges and API servers are nobody's. What cannot be read
// elsewhere is unknown.
func (r *Report) InNamespace(namespace string) *Report {
	in := *r
	in.Namespace, in.Findings, in.Leaks, in.Servers = namespace, []Finding{}, []Leak{}, nil
	for _, f := range r.Findings {
		claims := func(c Claimant) bool { return c.Namespace == namespace }
		if f.Kind == KindService && (f.Namespace == namespace || slices.ContainsFunc(f.Claimants, claims)) {
			in.Findings = append(in.Findings, f)
		}
	}
	in.Unreadable, in.Unknown = nil, nil
	harm := []Severity{BreaksTraffic, DuplicateRisk} // what is wasted unseen is mostly a leak
	for _, u := range r.Unreadable {
		if u.Kind == KindService && strings.Contains("/"+u.Key, "/"+namespace+"/") {
			in.Unreadable = append(in.Unreadable, u)
		}
	}
	if elsewhere := len(r.Unreadable) - len(in.Unreadable); elsewhere > 0 {
		in.Unknown = append(in.Unknown, Unknown{
			What:    "other objects with the same values",
			Message: fmt.Sprintf("other objects with the same values: of those outside the namespace %d cannot be read; an audit of all namespaces lists them", elsewhere),
			Hides:   harm,
		})
	}
	for _, u := range r.Unknown {
		u.Hides = slices.DeleteFunc(slices.Clone(u.Hides), func(s Severity) bool { return !slices.Contains(harm, s) })
		if len(u.Hides) > 0 && !u.IsOfBootstrap() {
			in.Unknown = append(in.Unknown, u)
		}
	}
	in.summarize(true)
	return &in
}

func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Range, b.Range), CompareValues(a.Value, b.Value),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
}

func sortLeaks(leaks []Leak) {
	slices.SortStableFunc(leaks, func(a, b Leak) int {
		return cmp.Or(cmp.Compare(a.Range, b.Range), CompareValues(a.Value, b.Value))
	})
}

// CompareValues orders the values of documents: ports and addresses by their
// number, IPv4 before IPv6, and other texts, which are no addresses, last.
func CompareValues(a, b string) int {
	x, y := sortKey(a), sortKey(b)
	return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.port, y.port), x.address.Compare(y.address), cmp.Compare(a, b))
}

type valueKey struct {
	kind    int
	port    int64
	address netip.Addr
}

func sortKey(value string) valueKey {
	if port, err := strconv.ParseInt(value, 10, 64); err == nil {
		return valueKey{port: port}
	}
	if address, err := netip.ParseAddr(value); err == nil {
		return valueKey{kind: 1, address: address}
	}
	return valueKey{kind: 2}
}
