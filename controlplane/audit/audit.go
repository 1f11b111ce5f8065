// Package audit compares what a cluster has recorded as allocated with what its
// Services use, and says what a repair would change.
//
// The decisions are those of the core library; this package brings a cluster's
// state to it and its answers into documents.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/servicecidr"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// ErrNone says that what was asked for does not exist.
var ErrNone = errors.New("there is no")

// Options say how a state is audited.
type Options struct {
	// Source is where the state comes from, for the documents.
	Source *Source
	// Bitmap audits ClusterIPs by the bitmap even if there are ServiceCIDR
	// objects: Kubernetes 1.33 writes both.
	Bitmap bool
	// Now is the time at which a running cluster was read: an IPAddress object
	// that is younger than a minute may still wait for its Service. Zero for data
	// that nobody works on any more.
	Now time.Time
	// CleansLeaks says that leaks are cleaned after the audit, which needs Services.
	CleansLeaks bool
	// Pass is the repair pass that the audit belongs to; leaks of bitmaps stay until
	// they are due. Without it all are to be cleaned at once, which is right only
	// where nobody allocates meanwhile, or with KeepsLeaks only what a bitmap records alone
	// beside IPAddress objects.
	Pass       *rangekeeper.RepairPass
	KeepsLeaks bool
	// FindsFullRanges has findings about full ranges, and about those of which less than WarnFree percent is free.
	FindsFullRanges bool
	WarnFree        uint8
	// Read lists the bitmaps that the pass has read through their committers, in this order. The audit ignores the
	// state's copies of them.
	Read []ReadRange
	// Judge judges the objects of the bootstrap controllers that the state has; nil for a program that does not link
	// the judgement.
	Judge Judge
	// Earlier is what the bootstrap controllers had kept some time before, at least Watched, and Renewed the leases
	// that were written meanwhile; nil for a first look.
	Earlier *clusterstate.Bootstrap
	Watched time.Duration
	Renewed []clusterstate.ServerLease
}

// ReadRange is a bitmap that a pass has read: its name, and its range as text.
type ReadRange struct{ Name, Range string }

// Audit is a finished audit. It is for one goroutine at a time.
type Audit struct {
	report *Report
	state  *clusterstate.State
	core   *rangekeeper.Report
	// atRest says that no server works on the data.
	atRest bool
	// missing is the default ServiceCIDR if it is not stored. At rest a repair writes it.
	missing *networkingv1.ServiceCIDR
	// damaged says by name what is wrong with the stored ranges that cannot be read.
	damaged map[string]error
	// readByServers has those of them that an API server reads all the same: nothing is wrong with them.
	readByServers map[string]bool
	// elsewhere refuses repairs, as the Services are stored elsewhere; else nil.
	elsewhere error
	// servicesAlone says that the store has Services and ranges, and nothing else of the cluster.
	servicesAlone bool
	// wide says that the range of node ports is not known, and all ports were audited.
	wide bool
	// doubtsRange says that the Services speak against the stored range of ClusterIPs.
	doubtsRange bool
	// lacksClusterIPs says that not all ranges of ClusterIPs are known.
	lacksClusterIPs bool
	// ranges are in the order of the core's.
	ranges []auditedRange
	// ofBootstrap are the findings about the objects of the bootstrap controllers, bootstrapRepairs what repairs them.
	ofBootstrap      []Finding
	bootstrapRepairs []bootstrapRequest
	lookAgain        time.Duration
	// leaseKeys are the keys that the core knows by another text.
	leaseKeys map[string]string
}

// auditedRange is a stored bitmap or one CIDR of a ServiceCIDR object.
type auditedRange struct {
	name, text string
	record     rangekeeper.Record
	staticBand uint32
	// stored is what stands in etcd for a bitmap.
	stored clusterstate.StoredRange
	// notReady says of a ServiceCIDR that servers allocate no new address from it.
	notReady bool
	// lost says that the stored object is missing or cannot be read; text is what its range was, or kube-apiserver's
	// default.
	lost bool
}

// isBitmap reports whether it is the bitmap of that name. A ServiceCIDR object can have the same name.
func (r *auditedRange) isBitmap(name string) bool {
	return r.name == name && r.record != rangekeeper.RecordIPAddresses
}

