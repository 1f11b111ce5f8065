package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// checkFindings adds a check for each reason of the audit's findings, in the order of the runbook.
func (p *preflight) checkFindings() {
	switch {
	case len(p.audit.Findings) > 0:
	case !p.dependsOn(recordKinds, "Findings", "Whether the audit has findings"):
		p.ok("Findings", "The audit has no finding%s.", p.exceptUnseen())
	}
	for _, reason := range runbook.Names() {
		// The same reason means another thing in a bitmap.
		var inBitmaps, others []audit.Finding
		for _, f := range p.audit.Findings {
			switch {
			case f.Reason != reason:
			case f.Mode == audit.ModeBitmap:
				inBitmaps = append(inBitmaps, f)
			default:
				others = append(others, f)
			}
		}
		if len(others) > 0 && others[0].IsOfBootstrap() {
			worst := max(slices.IndexFunc(others, func(f audit.Finding) bool { return f.Remedy != rangekeeper.RemedyAPIServer }), 0)
			p.addFindings(reason, others, p.ofServers(others[worst]))
			continue
		}
		if reason == "ClusterIPNotAllocated" {
			p.addFindings(reason, inBitmaps, p.ofBitmap())
			p.addFindings(reason, others, p.ofObjects())
			continue
		}
		p.addFindings(reason, append(inBitmaps, others...), p.verdict(reason, valuesOf(append(inBitmaps, others...))))
	}
}

// checkTexts looks for ClusterIPs in another text than the canonical one, which are no fault as long as bitmaps record
// them.
func (p *preflight) checkTexts() {
	if !p.createsObjects() {
		return
	}
	const reason = "ClusterIPNotCanonical"
	var texts []string
	for _, claim := range p.claims {
		if claim.Value.Addr().IsValid() && claim.Text != claim.Value.String() {
			texts = append(texts, claim.Text)
		}
	}
	if len(texts) > 0 {
		v := p.verdict(reason, texts)
		v.what += " So another Service can get the addresses, which bitmaps have kept from that until now."
		v.words = p.Explain(reason)
		p.addValues(reason, texts, v)
	}
}

// verdict is what findings mean for the upgrade.
type verdict struct {
	level Level
	// what follows the number of values, remedy and words are those of the check.
	what, remedy string
	words        []string
	// needs are the kinds of objects without which the findings are not certain.
	needs []string
}

func (p *preflight) addFindings(reason string, findings []audit.Finding, v verdict) {
	if len(findings) == 0 {
		return
	}
	if v.words == nil {
		v.words = p.Explain(findings[0].Subject())
	}
	p.addValues(reason, valuesOf(findings), v)
}

func valuesOf(findings []audit.Finding) (values []string) {
	for _, f := range findings {
		values = append(values, f.Value)
	}
	return values
}

func (p *preflight) addValues(name string, values []string, v verdict) {
	values = distinct(values)
	title := ""
	if entry, ok := runbook.Named(name); ok {
		title = entry.Title
	}
	if v.words == nil {
		v.words = p.Explain(values[0])
	}
	if unreadable := p.unreadable(v.needs...); unreadable != "" {
		v.level, v.what, v.remedy = Unknown, "Whether that is so is unknown: "+unreadable+".", p.repairLater()+showsMore
	}
	p.add(Check{
		Name: name, Level: v.level, Message: strings.TrimSpace(fmt.Sprintf("%s: %s. %s", title, some(values), v.what)), Values: values,
		Remedy: v.remedy, Words: v.words,
	})
}

