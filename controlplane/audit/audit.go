// Package audit compares what a cluster has recorded as allocated with what its
// Services use, and says what a repair would change.
//
// The decisions are those of the core library; this package brings a cluster's
// state to it and its answers into documents.
package audit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The last segments of the keys of the bitmaps.
const (
	ServiceIPs          = "serviceips"
	SecondaryServiceIPs = "secondaryserviceips"
	ServiceNodePorts    = "servicenodeports"
)

// batchSize is how many objects cross to the core at once.
const batchSize = 4096

// ErrNothingStored says that the store holds nothing that could be audited.
var ErrNothingStored = errors.New("no range, ServiceCIDR or Service is stored there; check the prefix")

// Options say how a state is audited.
type Options struct {
	// Bitmap audits ClusterIPs by the bitmap even if there are ServiceCIDR
	// objects: Kubernetes 1.33 writes both.
	Bitmap bool
	// Now is the time at which a running cluster was read: an IPAddress object
	// that is younger than a minute may still wait for its Service. Zero for data
	// that nobody works on any more.
	Now time.Time
	// Passes keep the leaks of bitmaps until they are due, from one audit to the
	// next. Without them all are to be cleaned at once, which is right only where
	// nobody allocates meanwhile.
	Passes *rangekeeper.Passes
}

// Audit is a finished audit. It is for one goroutine at a time.
type Audit struct {
	report *Report
	state  *clusterstate.State
	// bitmaps are in the order of the pass's ranges, cidrs in that of the IP
	// audit's.
	bitmaps []bitmap
	pass    *rangekeeper.RepairOutcome
	cidrs   []cidr
	ip      *rangekeeper.IPAddressOutcome // nil if ClusterIPs are in bitmaps
}

// bitmap is a stored RangeAllocation that is audited.
type bitmap struct {
	name       string
	stored     clusterstate.StoredRange
	text       string
	size       uint32
	staticBand uint32
}

// cidr is one CIDR of a ServiceCIDR object.
type cidr struct{ name, text string }

// New audits a state. The error names the key of what cannot be used: a range
// that is invalid or of the wrong kind, a bitmap with bits past its range, an
// object that cannot be decoded, one range of ClusterIPs set up and the other not.
//
// Cost: proportional to the number of objects.
func New(state *clusterstate.State, o Options) (*Audit, error) {
	if len(state.Ranges)+len(state.Services)+len(state.ServiceCIDRs) == 0 {
		return nil, ErrNothingStored
	}
	a := &Audit{
		state: state,
		report: &Report{
			APIVersion: APIVersion, Kind: KindAudit,
			Ranges: []Range{}, Findings: []Finding{}, Leaks: []Leak{},
		},
	}
	pass, err := rangekeeper.NewRepairPass()
	if err != nil {
		return nil, err
	}
	defer pass.Close()
	byObjects := len(state.ServiceCIDRs) > 0 && !o.Bitmap
	for _, name := range []string{ServiceIPs, SecondaryServiceIPs, ServiceNodePorts} {
		stored, ok := state.Ranges[name]
		if !ok {
			continue
		}
		target := pass
		if byObjects && name != ServiceNodePorts {
			target = nil
		}
		if err := a.addBitmap(target, name, stored); err != nil {
			return nil, fmt.Errorf("key %s: %w", stored.Key, err)
		}
	}
	var objects *rangekeeper.IPAddressAudit
	if byObjects {
		if objects, err = a.newObjectAudit(o.Now); err != nil {
			return nil, err
		}
		defer objects.Close()
	} else if err := a.checkFamilies(); err != nil {
		return nil, err
	}
	if err := a.checkAudited(); err != nil {
		return nil, err
	}
	if err := observe(state.Services, pass, objects); err != nil {
		return nil, err
	}
	if a.pass, err = pass.Finish(o.Passes); err != nil {
		return nil, err
	}
	if byObjects {
		if a.ip, err = objects.Finish(); err != nil {
			return nil, err
		}
	}
	return a, a.fillReport()
}

// Report gives the document. It must not be changed.
func (a *Audit) Report() *Report { return a.report }