// New audits a state. A range that is missing or cannot be read is a finding, and all else is judged without it. The
// error of a repair names an object that cannot be decoded.
//
// Cost: proportional to the number of objects.
func New(state *clusterstate.State, o Options) (*Audit, error) {
	if len(state.Ranges)+state.Services.Len()+len(state.ServiceCIDRs)+len(state.Unreadable) == 0 {
		const nothing = "no range, ServiceCIDR or Service is stored"
		if prefix := state.Identity.Prefix; prefix != "" { // none over an API
			return nil, fmt.Errorf("%s below %s; --prefix names another prefix of the keys", nothing, prefix)
		}
		return nil, fmt.Errorf("%w: %s, as on a server that has just started; try again", clusterstate.ErrAPINotReady, nothing)
	}
	a := &Audit{
		state: state, atRest: o.Pass == nil && o.Now.IsZero(),
		report: &Report{
			APIVersion: APIVersion, Kind: KindAudit, Source: o.Source,
			Ranges: []Range{},
		},
		damaged: map[string]error{}, readByServers: map[string]bool{}, servicesAlone: state.Content() == rangekeeper.StoredServices,
	}
	if !o.Bitmap {
		a.missing = missingServiceCIDR(state)
	}
	byObjects := state.ClusterIPRecords().HasObjects() && !o.Bitmap
	core, err := begin(o, byObjects)
	if err != nil {
		return nil, err
	}
	defer core.Close()
	for _, read := range o.Read {
		a.ranges = append(a.ranges, auditedRange{name: read.Name, text: read.Range, stored: state.Ranges[read.Name]})
	}
	for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs, clusterstate.ServiceNodePorts} {
		isRead := slices.ContainsFunc(o.Read, func(r ReadRange) bool { return r.Name == name })
		if stored, ok := state.Ranges[name]; ok && !isRead {
			a.addBitmap(core, name, stored)
		}
	}
	if byObjects {
		if err := a.addObjects(core); err != nil {
			return nil, err
		}
		if err := a.compareBitmaps(core); err != nil {
			return nil, err
		}
	}
	if state.Unseen != nil {
		err = a.addUnseen(core, byObjects)
	} else {
		err = a.addLost(core, byObjects)
	}
	if err != nil {
		return nil, err
	}
	if err := state.Services.Observe(core, byObjects); err != nil {
		return nil, err
	}
	if err := a.addUnreadable(core); err != nil {
		return nil, err
	}
	if err := a.check(core, o); err != nil {
		return nil, err
	}
	if o.Pass != nil {
		a.core, err = o.Pass.Finish(core)
	} else {
		a.core, err = core.Finish()
	}
	if err != nil {
		return nil, err
	}
	if err := a.observeClaimants(); err != nil {
		return nil, err
	}
	if err := state.Services.ObserveForms(a.core); err != nil {
		return nil, err
	}
	if o.FindsFullRanges {
		if err := a.core.FindFullRanges(o.WarnFree); err != nil {
			return nil, err
		}
	}
	if err := a.judgeBootstrap(o); err != nil {
		return nil, err
	}
	return a, a.fillReport(o.FindsFullRanges)
}

// begin begins the core's audit, of bitmaps or of IPAddress objects.
func begin(o Options, byObjects bool) (*rangekeeper.Audit, error) {
	switch {
	case o.Pass != nil && byObjects:
		return o.Pass.IPAddressAudit(o.Now)
	case o.Pass != nil:
		return o.Pass.Audit()
	case o.KeepsLeaks:
		once, err := rangekeeper.NewLeakTrackerKeepingLeaks(1, 0)
		if err != nil {
			return nil, err
		}
		if byObjects {
			return once.NewIPAddressAudit(o.Now)
		}
		return once.NewAudit()
	case byObjects:
		return rangekeeper.NewIPAddressAudit(o.Now)
	}
	return rangekeeper.NewAudit()
}

// Report returns the document. It must not be changed.
func (a *Audit) Report() *Report { return a.report }

// addBitmap adds a stored range to the audit, or notes why it cannot be read.
func (a *Audit) addBitmap(core *rangekeeper.Audit, name string, stored clusterstate.StoredRange) {
	text, data, err := clusterstate.DecodeRange(stored.Value)
	if err == nil && text == "" {
		a.report.Ranges = append(a.report.Ranges, Range{Name: name, Mode: ModeUninitialized})
		return
	}
	var r rangekeeper.Range
	if err == nil {
		r, err = clusterstate.ParseRange(name)(text)
	}
	if err == nil {
		_, err = core.AddBitmap(r, rangekeeper.Stored{Range: text, Data: data})
	}
	if err != nil {
		a.damaged[name] = err
		a.readByServers[name] = text == "" && clusterstate.IsReadByServers(stored.Value)
		return
	}
	a.ranges = append(a.ranges, auditedRange{name: name, text: r.String(), stored: stored})
}