// some names the first values.
func some(values []string) string {
	const shown = 3
	values = slices.Clone(values)
	for i, value := range values {
		values[i] = cmp.Or(value, `""`)
	}
	if len(values) <= shown {
		return strings.Join(values, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(values[:shown], ", "), len(values)-shown)
}

// verdict of a reason, but for ClusterIPNotAllocated.
func (p *preflight) verdict(reason string, values []string) verdict {
	switch reason {
	case "PortNotAllocated":
		return verdict{Surprise, "The first repair pass records them, with an Event each.", p.repairs("record them now"), p.Repair, nil}
	case "BitmapDisagrees":
		v := verdict{Surprise, "No kube-apiserver repairs that.", p.repairs("repair the bitmap"), p.Repair, recordKinds}
		switch {
		case p.To > bitmapsUntil:
			v.what, v.remedy, v.words = fmt.Sprintf("kube-apiserver %v does not use the bitmap.", p.To), "Nothing has to be done, unless the upgrade waits.", nil
		case p.Repair == nil && p.unreadable(recordKinds...) == "":
			v.remedy = "Upgrade to 1.34 next, which does not use the bitmap."
		}
		return v
	case "IPAddressWithoutParent":
		v := verdict{
			Must, "These IPAddress objects have no spec.parentRef: no API server accepts or repairs them.",
			"As an administrator delete them with kubectl, or their keys in etcd while no API server runs. This shows more:", nil, nil,
		}
		if p.AtRest && p.Repair != nil {
			v.remedy, v.words = "To remove them"+restores, p.Repair
		}
		return v
	case "ClusterIPNotCanonical":
		entry, _ := runbook.Named(reason)
		return verdict{Surprise, "Each repair pass removes or recreates their IPAddress objects, with an Event each.", entry.Remedy, nil, nil}
	case "IPAddressNotCanonical":
		entry, _ := runbook.Named(reason)
		return verdict{Surprise, "kube-apiserver does not find these IPAddress objects.", entry.Remedy, nil, nil}
	case "ClusterIPOutOfRange":
		return p.ofRange(reason)
	case "RangeNotReadable":
		entry, _ := runbook.Named(reason)
		if p.byObjects && p.To > bitmapsUntil && !slices.Contains(values, clusterstate.ServiceNodePorts) {
			return verdict{Surprise, fmt.Sprintf("kube-apiserver %v does not use these bitmaps.", p.To), "Until the upgrade: " + entry.Remedy, p.Explain(reason), nil}
		}
		return verdict{Must, fmt.Sprintf("kube-apiserver %v cannot read it either, and ends when it starts.", p.To), entry.Remedy, p.Explain(reason), nil}
	case "ClusterIPMissing", "NodePortMissing", "HealthCheckNodePortMissing":
		entry, _ := runbook.Named(reason)
		return verdict{Surprise, "The upgrade does not change that.", entry.Remedy, nil, nil}
	case "RangeMissing":
		entry, _ := runbook.Named(reason)
		return verdict{Surprise, "An API server that starts sets it up from its flag.", entry.Remedy, p.Explain(reason), nil}
	case "RangeFull", "RangeNearlyFull":
		entry, _ := runbook.Named(reason)
		return verdict{Surprise, "The upgrade adds no value to a range.", entry.Remedy, p.Explain(reason), nil}
	case "IPAddressNotAllocated", "IPAddressWrongReference":
		return p.changes("The first repair pass removes them, with an Event each.", "remove", audit.KindService)
	}
	entry, _ := runbook.Named(reason)
	return verdict{Must, fmt.Sprintf("kube-apiserver %v reports it in each repair pass and cannot repair it.", p.To), entry.Remedy, nil, nil}
}

// ofServers is the verdict about what API servers keep.
func (p *preflight) ofServers(f audit.Finding) verdict {
	entry, _ := runbook.Named(f.Reason)
	v := verdict{Must, "The upgrade does not change that.", entry.Remedy, p.Explain("default/" + clusterstate.KubernetesService), nil}
	if f.Remedy == rangekeeper.RemedyAPIServer {
		v.level, v.what = Surprise, "An API server repairs it when it starts, and each one that lives does."
	}
	return v
}

// ofBitmap is the verdict about ClusterIPs that a bitmap lacks.
func (p *preflight) ofBitmap() verdict {
	if p.To == objectsSince {
		return verdict{
			Must, "kube-apiserver 1.33 looks for free addresses in the bitmap and no longer repairs it: creations of Services that choose these addresses fail.",
			p.repairs("repair the bitmap before the upgrade"), p.Repair, nil,
		}
	}
	return verdict{Surprise, "The first repair pass records them, with an Event each.", p.repairs("record them now"), p.Repair, nil}
}

// ofObjects is the verdict about ClusterIPs whose IPAddress objects are missing or refer to something else.
func (p *preflight) ofObjects() verdict {
	return p.changes("The IPAddress objects are missing or foreign. The first repair pass creates them, with an Event each; until then another Service "+
		"can get the addresses.", "create", audit.KindIPAddress)
}

func (p *preflight) checkLeaks() {
	var inClusterIPs, inNodePorts, objects []string
	for _, l := range p.audit.Leaks {
		switch {
		case l.Range == clusterstate.ServiceNodePorts && l.Mode != audit.ModeIPAddress:
			inNodePorts = append(inNodePorts, l.Value)
		case l.Mode == audit.ModeBitmap:
			inClusterIPs = append(inClusterIPs, l.Value)
		default:
			objects = append(objects, l.Value)
		}
	}
	if len(p.audit.Leaks) == 0 && !p.dependsOn(recordKinds, "Leaks", "Whether values are leaked") {
		p.ok("Leaks", "The audit has no leak%s.", p.exceptUnseen())
	}
	const name = runbook.Leak
	if len(inClusterIPs) > 0 {
		v := verdict{Surprise, "The third repair pass frees them.", p.repairs("free them now"), p.Repair, recordKinds}
		if p.To == objectsSince {
			v.level, v.what = Must, "kube-apiserver 1.33 refuses these addresses as allocated, and no longer repairs the bitmap (kubernetes#136475)."
			v.remedy = p.repairs("free them before the upgrade")
		}
		p.addValues(name, inClusterIPs, v)
	}
	if len(inNodePorts) > 0 {
		p.addValues(name, inNodePorts, verdict{Surprise, "The third repair pass frees these node ports.", p.repairs("free them now"), p.Repair, recordKinds})
	}
	if len(objects) > 0 {
		p.addValues(name, objects, p.changes("The first repair pass removes these IPAddress objects, with an Event each.", "remove", recordKinds...))
	}
}

// repairs is the remedy that is a repair of bitmaps.
func (p *preflight) repairs(purpose string) string {
	switch {
	case p.unreadable(recordKinds...) != "":
		return p.repairLater() + showsMore
	case p.Repair == nil:
		return "To " + purpose + ", let the present kube-apiserver run for 10 minutes: its repair does it in three passes."
	case p.AtRest:
		return "To " + purpose + restores
	}
	return "A Service that is being created looks the same for a moment. To " + purpose + ", run:"
}

// restores ends the remedies that a repair of the snapshot is: without a restore it repairs no cluster.
const restores = ", repair the snapshot and restore the result, as " + runbook.Restore + " says:"

// showsMore ends the remedies whose command is an explanation.
const showsMore = " This shows more:"

// changes is the verdict about IPAddress objects that the first repair pass changes.
func (p *preflight) changes(what, verb string, needs ...string) verdict {
	switch {
	case p.unreadable(recordKinds...) != "":
		return verdict{Surprise, what, p.repairLater() + showsMore, nil, needs}
	case p.AtRest && p.Repair != nil:
		return verdict{Surprise, what, "To " + verb + " them" + restores, p.Repair, needs}
	}
	return verdict{Surprise, what, "Before the upgrade, wait for the repair of the present kube-apiserver, which does the same every 3 minutes. " +
		"If it does not, its log says why." + showsMore, nil, needs}
}
