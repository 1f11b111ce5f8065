// Package preflight says what stops or surprises an upgrade of a cluster to another release of Kubernetes, as far as it
// is about ClusterIPs and node ports.
//
// It decides from the state that an audit has read, and from that audit. docs/upgrade.md has the sources of each check.
package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// maxRequests is how many requests the first repair can make within its minute if a write takes 10 ms, up to which etcd
// takes a disk to be fast enough. kube-apiserver makes them one after another, without a limit of their rate.
const maxRequests = 6000

// Options of a preflight.
type Options struct {
	// To is the release of the upgrade.
	To Release
	// ClusterIPRanges is the servers' --service-cluster-ip-range, each as canonical text; empty if it is not known.
	ClusterIPRanges []string
	// Command returns the words of a command of rangekeeper for the same cluster.
	Command func(words ...string) []string
	// Explain returns those of the command that explains a value, a Service or a reason.
	Explain func(what string) []string
	// Kubectl are kubectl's flags for the same cluster, each with its value.
	Kubectl []string
	// Repair are the words of the command that repairs the source, nil if it cannot be written. AtRest says that this
	// is a snapshot, in which IPAddress objects are repaired, too.
	Repair []string
	AtRest bool
}

// preflight is one run.
type preflight struct {
	Options
	state  *clusterstate.State
	claims []rangekeeper.Claim
	audit  *audit.Report
	// readByServers reports whether API servers read the stored range with this name, and this program does not.
	readByServers func(name string) bool
	// lacksServices says that the Services are stored elsewhere.
	lacksServices bool
	report        *Report
	// from is 0 if it is not known.
	from Release
	// byObjects says that ClusterIPs are recorded by IPAddress objects.
	byObjects bool
	// ranges is the core's judgement on the flag and the stored ranges of ClusterIPs.
	ranges rangekeeper.RangesVerdict
}

// New returns what an upgrade has to expect. The state must have [clusterstate.State.Upgrade], and a is its audit. The
// error says if the store does not have the whole cluster.
func New(state *clusterstate.State, a *audit.Audit, o Options) (*Report, error) {
	if state.Content() == rangekeeper.StoredServices {
		return nil, errors.New(audit.ServicesAlone)
	}
	p := &preflight{
		Options: o, state: state, audit: a.Report(), byObjects: state.ClusterIPRecords().HasObjects(), lacksServices: a.LacksServices(),
		readByServers: a.ReadByServers,
		report: &Report{
			APIVersion: audit.APIVersion, Kind: Kind, Source: a.Report().Source, From: strings.TrimPrefix(state.Upgrade.Release, "v"), To: o.To.String(),
			Checks: []Check{},
		},
	}
	p.from, _ = releaseOf(state.Upgrade.Release)
	if p.unreadable(recordKinds...) != "" {
		p.Repair = nil // which is refused
	}
	objects, err := a.Objects()
	if err != nil {
		return nil, err
	}
	if p.claims, err = state.Claims(); err != nil {
		return nil, err
	}
	if p.ranges, err = a.JudgeClusterIPRanges(p.ClusterIPRanges, p.defaultCIDRs(), p.bitmaps()); err != nil {
		return nil, err
	}
	p.report.FirstRepair = p.writes(objects)
	p.checkRelease()
	p.checkFeatureGates()
	p.checkServiceCIDR()
	p.checkUnreadable()
	p.checkFindings()
	p.checkTexts()
	p.checkLeaks()
	p.checkMixedServers()
	p.checkWebhooks()
	p.checkPolicies()
	p.checkFirstRepair()
	p.checkBeta()
	for _, unknown := range p.audit.Unknown {
		if len(unknown.Hides) > 0 { // else no fault of the cluster depends on it
			p.unknown(unknown)
		}
	}
	p.report.finish()
	return p.report, nil
}

func (p *preflight) add(c Check) {
	if c.Values == nil {
		c.Values = []string{}
	}
	c.Command = strings.Join(c.Words, " ")
	p.report.Checks = append(p.report.Checks, c)
}