// compareBitmaps has the bitmaps of ClusterIPs compared with the IPAddress objects, if
// servers still write them.
func (a *Audit) compareBitmaps(core *rangekeeper.Audit) error {
	if a.state.ServicesRevision > 0 && a.state.UpgradedAt > 0 {
		return nil // the revisions are those of two stores: the bitmaps count as left over
	}
	for i, r := range a.ranges {
		if r.isBitmap(clusterstate.ServiceIPs) || r.isBitmap(clusterstate.SecondaryServiceIPs) {
			if err := core.CompareBitmap(i, uint64(r.stored.ModRevision), uint64(a.state.UpgradedAt)); err != nil {
				return err
			}
		}
	}
	return nil
}

// observeClaimants has the core find out which Services claim the values that are
// claimed more than once. Such values are rare, so times and names cross only if there are some.
func (a *Audit) observeClaimants() error {
	findings, err := a.core.Findings()
	if err != nil || !slices.ContainsFunc(findings, func(f rangekeeper.Finding) bool { return f.Reason.IsDuplicate() }) {
		return err
	}
	return a.state.Services.ObserveClaimants(a.core)
}

// addObjects adds all ServiceCIDR and IPAddress objects to the audit.
func (a *Audit) addObjects(core *rangekeeper.Audit) error {
	for _, s := range a.serviceCIDRs() {
		isReady := servicecidr.IsReady(&s)
		for _, text := range s.Spec.CIDRs {
			if _, err := core.AddServiceCIDR(text, isReady); err != nil {
				return fmt.Errorf("ServiceCIDR %s: %w", s.Name, err)
			}
			a.ranges = append(a.ranges, auditedRange{name: s.Name, text: text, record: rangekeeper.RecordIPAddresses, notReady: !isReady})
		}
	}
	return a.state.IPAddresses.Observe(core)
}

// check tells the core which ranges are stored, and refuses the repair of a cluster without Services. If they are
// stored elsewhere, a report says what is unknown for that.
func (a *Audit) check(core *rangekeeper.Audit, o Options) error {
	err := core.CheckCluster(a.bitmaps(), uint64(a.state.UpgradedAt), o.CleansLeaks)
	if errors.Is(err, rangekeeper.ErrUnreadableObjects) {
		if o.CleansLeaks || o.Pass != nil {
			return a.state.CheckReadable()
		}
		a.addMostUnreadable()
		return nil
	}
	if !errors.Is(err, rangekeeper.ErrNoServices) {
		return err
	}
	if a.state.ServicesRevision != 0 {
		return errors.New("IPAddress objects refer to Services of which none, or nearly none, is in the etcd of --services-endpoints: is it that of another cluster?")
	}
	err = fmt.Errorf("%w; does kube-apiserver keep Services in another etcd (--etcd-servers-overrides)? --endpoints of that etcd repairs its ranges, "+
		"and kube-apiserver repairs IPAddress objects", err)
	if o.CleansLeaks || o.Pass != nil {
		return err
	}
	a.elsewhere = err
	if a.lacksNodePorts() {
		// The range of node ports is beside the Services, and a stale Service is no reason to miss it here.
		a.wide = true
		a.report.Unknown = slices.DeleteFunc(a.report.Unknown, func(u Unknown) bool { return u.Range == clusterstate.ServiceNodePorts })
		err := core.CheckCluster(a.bitmaps(), uint64(a.state.UpgradedAt), false)
		if err != nil && !errors.Is(err, rangekeeper.ErrUnreadableObjects) { // the objects are left unjudged already
			return err
		}
	}
	a.unknownOfServices("that Services use", ServicesElsewhere, true)
	return nil
}

// bitmaps are the states of all stored bitmaps.
func (a *Audit) bitmaps() rangekeeper.Bitmaps {
	return rangekeeper.Bitmaps{
		ServiceIPs: a.presence(clusterstate.ServiceIPs), SecondaryServiceIPs: a.presence(clusterstate.SecondaryServiceIPs),
		ServiceNodePorts: a.presence(clusterstate.ServiceNodePorts),
	}
}

// lacksNodePorts reports whether the range of node ports is stored elsewhere, with the Services.
func (a *Audit) lacksNodePorts() bool {
	_, ok := a.state.Ranges[clusterstate.ServiceNodePorts]
	return !ok && a.elsewhere != nil
}