// addBitmap adds a stored range to the pass; nil if it is stale.
func (a *Audit) addBitmap(pass *rangekeeper.RepairPass, name string, stored clusterstate.StoredRange) error {
	object, err := rangekeeper.DecodeRangeAllocation(stored.Value)
	if err != nil {
		return err
	}
	defer object.Close()
	b := bitmap{name: name, stored: stored}
	text, err := object.Range()
	if err != nil {
		return err
	}
	if text == "" {
		a.report.Ranges = append(a.report.Ranges, Range{Name: name, Mode: ModeUninitialized})
		return nil
	}
	data, err := object.Data(nil)
	if err != nil {
		return err
	}
	of := rangekeeper.Stored{Range: text, Data: data}
	if name == ServiceNodePorts {
		r, err := rangekeeper.ParsePortRange(text)
		if err != nil {
			return err
		}
		b.describe(r.String(), r.Size(), r.StaticBand())
		if _, err = pass.AddPorts(r, of); err != nil {
			return err
		}
	} else {
		r, err := rangekeeper.ParseCIDR(text)
		if err != nil {
			return err
		}
		b.describe(r.String(), r.Size(), r.StaticBand())
		if pass == nil {
			return a.addStale(name, r, of)
		}
		if _, err = pass.AddCIDR(r, of); err != nil {
			return err
		}
	}
	a.bitmaps = append(a.bitmaps, b)
	return nil
}

// checkFamilies refuses a cluster of which one range of ClusterIPs is known to
// exist but not which addresses it has: those of its family would look as if no
// range handed them out.
func (a *Audit) checkFamilies() error {
	primary, secondary := a.bitmapIndex(ServiceIPs) >= 0, a.bitmapIndex(SecondaryServiceIPs) >= 0
	if primary == secondary {
		return nil
	}
	const advice = "a kube-apiserver of this cluster sets it up when it starts"
	if primary {
		if stored, ok := a.state.Ranges[SecondaryServiceIPs]; ok {
			return fmt.Errorf("key %s: the range is not initialised, though %s is; %s", stored.Key, ServiceIPs, advice)
		}
		return nil // one family only
	}
	if stored, ok := a.state.Ranges[ServiceIPs]; ok {
		return fmt.Errorf("key %s: the range is not initialised, though %s is; %s", stored.Key, SecondaryServiceIPs, advice)
	}
	return fmt.Errorf("key %s: there is no %s beside it; %s", a.state.Ranges[SecondaryServiceIPs].Key, ServiceIPs, advice)
}

// checkAudited refuses a cluster whose Services have values of a kind that no
// range is there for: nothing would be found, as if all were well.
func (a *Audit) checkAudited() error {
	var addresses, ports int
	for i := range a.state.Services {
		spec := &a.state.Services[i].Spec
		if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
			addresses++
		}
		if spec.HealthCheckNodePort != 0 ||
			slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 }) {
			ports++
		}
	}
	for _, kind := range []struct {
		name, values string
		services     int
		audited      bool
	}{
		{ServiceIPs, "ClusterIPs", addresses, len(a.cidrs) > 0 || a.bitmapIndex(ServiceIPs) >= 0},
		{ServiceNodePorts, "node ports", ports, a.bitmapIndex(ServiceNodePorts) >= 0},
	} {
		if kind.services == 0 || kind.audited {
			continue
		}
		missing := "is missing"
		if _, ok := a.state.Ranges[kind.name]; ok {
			missing = "is not initialised"
		}
		return fmt.Errorf("key %s%s: %s, but %d Services have %s; a kube-apiserver of this cluster sets it up when it starts",
			a.state.RangesPrefix, kind.name, missing, kind.services, kind.values)
	}
	return nil
}

func (b *bitmap) describe(text string, size, staticBand uint32) {
	b.text, b.size, b.staticBand = text, size, staticBand
}

// addStale counts what a bitmap holds that is not used any more.
func (a *Audit) addStale(name string, r rangekeeper.Range[netip.Addr], stored rangekeeper.Stored) error {
	allocator, err := rangekeeper.NewAllocator(r, rangekeeper.Contiguous, 0)
	if err != nil {
		return err
	}
	defer allocator.Close()
	if err := allocator.Restore(stored.Range, stored.Data); err != nil {
		return err
	}
	used, err := allocator.Used()
	if err != nil {
		return err
	}
	free, err := allocator.Free()
	a.report.Ranges = append(a.report.Ranges, Range{
		Name: name, Range: r.String(), Mode: ModeStale,
		Size: uint64(r.Size()), Used: uint64(used), Free: uint64(free),
	})
	return err
}

