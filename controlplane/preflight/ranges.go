package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	clusterIPFlag   = "--service-cluster-ip-range"
	serviceCIDRName = "ServiceCIDR " + clusterstate.DefaultServiceCIDR
)

// checkServiceCIDR compares the servers' flag with what is stored. Which of them is wrong is the core's word, by the
// ClusterIPs of Services.
func (p *preflight) checkServiceCIDR() {
	const name = "ServiceCIDR"
	stored, what := p.bitmaps(), "the bitmaps have"
	if p.byObjects {
		stored, what = p.defaultCIDRs(), serviceCIDRName+" has"
	}
	given, verdict := p.ClusterIPRanges, p.ranges
	showFlag := p.kubectl("-n kube-system", "get pods", "-l component=kube-apiserver", "-o yaml", "| grep service-cluster-ip-range")
	differ := fmt.Sprintf("%s is %s, and %s %s.", clusterIPFlag, rangesText(given), what, rangesText(stored))
	switch {
	case len(stored) == 0 && !p.byObjects && p.unseen():
		p.add(Check{
			Name: name, Level: Unknown, Message: "Whether " + clusterIPFlag + " has the ranges that the bitmaps have: the Kubernetes API does not serve bitmaps.",
			Remedy: "Read etcd or an etcd snapshot, with --endpoints or --etcd-snapshot.",
		})
	case len(stored) == 0 && p.byObjects && p.dependsOn([]string{audit.KindServiceCIDR}, name, "Whether all servers have "+clusterIPFlag+" as "+what+" it"):
	case len(stored) == 0 && verdict.Outcome == rangekeeper.RangesUndecided:
		p.add(Check{
			Name: name, Level: Must, Message: fmt.Sprintf("There is no %s, and of %s %d are in %s, which %s has.", serviceCIDRName, p.clusterIPsText(), verdict.InFlag, rangesText(given), clusterIPFlag),
			Remedy: "Start the servers with the range that the Services are in.",
		})
	case len(stored) == 0:
		p.add(Check{
			Name: name, Level: Surprise, Message: "There is no " + serviceCIDRName + ": the first server that starts creates it from its " + clusterIPFlag + ".",
			Remedy: "See that all servers have the same " + clusterIPFlag + ", and that all ClusterIPs are in it.", Words: showFlag,
		})
	case len(given) == 0 && verdict.Outcome == rangekeeper.RangesUndecided:
		p.add(Check{
			Name: name, Level: Unknown,
			Message: fmt.Sprintf("Whether %s, the range that %s, or the Services are wrong: of %s %d are in it.", rangesText(stored), what, p.clusterIPsText(), p.inStored()),
			Remedy:  "Name the flag of the servers with " + clusterIPFlag + " before anything is changed. This shows it in clusters whose servers are Pods:", Words: showFlag,
		})
	case len(given) == 0:
		p.add(Check{
			Name: name, Level: Unknown, Message: fmt.Sprintf("Whether all servers have %s=%s, as %s it.", clusterIPFlag, rangesText(stored), what),
			Remedy: "Name the flag with " + clusterIPFlag + ". This shows it in clusters whose servers are Pods:", Words: showFlag,
		})
	case verdict.Outcome == rangekeeper.RangesAgree:
		p.ok(name, "%s is %s, and %s the same.", clusterIPFlag, rangesText(given), what)
	case verdict.Outcome == rangekeeper.RangesUndecided && slices.Equal(stored, given):
		p.add(Check{
			Name: name, Level: Must,
			Message: fmt.Sprintf("%s is %s, and %s the same, but of %s %d are in it.", clusterIPFlag, rangesText(given), what, p.clusterIPsText(), verdict.InFlag),
			Remedy: "If the range was changed by mistake, restore the former one on all servers, and then in the stored object. If it was changed on purpose, " +
				"recreate the Services, or add a ServiceCIDR object for their range (1.33 and later).",
		})
	case verdict.Outcome == rangekeeper.RangesUndecided:
		p.add(Check{
			Name: name, Level: Must, Message: fmt.Sprintf("%s Of %s %d are in the former and %d in the latter.", differ, p.clusterIPsText(), verdict.InFlag, p.inStored()),
			Remedy: "Find the range that the Services are of, and let the servers' flag and the stored range have it, before anything else is changed. Another range " +
				"is added with a ServiceCIDR object in 1.33 and later.",
		})
	case verdict.FlagIsWrong:
		p.add(Check{
			Name: name, Level: Must,
			Message: fmt.Sprintf("%s Of %s %d are in the latter and %d in the former: the flag is wrong.", differ, p.clusterIPsText(), p.inStored(), verdict.InFlag),
			Remedy:  fmt.Sprintf("Start every kube-apiserver with %s=%s. Another range is added with a ServiceCIDR object in 1.33 and later.", clusterIPFlag, rangesText(stored)),
		})
	case verdict.ServiceCIDRIsWrong:
		p.add(Check{
			Name: name, Level: Must, Message: fmt.Sprintf("%s Of %s %d are in the former and %d in the latter: the ServiceCIDR is wrong.", differ, p.clusterIPsText(), verdict.InFlag, verdict.InServiceCIDR),
			Remedy: "Delete it while servers with the right flag run: within a minute they create it again from their flag, and within three minutes the IPAddress objects. " +
				"Create no Service before an audit finds nothing.",
			Words: p.kubectl("delete servicecidr " + clusterstate.DefaultServiceCIDR),
		})
	case verdict.BitmapIsWrong:
		p.addWrongBitmap(name, differ)
	default:
		p.addHarmless(name, differ, stored)
	}
}