// unknownOfServices adds that of the ClusterIPs of each range, and of the node ports if they are among them, something
// is unknown, and why.
func (a *Audit) unknownOfServices(what, why string, ofPorts bool) {
	hides := []Severity{BreaksTraffic, DuplicateRisk, Exhausted, Wasted}
	if ofPorts {
		a.unknown(clusterstate.ServiceNodePorts, hides, "node ports "+what, "%s", why)
	}
	var names []string
	for _, r := range a.ranges {
		if r.name != clusterstate.ServiceNodePorts && !slices.Contains(names, r.name) {
			names = append(names, r.name)
			a.unknown(r.name, hides, "ClusterIPs of "+r.name+" "+what, "%s", why)
		}
	}
}

// ServicesElsewhere says why nothing is known about what Services use.
const ServicesElsewhere = "IPAddress objects refer to Services, and none or nearly none of these is stored here: " +
	"kube-apiserver keeps them in another etcd (--etcd-servers-overrides), which --services-endpoints reads, too"

// ServicesAlone says why nothing is known about what a cluster keeps beside its Services.
const ServicesAlone = "only Services, and ranges if any, are stored here: " +
	"kube-apiserver keeps the rest of the cluster in another etcd (--etcd-servers-overrides); with that one as --endpoints, --services-endpoints reads this one, too"

// LacksServices reports whether the Services are stored elsewhere.
func (a *Audit) LacksServices() bool { return a.elsewhere != nil }

func (a *Audit) presence(name string) rangekeeper.Presence {
	switch _, ok := a.state.Ranges[name]; {
	case a.state.Unseen != nil, a.readByServers[name]:
		return rangekeeper.Unseen
	case a.damaged[name] != nil:
		return rangekeeper.Unreadable
	case !ok && a.servicesAlone, name == clusterstate.ServiceNodePorts && a.lacksNodePorts():
		return rangekeeper.Unseen
	case !ok:
		return rangekeeper.Missing
	case slices.ContainsFunc(a.ranges, func(r auditedRange) bool { return r.isBitmap(name) && !r.lost }):
		return rangekeeper.Initialised
	}
	return rangekeeper.Uninitialised
}

func (a *Audit) fillReport(findsFullRanges bool) error {
	r := a.report
	for i := range a.ranges {
		audited := &a.ranges[i]
		counts := a.core.Range(i)
		audited.record, audited.staticBand = counts.Record, counts.StaticBand
		if audited.lost && audited.isBitmap(clusterstate.ServiceNodePorts) && a.lacksNodePorts() {
			continue // what it would be if it were missing
		}
		unseen := counts.Record == rangekeeper.RecordUnseen
		row := Range{
			Name: audited.name, Range: audited.text, Mode: modes[counts.Record], InUse: counts.InUse,
			Size: Amount{N: counts.Size}, Used: Amount{counts.Stored, unseen}, Free: Amount{counts.Size - counts.Stored, unseen},
		}
		if audited.notReady {
			row.NotReady, row.Free = true, Amount{}
		}
		if a.wide && audited.isBitmap(clusterstate.ServiceNodePorts) {
			row.Range, row.Size.Unseen = "", audited.text == allPorts
		}
		r.Ranges = append(r.Ranges, row)
	}
	// The document does not depend on the order of keys.
	slices.SortStableFunc(r.Ranges, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Range, b.Range))
	})
	var err error
	if r.Findings, err = a.findings(); err != nil {
		return err
	}
	if r.Leaks, err = a.leaks(); err != nil {
		return err
	}
	a.addMetrics()
	r.Summary.Services = a.core.Services()
	r.summarize(findsFullRanges)
	return nil
}

// findings returns the findings of both cores, sorted.
func (a *Audit) findings() ([]Finding, error) {
	findings, err := a.core.Findings()
	all := append([]Finding{}, a.ofBootstrap...)
	for _, f := range findings {
		all = append(all, a.finding(f))
	}
	sortFindings(all)
	return all, err
}

// leaks returns the core's leaks, sorted.
func (a *Audit) leaks() ([]Leak, error) {
	leaks, err := a.core.Leaks()
	all := []Leak{}
	for _, leak := range leaks {
		all = append(all, Leak{
			Severity: Severity(leak.Severity.String()), Range: a.rangeName(leak.Range), Mode: a.rangeMode(leak.Range), Value: leak.Value.String(),
			Remedy: leak.Remedy, Stays: leak.Stays,
		})
	}
	sortLeaks(all)
	return all, err
}