// newObjectAudit makes the audit of ClusterIPs by IPAddress objects, all of which
// it has seen.
func (a *Audit) newObjectAudit(now time.Time) (*rangekeeper.IPAddressAudit, error) {
	objects, err := rangekeeper.NewIPAddressAudit(now)
	if err != nil {
		return nil, err
	}
	for _, s := range a.state.ServiceCIDRs {
		for _, text := range s.Spec.CIDRs {
			if _, err := objects.AddCIDR(text); err != nil {
				return nil, fmt.Errorf("ServiceCIDR %s: %w", s.Name, err)
			}
			a.cidrs = append(a.cidrs, cidr{s.Name, text})
		}
	}
	var batch rangekeeper.IPAddresses
	for some := range slices.Chunk(a.state.IPAddresses, batchSize) {
		batch.Reset()
		for i := range some {
			batch.Add(addressOf(&some[i]))
		}
		if err := objects.ObserveIPAddresses(&batch); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func addressOf(o *networkingv1.IPAddress) *rangekeeper.IPAddress {
	address := &rangekeeper.IPAddress{
		Name:      o.Name,
		ManagedBy: o.Labels[networkingv1.LabelManagedBy],
		Created:   o.CreationTimestamp.Time,
	}
	if p := o.Spec.ParentRef; p != nil {
		address.ParentGroup, address.ParentResource = p.Group, p.Resource
		address.ParentNamespace, address.ParentName = p.Namespace, p.Name
	}
	return address
}

// observe brings all Services to the pass and, if there is one, the audit by
// objects.
func observe(services []corev1.Service, pass *rangekeeper.RepairPass, objects *rangekeeper.IPAddressAudit) error {
	var batch rangekeeper.Services
	var names rangekeeper.ServiceNames
	for some := range slices.Chunk(services, batchSize) {
		batch.Reset()
		names.Reset()
		for i := range some {
			s := &some[i]
			servicebatch.Add(&batch, s)
			names.Add(s.Namespace, s.Name)
		}
		if err := pass.Observe(&batch); err != nil {
			return err
		}
		if objects == nil {
			continue
		}
		if err := objects.ObserveServices(&names, &batch); err != nil {
			return err
		}
	}
	return nil
}

func (a *Audit) fillReport() error {
	r := a.report
	for i, b := range a.bitmaps {
		counts, err := a.pass.Counts(i)
		if err != nil {
			return err
		}
		r.Ranges = append(r.Ranges, Range{
			Name: b.name, Range: b.text, Mode: ModeBitmap,
			Size: uint64(b.size), Used: uint64(counts.Stored), Free: uint64(b.size) - uint64(counts.Stored),
		})
		for value := range a.pass.Values(i, rangekeeper.ValuesLeaked) {
			r.Leaks = append(r.Leaks, Leak{b.name, value.String()})
		}
	}
	findings, err := a.pass.Findings()
	if err != nil {
		return err
	}
	for _, f := range findings {
		r.Findings = append(r.Findings, a.finding(f, a.bitmaps[f.Range].name))
	}
	r.Summary.Services, err = a.pass.Services()
	if err == nil && a.ip != nil {
		err = a.reportObjects()
	}
	r.finish()
	return err
}

func (a *Audit) reportObjects() error {
	r := a.report
	for i, c := range a.cidrs {
		counts, err := a.ip.CIDR(i)
		if err != nil {
			return err
		}
		r.Ranges = append(r.Ranges, Range{
			Name: c.name, Range: c.text, Mode: ModeIPAddress,
			Size: counts.Size, Used: counts.Used, Free: counts.Free,
		})
	}
	findings, err := a.ip.Findings()
	if err != nil {
		return err
	}
	for _, f := range findings {
		r.Findings = append(r.Findings, a.finding(f, a.cidrName(f.Range)))
	}
	leaks, err := a.ip.Leaks()
	if err != nil {
		return err
	}
	for _, leak := range leaks {
		r.Leaks = append(r.Leaks, Leak{a.cidrName(leak.Range), leak.Addr.String()})
	}
	return nil
}

// cidrName gives the name of the ServiceCIDR object of a CIDR. ServiceCIDR
// objects without any CIDR leave nothing to name.
func (a *Audit) cidrName(index int) string {
	if index >= len(a.cidrs) {
		return ""
	}
	return a.cidrs[index].name
}

func (a *Audit) finding(f rangekeeper.Finding, rangeName string) Finding {
	finding := Finding{
		Reason: f.Reason.String(), Range: rangeName, Value: f.Value,
		Message: f.Message, Mendable: f.Mendable,
	}
	if f.Subject.Kind == rangekeeper.SubjectIPAddress {
		finding.Name = a.state.IPAddresses[f.Subject.Ordinal].Name
	} else {
		s := &a.state.Services[f.Subject.Ordinal]
		finding.Namespace, finding.Name = s.Namespace, s.Name
	}
	return finding
}
