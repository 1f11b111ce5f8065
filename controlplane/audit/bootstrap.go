package audit

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Judge answers the question "audit" of docs/bootstrap-json.md: it is [rangekeeper.BootstrapPlan], which only the
// programs that call it link.
type Judge func(question, dst []byte) ([]byte, error)

// The JSON that is exchanged with the core; docs/bootstrap-json.md describes it.

type bootstrapQuestion struct {
	AtRest       bool            `json:"atRest"`
	EtcdPrefix   string          `json:"etcdPrefix"`
	Leases       []observedLease `json:"leases"`
	Earlier      []observedLease `json:"earlier,omitempty"`
	Renewed      []storedLease   `json:"renewed,omitempty"`
	Objects      *objects        `json:"objects"`
	Namespaces   []string        `json:"namespaces"`
	ServiceRange string          `json:"serviceRange,omitempty"`
}

type observedLease struct {
	Stored      storedLease                 `json:"stored"`
	EtcdLease   clusterstate.EtcdLeaseState `json:"etcdLease"`
	TTLMs       int64                       `json:"ttlMs"`
	UnchangedMs int64                       `json:"unchangedMs"`
}

type storedLease struct {
	Key         string `json:"key"`
	Value       []byte `json:"value"`
	ModRevision int64  `json:"modRevision"`
	LeaseID     int64  `json:"leaseId"`
}

type objects struct {
	Service     *corev1.Service             `json:"service"`
	Endpoints   *corev1.Endpoints           `json:"endpoints"`
	Slices      []discoveryv1.EndpointSlice `json:"slices"`
	UnchangedMs int64                       `json:"unchangedMs"`
}

type bootstrapVerdict struct {
	Findings []bootstrapFinding `json:"findings"`
	Repairs  []bootstrapRequest `json:"repairs"`
	Unseen   []string           `json:"unseen"`
	// LookAgainMs is after which time what stays is repaired.
	LookAgainMs int64 `json:"lookAgainMs"`
}

type bootstrapFinding struct {
	Reason   string     `json:"reason"`
	Severity Severity   `json:"severity"`
	Value    string     `json:"value"`
	Key      string     `json:"key"`
	Object   *objectKey `json:"object"`
	Message  string     `json:"message"`
	Remedy   string     `json:"remedy"`
	Stays    bool       `json:"stays"`
}