func (p *preflight) addWrongBitmap(name, differ string) {
	v := p.ranges
	c := Check{
		Name: name, Level: Must, Message: fmt.Sprintf("%s Of %s %d are in the former and %d in the latter: the bitmap is wrong.", differ, p.clusterIPsText(), v.InFlag, v.InBitmap),
		Remedy: "Let the present kube-apiserver run with this flag: its repair writes the bitmap with the range of the flag, when it starts and every three minutes.",
	}
	if p.byObjects { // whose ServiceCIDR has the flag
		c.Message = fmt.Sprintf("%s has %s, and the bitmap %s, in which %d of %s are.", serviceCIDRName, rangesText(p.defaultCIDRs()), rangesText(p.bitmaps()), v.InBitmap, p.clusterIPsText())
		c.Remedy = "Upgrade to 1.34 next, which does not use the bitmap."
		if p.To > bitmapsUntil {
			c.Level, c.Remedy = Surprise, fmt.Sprintf("Nothing has to be done: kube-apiserver %v does not use the bitmap.", p.To)
		}
	}
	p.add(c)
}

// addHarmless is the check of ranges that differ, and all have the Services.
func (p *preflight) addHarmless(name, differ string, stored []string) {
	given := p.ClusterIPRanges
	c := Check{Name: name, Level: Surprise, Message: fmt.Sprintf("%s Both have nearly all of %s.", differ, p.clusterIPsText())}
	switch {
	case len(stored) == 1 && len(given) == 2 && stored[0] == given[0]:
		c.Message += " The new server makes the cluster dual-stack."
		c.Remedy = "Set the flag to " + rangesText(stored) + ", and change it in a step of its own after the upgrade, or give it to all servers at once."
	case p.byObjects:
		c.Message += " kube-apiserver does not change the ServiceCIDR, and allocates from it alone."
		c.Remedy = "Nothing has to be done. To allocate from the range of the flag, too, add a ServiceCIDR object for it:"
		c.Words = append([]string{"echo '" + strings.Replace(runbook.ServiceCIDR, `"CIDR"`, `"`+strings.Join(given, `","`)+`"`, 1) + "'", "|"}, p.kubectl("create -f -")...)
	default: // 1.33 refuses a bitmap of another range, and does not repair it
		if p.To == objectsSince {
			c.Level = Must
		}
		c.Remedy = "Let the present kube-apiserver run with this flag: its repair writes the bitmap with the range of the flag, when it starts and every three minutes."
	}
	p.add(c)
}

// inStored is how many ClusterIPs are in the ranges that allocations are recorded for.
func (p *preflight) inStored() uint64 {
	if p.byObjects {
		return p.ranges.InServiceCIDR
	}
	return p.ranges.InBitmap
}

func (p *preflight) clusterIPsText() string {
	if p.ranges.Values == 1 {
		return "1 ClusterIP of a Service"
	}
	return fmt.Sprintf("%d ClusterIPs of Services", p.ranges.Values)
}

func rangesText(ranges []string) string { return strings.Join(ranges, ",") }

// ofRange is the verdict about ClusterIPs outside of all ranges.
func (p *preflight) ofRange(reason string) verdict {
	entry, _ := runbook.Named(reason)
	switch v := p.ranges; {
	case v.ServiceCIDRIsWrong, v.BitmapIsWrong && !p.byObjects:
		return verdict{Must, "They are right, and the stored range is wrong.", "As that of the check ServiceCIDR: no Service has to be recreated. This shows more:", nil, nil}
	case v.Outcome == rangekeeper.RangesUndecided:
		return verdict{Must, "Nearly all of them are: the range may be wrong, and not they.", "As that of the check ServiceCIDR, before a Service is recreated. This shows more:", nil, nil}
	}
	return verdict{Must, fmt.Sprintf("kube-apiserver %v reports it in each repair pass and cannot repair it.", p.To), entry.Remedy, nil, nil}
}