func (p *preflight) ok(name, format string, args ...any) {
	p.add(Check{Name: name, Level: OK, Message: fmt.Sprintf(format, args...)})
}

// kubectl returns the words of a command of kubectl for the same cluster.
func (p *preflight) kubectl(words ...string) []string {
	return append(append([]string{"kubectl"}, p.Kubectl...), words...)
}

// unseen reports whether the source does not show bitmaps.
func (p *preflight) unseen() bool { return p.state.Unseen != nil }

// bitmaps returns the ranges of ClusterIPs that servers record in bitmaps now, the primary one first.
func (p *preflight) bitmaps() (ranges []string) {
	for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs} {
		for _, r := range p.audit.Ranges {
			if r.Name == name && r.Mode == audit.ModeBitmap {
				ranges = append(ranges, r.Range)
			}
		}
	}
	return ranges
}

// defaultCIDRs returns those of the default ServiceCIDR, nil if there is none.
func (p *preflight) defaultCIDRs() []string {
	for _, s := range p.state.ServiceCIDRs {
		if s.Name == clusterstate.DefaultServiceCIDR {
			return s.Spec.CIDRs
		}
	}
	return nil
}

// createsObjects reports whether the new release records ClusterIPs by IPAddress objects, and the old one does not.
func (p *preflight) createsObjects() bool { return !p.byObjects && p.To >= objectsSince }

func (p *preflight) writes(objects []audit.ObjectPlan) (w Writes) {
	switch {
	case p.createsObjects():
		w.ServiceCIDRs, w.Created = 1, p.clusterIPs()
	case p.byObjects:
		if p.defaultCIDRs() == nil && p.unreadable(audit.KindServiceCIDR) == "" {
			w.ServiceCIDRs = 1
		}
		for _, o := range objects {
			if o.Removed {
				w.Removed++
			}
			if o.Name != "" {
				w.Created++
			}
		}
	}
	changed := map[string]bool{}
	for _, f := range p.audit.Findings {
		isNodePort := f.Range == clusterstate.ServiceNodePorts
		if (f.Reason == "PortNotAllocated" || f.Reason == "ClusterIPNotAllocated") && f.Mode == audit.ModeBitmap && (isNodePort || p.To < objectsSince) {
			changed[f.Range] = true
		}
	}
	w.Bitmaps = audit.Amount{N: uint64(len(changed)), Unseen: p.unseen()}
	return w
}

// clusterIPs counts the addresses of Services that are in the ranges.
func (p *preflight) clusterIPs() int {
	outside := map[string]bool{}
	for _, f := range p.audit.Findings {
		if slices.Contains([]string{"ClusterIPOutOfRange", "ClusterIPNotValid", "ServiceCIDRFull"}, f.Reason) {
			outside[f.Value] = true
		}
	}
	all := map[rangekeeper.Value]bool{}
	for _, claim := range p.claims {
		if claim.Value.Addr().IsValid() && !outside[claim.Value.String()] {
			all[claim.Value] = true
		}
	}
	return len(all)
}

func (p *preflight) checkRelease() {
	const name = "Release"
	preflightTo := func(r Release) []string {
		if !slices.Contains(Targets(), r.String()) {
			return nil
		}
		return p.Command("preflight", "--to "+r.String())
	}
	switch {
	case p.from == 0 && p.state.UpgradedAt > 0 && p.To <= bitmapsUntil:
		p.add(Check{
			Name: name, Level: Must, Message: "A server of 1.34 or later has written the data. kube-apiserver cannot be downgraded.",
			Remedy: "Choose 1.34 or a later release.", Words: preflightTo(bitmapsUntil + 1),
		})
	case p.from == 0:
		p.add(Check{
			Name: name, Level: Unknown, Message: "The source does not say which release the cluster runs.",
			Remedy: "kube-apiserver is upgraded one minor release at a time. See that the present one is " + (p.To - 1).String() + " or " + p.To.String() + ".",
			Words:  p.kubectl("version"),
		})
	case p.To < p.from:
		p.add(Check{
			Name: name, Level: Must, Message: fmt.Sprintf("The cluster runs %s. kube-apiserver cannot be downgraded to %v.", p.report.From, p.To),
			Remedy: fmt.Sprintf("Choose %v or a later release.", p.from), Words: preflightTo(p.from),
		})
	case p.To > p.from+1:
		p.add(Check{
			Name: name, Level: Must,
			Message: fmt.Sprintf("The cluster runs %s. kube-apiserver is upgraded one minor release at a time (version skew policy).", p.report.From),
			Remedy:  fmt.Sprintf("Upgrade to %v first.", p.from+1), Words: preflightTo(p.from + 1),
		})
	default:
		p.ok(name, "The step from %s to %v is supported.", p.report.From, p.To)
	}
}