type objectKey struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// bootstrapRequest has one field that is not nil.
type bootstrapRequest struct {
	DeleteLease *struct {
		Key         string `json:"key"`
		ModRevision int64  `json:"modRevision"`
	} `json:"deleteLease"`
	Delete *struct {
		Object          objectKey `json:"object"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"delete"`
	Update *storedObject `json:"update"`
	Create *storedObject `json:"create"`
}

// storedObject has one field that is not nil.
type storedObject struct {
	Endpoints     *corev1.Endpoints
	EndpointSlice *discoveryv1.EndpointSlice
}

// IsOfBootstrap reports whether the finding is about an object of the bootstrap controllers, and not about a value.
func (f *Finding) IsOfBootstrap() bool { return f.ofBootstrap }

// TellsOfDeadServer reports whether the finding is about an address whose server may have ended: the core says that its
// lease never expires, or that it has none.
func (f *Finding) TellsOfDeadServer() bool {
	return f.Reason == "LeaseNeverExpires" || f.Reason == "EndpointWithoutLease"
}

var remedies = map[string]rangekeeper.Remedy{
	"repair": rangekeeper.RemedyRepair, "apiServer": rangekeeper.RemedyAPIServer, "owner": rangekeeper.RemedyOwner,
}

// judgeBootstrap adds what is wrong with the objects of the bootstrap controllers, and what of them the source does not
// show, to the report.
func (a *Audit) judgeBootstrap(o Options) error {
	b := a.state.Bootstrap
	if b == nil {
		return nil
	}
	a.report.Servers = serversOf(b)
	if o.Judge == nil {
		const why = "the plugin of kubectl is built without their audit, which is a part of the program rangekeeper"
		a.unknownServers(ofServers, why, BreaksTraffic)
		return nil
	}
	question, err := json.Marshal(map[string]bootstrapQuestion{"audit": a.bootstrapQuestion(o)})
	var answer []byte
	if err == nil {
		answer, err = o.Judge(question, nil)
	}
	if err != nil { // about an object that has no form of its kind; the ranges can be audited all the same
		a.unknownServers(ofServers, err.Error(), BreaksTraffic)
		return nil
	}
	var verdict struct{ Audit bootstrapVerdict }
	if err := json.Unmarshal(answer, &verdict); err != nil {
		return err
	}
	for _, f := range verdict.Audit.Findings {
		finding := Finding{Reason: f.Reason, Severity: f.Severity, Value: f.Value, Message: f.Message, Remedy: remedies[f.Remedy], Stays: f.Stays, ofBootstrap: true}
		if f.Object == nil {
			finding.Kind, finding.Name = KindMasterLease, leaseName(f.Key)
		} else {
			finding.Kind, finding.Namespace, finding.Name = f.Object.Kind, f.Object.Namespace, f.Object.Name
		}
		a.ofBootstrap = append(a.ofBootstrap, finding)
	}
	a.bootstrapRepairs = verdict.Audit.Repairs
	a.lookAgain = time.Duration(verdict.Audit.LookAgainMs) * time.Millisecond
	for _, unseen := range verdict.Audit.Unseen {
		a.bootstrapUnseen(unseen)
	}
	if b.SlicesUnseen != "" {
		a.unknownServers("other EndpointSlices of the Service kubernetes", b.SlicesUnseen, BreaksTraffic)
	}
	return nil
}

// stored returns a lease for the core, whose keys are UTF-8; leaseKeys has the key that it stands for.
func (a *Audit) stored(lease clusterstate.ServerLease) storedLease {
	key := lease.Key
	if !utf8.ValidString(key) {
		quoted := strconv.Quote(key)
		key = quoted[1 : len(quoted)-1]
		a.leaseKeys[key] = lease.Key
	}
	return storedLease{key, append([]byte{}, lease.Value...), lease.ModRevision, lease.ID}
}

func (a *Audit) bootstrapQuestion(o Options) bootstrapQuestion {
	b := a.state.Bootstrap
	q := bootstrapQuestion{AtRest: a.atRest, EtcdPrefix: a.state.Identity.Prefix, ServiceRange: a.primaryRange()}
	if q.EtcdPrefix == "" {
		q.EtcdPrefix = clusterstate.DefaultPrefix // over the Kubernetes API, without any lease
	}
	if b.LeasesUnseen == "" && !a.servicesAlone {
		q.Leases = []observedLease{}
		a.leaseKeys = map[string]string{}
		observed := func(lease clusterstate.ServerLease) observedLease {
			return observedLease{a.stored(lease), lease.State, lease.TTL.Milliseconds(), 0}
		}
		if o.Earlier != nil {
			for _, lease := range o.Earlier.Leases {
				q.Earlier = append(q.Earlier, observed(lease))
			}
		}
		for _, lease := range o.Renewed {
			q.Renewed = append(q.Renewed, a.stored(lease))
		}
		for _, lease := range b.Leases {
			now := observed(lease)
			if o.Earlier != nil && lease.Unchanged(o.Earlier) {
				now.UnchangedMs = o.Watched.Milliseconds()
			}
			q.Leases = append(q.Leases, now)
		}
	}
	if a.objectsUnseen() == "" {
		q.Objects = &objects{Service: b.Service, Endpoints: b.Endpoints, Slices: append([]discoveryv1.EndpointSlice{}, b.Slices...)}
		if o.Earlier != nil && b.EndpointsUnchanged(o.Earlier) {
			q.Objects.UnchangedMs = o.Watched.Milliseconds()
		}
	}
	if b.NamespacesUnseen == "" && !a.servicesAlone {
		q.Namespaces = append([]string{}, b.Namespaces...)
	}
	return q
}

// objectsUnseen says why the Service kubernetes and its endpoints are not all seen; "" if they are.
func (a *Audit) objectsUnseen() string {
	if a.elsewhere != nil {
		return ServicesElsewhere
	}
	if a.servicesAlone {
		return ServicesAlone
	}
	const service = "/" + corev1.NamespaceDefault + "/" + clusterstate.KubernetesService
	isService := func(u clusterstate.Unreadable) bool {
		return u.Kind == KindService && strings.HasSuffix("/"+u.Key, service)
	}
	if unseen := a.state.Bootstrap.ObjectsUnseen; unseen != "" || !slices.ContainsFunc(a.state.Unreadable, isService) {
		return unseen
	}
	return "the Service cannot be read"
}

// primaryRange returns the range of ClusterIPs that the servers are configured with first; "" if it is not known, or if
// the Services speak against it.
func (a *Audit) primaryRange() string {
	var said struct{ flag, cidr, bitmap []string }
	for _, s := range a.state.ServiceCIDRs {
		if s.Name == clusterstate.DefaultServiceCIDR {
			said.cidr = s.Spec.CIDRs
		}
	}
	for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs} {
		for i, r := range a.ranges {
			if r.isBitmap(name) && a.core.Range(i).Record != rangekeeper.RecordStale {
				said.bitmap = append(said.bitmap, r.text)
			}
		}
	}
	if !slices.ContainsFunc(a.ranges, func(r auditedRange) bool { return r.isBitmap(clusterstate.ServiceIPs) }) {
		said.bitmap = nil // the secondary range is not the primary one
	}
	if a.state.Unseen != nil {
		said.flag, said.bitmap = a.state.Unseen.ClusterIPRanges, nil
	}
	verdict, err := a.JudgeClusterIPRanges(said.flag, said.cidr, said.bitmap)
	if err != nil || verdict.Outcome == rangekeeper.RangesUndecided {
		a.doubtsRange = true
		return ""
	}
	for _, one := range []struct {
		ranges  []string
		isWrong bool
	}{{said.cidr, verdict.ServiceCIDRIsWrong}, {said.bitmap, verdict.BitmapIsWrong}, {said.flag, verdict.FlagIsWrong}} {
		if len(one.ranges) > 0 && !one.isWrong {
			return one.ranges[0]
		}
	}
	return ""
}