// modes says how the document calls the core's records.
var modes = map[rangekeeper.Record]RangeMode{
	rangekeeper.RecordBitmap: ModeBitmap, rangekeeper.RecordStale: ModeStale, rangekeeper.RecordIPAddresses: ModeIPAddress,
	rangekeeper.RecordUnseen: ModeUnseen,
}

// rangeName returns the name of a range of the core; -1 is none.
func (a *Audit) rangeName(index int) string {
	if index < 0 {
		return ""
	}
	return a.ranges[index].name
}

// rangeMode returns the mode of a range of the core; that of none is empty.
func (a *Audit) rangeMode(index int) RangeMode {
	if index < 0 {
		return ""
	}
	return modes[a.ranges[index].record]
}

// rangeOutside returns the range that a finding names for a ClusterIP that no range has: of ServiceCIDRs the default
// one, or else none if there are several, as the first one by name has nothing to do with the address.
func (a *Audit) rangeOutside(index int) string {
	name := a.rangeName(index)
	if index < 0 || a.ranges[index].record != rangekeeper.RecordIPAddresses {
		return name
	}
	for _, r := range a.ranges {
		switch {
		case r.record != rangekeeper.RecordIPAddresses:
		case r.name == clusterstate.DefaultServiceCIDR:
			return r.name
		case r.name != name:
			name = ""
		}
	}
	return name
}

// index returns the index in the core of a row of the report, -1 for one that is not
// initialised.
func (a *Audit) index(row Range) int {
	return slices.IndexFunc(a.ranges, func(r auditedRange) bool {
		isText := r.text == row.Range || row.Range == "" && a.wide // the range of node ports is not known
		return r.name == row.Name && isText && modes[r.record] == row.Mode
	})
}

// parentRef returns what an object refers to, for people.
func parentRef(o *rangekeeper.IPAddress) string {
	name := strings.TrimPrefix(o.ParentNamespace+"/"+o.ParentName, "/")
	resource := strings.TrimSuffix(o.ParentResource+"."+o.ParentGroup, ".")
	if resource == "services" {
		return name
	}
	return strings.TrimSpace(resource + " " + name)
}

func (a *Audit) finding(f rangekeeper.Finding) Finding {
	finding := Finding{
		Reason: f.Reason.String(), Severity: Severity(f.Reason.Severity().String()), Range: a.rangeName(f.Range), Mode: a.rangeMode(f.Range), Value: f.Value,
		Message: f.Message, Remedy: f.Remedy, Stays: f.Stays,
	}
	if f.Reason == rangekeeper.ReasonClusterIPOutOfRange {
		finding.Range = a.rangeOutside(f.Range)
	}
	switch f.Subject.Kind {
	case rangekeeper.SubjectService:
		s := a.state.Services.At(int(f.Subject.Ordinal))
		finding.Kind, finding.Namespace, finding.Name = KindService, s.Namespace, s.Name
	case rangekeeper.SubjectIPAddress:
		o := a.state.IPAddresses.At(int(f.Subject.Ordinal))
		finding.Kind, finding.Name, finding.ParentRef = KindIPAddress, o.Name, parentRef(&o)
	case rangekeeper.SubjectServiceCIDR:
		finding.Kind, finding.Name = KindServiceCIDR, a.ranges[f.Subject.Ordinal].name
	case rangekeeper.SubjectStored:
		a.describeStored(&finding)
	case rangekeeper.SubjectRange:
		of := a.ranges[f.Subject.Ordinal]
		finding.Kind, finding.Name = KindRangeAllocation, of.name
		if of.record == rangekeeper.RecordIPAddresses {
			finding.Kind = KindServiceCIDR
		} else if a.wide && of.isBitmap(clusterstate.ServiceNodePorts) {
			finding.Value = fmt.Sprintf("%d node ports", a.core.Range(int(f.Subject.Ordinal)).Size)
		}
	}
	for _, c := range f.Claimants {
		s := a.state.Services.At(int(c.Service))
		claimant := Claimant{Kind: KindService, Namespace: s.Namespace, Name: s.Name, Keeps: c.Keeps && !c.Tied, Tied: c.Tied}
		if s.Created != 0 {
			claimant.CreationTimestamp = time.Unix(s.Created, 0).UTC().Format(time.RFC3339)
		}
		finding.Claimants = append(finding.Claimants, claimant)
	}
	return finding
}