// checkFeatureGates looks for a feature gate that the new release refuses.
func (p *preflight) checkFeatureGates() {
	const name = "FeatureGates"
	switch {
	case !p.byObjects && p.To > bitmapsUntil && (p.from == 0 || p.from == bitmapsUntil):
		p.add(Check{
			Name: name, Level: Must,
			Message: fmt.Sprintf("ClusterIPs are recorded in bitmaps only. So the servers are of 1.32 or older, or have "+
				"--feature-gates=MultiCIDRServiceAllocator=false, with which kube-apiserver %v does not start.", p.To),
			Remedy: "Run the servers as 1.33 without that feature gate first, until each ClusterIP has an IPAddress object.",
			Words:  p.Command("preflight", "--to 1.33"),
		})
	case p.byObjects && p.To >= noBitmapsSince && p.state.UpgradedAt > 0 && len(p.bitmaps()) > 0:
		p.add(Check{
			Name: name, Level: Must,
			Message: fmt.Sprintf("Servers of 1.34 still write bitmaps of ClusterIPs. So they have "+
				"--feature-gates=DisableAllocatorDualWrite=false, with which kube-apiserver %v does not start.", p.To),
			Remedy: "Remove this feature gate from every kube-apiserver.",
		})
	default:
		p.ok(name, "The data show no feature gate that kube-apiserver %v refuses.", p.To)
	}
}

// checkMixedServers looks at the time while servers of both releases run.
func (p *preflight) checkMixedServers() {
	if p.To != bitmapsUntil+1 || !p.byObjects || p.from != bitmapsUntil && len(p.bitmaps()) == 0 || p.state.UpgradedAt > 0 {
		return
	}
	p.add(Check{
		Name: "MixedServers", Level: Surprise,
		Message: "Servers of 1.34 do not write the bitmaps in which those of 1.33 look for a free ClusterIP. While both run, a creation of a Service " +
			"can fail at a server of 1.33, as the address is taken.",
		Remedy: "Create the Service again. Upgrade all servers without a long pause; 1.34 needs the bitmaps no more.",
	})
}

func (p *preflight) checkFirstRepair() {
	const name = "FirstRepair"
	w := p.report.FirstRepair
	if p.dependsOn(recordKinds, name, fmt.Sprintf("What the first repair pass of kube-apiserver %v writes", p.To)) {
		return
	}
	if w.requests() == 0 {
		p.ok(name, "The first repair pass of kube-apiserver %v has nothing to write%s.", p.To, p.exceptUnseen())
		return
	}
	var parts []string
	part := func(n int, what, verb string) {
		if n > 1 {
			what += "s"
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s %s", n, what, verb))
		}
	}
	part(w.ServiceCIDRs, "ServiceCIDR", "created")
	part(w.Created, "IPAddress object", "created")
	part(w.Removed, "IPAddress object", "removed")
	part(int(w.Bitmaps.N), "bitmap", "changed")
	c := Check{
		Name: name, Level: Surprise,
		Message: fmt.Sprintf("The first repair pass of kube-apiserver %v writes: %s.", p.To, strings.Join(parts, ", ")),
		Remedy:  p.firstRepairRemedy(),
	}
	if p.createsObjects() {
		c.Message += " It reports an Event ClusterIPNotAllocated for each Service, which is no fault."
	}
	if w.requests() > maxRequests {
		c.Message += fmt.Sprintf(" It makes these %d requests one after another, and has 60 s: not more than %d ms for each. Otherwise the server ends, and its next start continues.",
			w.requests(), 60000/w.requests())
		c.Remedy = "Upgrade one server, and keep those of the old release in service until it is ready. " + c.Remedy
	}
	p.add(c)
}