// JudgeClusterIPRanges has the core judge which of these ranges of ClusterIPs is the wrong one, by what Services use.
func (a *Audit) JudgeClusterIPRanges(flag, serviceCIDR, bitmap []string) (rangekeeper.RangesVerdict, error) {
	addresses, err := claimed(a.state, isAddress)
	if err != nil {
		return rangekeeper.RangesVerdict{}, err
	}
	return rangekeeper.JudgeRanges(flag, serviceCIDR, bitmap, addresses)
}

// ofServers is what API servers keep.
const ofServers = "the leases of the API servers, the endpoints of the Service kubernetes and the system namespaces"

// unknownServers adds to the report what of that the source does not show, why, and which findings that may hide.
func (a *Audit) unknownServers(what, why string, hides ...Severity) {
	a.unknown("", append([]Severity{}, hides...), what, "%s", why)
}

// bootstrapUnseen says what is unknown as the source does not show something.
func (a *Audit) bootstrapUnseen(what string) {
	b := a.state.Bootstrap
	switch what {
	case "leases":
		reason := b.LeasesUnseen
		switch {
		case a.servicesAlone:
			reason = ServicesAlone
		case reason == "":
			reason = "values are encrypted at rest"
		}
		a.unknownServers("endpoints of API servers that have ended", "only leases show them, and "+reason, BreaksTraffic)
	case "liveServers":
		// It hides nothing of a cluster whose servers keep the endpoints in another way, for ever.
		a.unknownServers("which addresses in the endpoints of the Service kubernetes are those of servers that live",
			"no server holds a lease, as none runs, or --endpoint-reconciler-type of the servers is not lease")
	case "port":
		a.unknownServers("on which port the API servers listen",
			"no two of the Service kubernetes, its Endpoints and its EndpointSlice have the same, so no repair writes Endpoints and slice")
	case "objects":
		a.unknownServers("the endpoints of the Service kubernetes", a.objectsUnseen(), BreaksTraffic)
	case "namespaces":
		reason := b.NamespacesUnseen
		if a.servicesAlone {
			reason = ServicesAlone
		}
		a.unknownServers("the system namespaces", reason, BreaksTraffic)
	case "serviceRange":
		reason := "it is the first one of the range of ClusterIPs, which is not known"
		if a.doubtsRange {
			reason = "nearly all ClusterIPs lie outside of the stored range, which may be wrong"
		}
		a.unknownServers("the right address of the Service kubernetes", reason, BreaksTraffic)
	}
}