// retries says which patch release repeats a write of its first repair pass for which the server is not ready yet
// (kubernetes#136288). docs/upgrade.md says how that was found.
var retries = map[Release]string{
	33: "1.33.13 makes", 34: "1.34.4 does not make", 35: "1.35.4 does not make", 36: "1.36.3 makes", 37: "1.37.2 makes",
}

func (p *preflight) firstRepairRemedy() string {
	text, ok := retries[p.To]
	if !ok {
		return "Repair the cluster before the upgrade, so that there is nothing to write."
	}
	return "Choose a patch release with the fix of kubernetes#136288: " + text + " a write again that comes before the server is ready for it."
}

func (p *preflight) exceptUnseen() string {
	if p.unseen() {
		return ", as far as the source shows it"
	}
	return ""
}

func (p *preflight) checkBeta() {
	if p.To < noBetaSince || p.from >= noBetaSince {
		return
	}
	p.add(Check{
		Name: "BetaAPI", Level: Surprise,
		Message: fmt.Sprintf("kube-apiserver %v does not serve IPAddress and ServiceCIDR objects as networking.k8s.io/v1beta1. Stored objects of this version stay readable.", p.To),
		Remedy:  "Let clients and manifests use networking.k8s.io/v1. This lists what clients still ask for:",
		Words:   p.kubectl("get --raw /metrics", "| grep apiserver_requested_deprecated_apis"),
	})
}

// unknown adds what the audit does not know.
func (p *preflight) unknown(u audit.Unknown) {
	c := Check{Name: cmp.Or(u.Range, "API servers"), Level: Unknown, Message: strings.ToUpper(u.Message[:1]) + u.Message[1:] + ".", Remedy: "Read etcd or an etcd snapshot, with --endpoints or --etcd-snapshot."}
	lost := slices.IndexFunc(p.audit.Findings, func(f audit.Finding) bool { return f.IsLost() && f.Name == u.Range })
	switch {
	case p.lacksServices && strings.HasSuffix(u.Message, audit.ServicesElsewhere):
		c.Remedy = readOverAPI
	case len(p.state.Unreadable) > 0 && p.state.Unseen == nil && !u.IsOfBootstrap():
		c.Remedy = p.readFirst()
	case p.readByServers(u.Range):
		c.Remedy = "Look again after a server has next allocated or released a value of the range: it writes the range in its own form then."
	case lost >= 0:
		c.Remedy = "Set the range up again first: see " + p.audit.Findings[lost].Reason + "."
	case u.IsOfBootstrap() && !p.unseen():
		c.Remedy = "Remove the reason, and look again."
	case u.IsOfBootstrap():
		c.Remedy = "Read etcd or an etcd snapshot with the program rangekeeper."
	case strings.Contains(u.Message, "--service-node-port-range"):
		c.Remedy = "Name the range of the API servers with --service-node-port-range, or read etcd or an etcd snapshot."
	case u.Range == clusterstate.ServiceNodePorts:
		c.Remedy += " Leaked node ports are found over the API, too:"
		c.Words = p.Command("audit", "--probe")
	}
	p.add(c)
}

// labels of the objects that a kube-apiserver creates for an address.
func labelsOf(family corev1.IPFamily) map[string]string {
	return map[string]string{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: "ipallocator.k8s.io"}
}

// distinct returns texts without repetitions, in the order of values.
func distinct(values []string) []string {
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(audit.CompareValues(a, b), cmp.Compare(a, b)) })
	return slices.Compact(values)
}
