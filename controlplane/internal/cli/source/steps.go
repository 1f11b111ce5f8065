package source

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// secrets are flags that are not shown again.
var secrets = []string{"password", "token"}

// remember keeps the flags on the command line that are not others, the command's own, for the commands that come next.
func (s *Source) remember(c *cobra.Command, others map[string]bool) {
	s.Program = c.Root().CommandPath()
	c.Flags().Visit(func(f *pflag.Flag) {
		if others[f.Name] || slices.Contains(secrets, f.Name) || f.Name == "service-cluster-ip-range" && !s.OverAPI() {
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if f.Name == "user" { // which may have the password, too
			value, _, _ = strings.Cut(value, ":")
		}
		if f.Value.Type() == "bool" {
			s.given = append(s.given, "--"+f.Name+"="+value)
		} else {
			s.given = append(s.given, "--"+f.Name+" "+screen.Quoted(value))
		}
	})
}

// context returns the context of the kubeconfig, empty where none is used.
func (s *Source) context() string {
	config, err := s.kube.loader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(s.kube.overrides.CurrentContext, config.CurrentContext)
}

// ServiceNamespace is that of a Service that is named without one: the one that is given, or that of the kubeconfig's
// context, default unless it names one; empty if none is known.
func (s *Source) ServiceNamespace(given string) string {
	if given != "" || !s.OverAPI() {
		return given
	}
	namespace, _, err := s.kube.loader().Namespace()
	if err != nil {
		return ""
	}
	return namespace
}

// Command returns a command for this source, in words that are not broken.
func (s *Source) Command(words ...string) []string {
	return append(append([]string{s.Program}, words...), s.given...)
}

// RangesCommand is Command for the etcd with the ranges, if that is another one.
func (s *Source) RangesCommand(words ...string) []string {
	return append(append([]string{s.Program}, words...), s.ofRanges(s.given)...)
}

// ofRanges returns flags that name the etcd for those that name the one with the ranges, if that is another one.
func (s *Source) ofRanges(flags []string) []string {
	if len(s.services) == 0 {
		return flags
	}
	flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return strings.HasPrefix(flag, "--endpoints ") || strings.HasPrefix(flag, "--services-endpoints ")
	})
	return append(flags, "--endpoints "+screen.Quoted(strings.Join(s.services, ",")))
}

// flags are those of the command line that have one of these names.
func (s *Source) flags(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(s.given), func(flag string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), " ")
		name, _, _ = strings.Cut(name, "=") // of a bool
		return !slices.Contains(names, name)
	})
}

// KubectlFlags are the flags of kubectl on the command line.
func (s *Source) KubectlFlags() []string {
	if s.kube == nil {
		return nil
	}
	return s.flags(s.kube.names...)
}

// kubectl returns a command of kubectl for this cluster, in words that are not broken.
func (s *Source) kubectl(words ...string) []string {
	return append(append([]string{"kubectl"}, s.KubectlFlags()...), words...)
}

// explainSteps explain a fault: its value, if it can be looked up, and its reason.
func (s *Source) explainSteps(f screen.Fault) []screen.Step {
	steps := []screen.Step{{Why: "its meaning, risk and remedy", Words: []string{s.Program, "explain", f.Reason}}}
	if f.Subject == f.Reason || !hasPlainName(f.Subject) {
		steps[0].Why = "meaning, risk and remedy of the worst kind"
		return steps
	}
	return append([]screen.Step{{Why: "everything about the first value of the worst kind", Words: s.Command("explain", f.Subject)}}, steps...)
}

// plainName is an address, or the name of an object that an API server accepts, with its namespace if it has one.
var plainName = regexp.MustCompile(`^[a-z0-9.:][a-z0-9.:/-]*$`)

// hasPlainName reports whether a name can be part of a command: one that was written into etcd may be a flag, or a
// command itself.
func hasPlainName(name string) bool { return plainName.MatchString(name) }

// deleteSteps delete the worst of the IPAddress objects that nothing else removes, which takes an administrator of the
// cluster. There are none without an object whose name can be part of a command.
func (s *Source) deleteSteps(objects []screen.Fault) []screen.Step {
	objects = slices.DeleteFunc(slices.Clone(objects), func(f screen.Fault) bool { return !hasPlainName(f.Value) || strings.Contains(f.Value, "/") })
	if len(objects) == 0 {
		return nil
	}
	first := screen.Worst(objects)
	if first.Reason == rangekeeper.ReasonIPAddressWithoutParent.String() && s.connection.Given() && !s.isKine {
		words := append(append([]string{"etcdctl"}, s.etcdctlFlags()...), "del "+screen.Quoted(clusterstate.IPAddressKeys(s.prefix)+first.Value))
		return []screen.Step{{Why: "as an administrator, delete the worst IPAddress object by its key, as kube-apiserver may not start", Words: words}}
	}
	return []screen.Step{{Why: "as an administrator, delete the worst IPAddress object", Words: s.kubectl("delete ipaddress " + first.Value)}}
}

// damagedSteps delete the stored object of the first range that cannot be read in a running etcd.
func (s *Source) damagedSteps(r *audit.Report) []screen.Step {
	at := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.Reason == rangekeeper.ReasonRangeNotReadable.String() })
	if at < 0 || !s.connection.Given() || s.isKine {
		return nil
	}
	words := append(append([]string{"etcdctl"}, s.ofRanges(s.etcdctlFlags())...), "del "+screen.Quoted(clusterstate.RangeKey(s.prefix, r.Findings[at].Name)))
	return []screen.Step{{Why: "as an administrator, delete the range that cannot be read; the servers set it up again from the Services", Words: words}}
}

// etcdctlFlags are the flags of the etcd on the command line, which etcdctl has, too.
func (s *Source) etcdctlFlags() []string {
	return s.flags("endpoints", "cacert", "cert", "key", "user", "dial-timeout")
}

// repairSteps lead to the repair of a report's faults: of all that need no owner in data at rest, and of the bitmaps,
// whose leaks may still be allocated, in a running cluster.
func (s *Source) repairSteps(r *audit.Report) []screen.Step {
	if s.OverAPI() || len(r.Unreadable) > 0 || r.Summary.Services == 0 { // the repair is refused then
		return nil
	}
	n, leaks := 0, 0
	for _, f := range r.Findings {
		if s.isRepaired(f) {
			n++
		}
	}
	for _, l := range r.Leaks {
		if s.hasRepair(l.Remedy) {
			leaks++
		}
	}
	all := len(r.Findings) + len(r.Leaks)
	switch {
	case n+leaks == 0:
		return nil
	case s.isKine:
		return []screen.Step{s.serverRepairs(fmt.Sprintf("%d of %d", n+leaks, all))}
	case !s.Online():
		return []screen.Step{{Why: fmt.Sprintf("repair %d of %d into a new snapshot", n+leaks, all), Words: s.Command("repair", "--to-file repaired.db")}}
	}
	why := fmt.Sprintf("show the repair of %d of %d; add --apply to write it", n, all)
	switch {
	case n == 0:
		why = "show the repair; add --apply --clean-leaks to clean " + screen.Count(leaks, "leak")
	case leaks > 0:
		why += ", and --clean-leaks to clean " + screen.Count(leaks, "leak") + ", too"
	}
	return []screen.Step{{Why: why, Words: s.RangesCommand("repair")}}
}

// isRepaired reports whether the repair of this source, or of kine's server, repairs a finding.
func (s *Source) isRepaired(f audit.Finding) bool {
	switch {
	case f.IsOfBootstrap(): // servers repair the rest, and those of kine all; without Services no repair judges it
		return !s.isKine && len(s.services) == 0 && (f.Remedy == rangekeeper.RemedyRepair || f.Stays)
	case s.isKine && f.Reason == rangekeeper.ReasonBitmapDisagrees.String(): // servers never compare the two
		return false
	}
	return s.hasRepair(f.Remedy)
}

// hasRepair reports whether the repair of this source, or of kine's server, takes care of a value with this remedy.
func (s *Source) hasRepair(remedy rangekeeper.Remedy) bool {
	return remedy == rangekeeper.RemedyRepair || remedy == rangekeeper.RemedyAPIServer && (s.isKine || !s.Online())
}

// serverRepairs says, without a command, who repairs what kine stores.
func (s *Source) serverRepairs(what string) screen.Step {
	return screen.Step{Why: "the cluster's kube-apiserver repairs " + what + " while it runs, in three passes within 10 minutes; kine refuses all other repairs"}
}

// applyStep carries out the plan of a repair that was shown, and was written to the file planTo if that is not "".
func (s *Source) applyStep(planTo string) screen.Step {
	switch {
	case !s.Online():
		return screen.Step{Why: "write this into a new snapshot", Words: s.Command("repair", "--to-file repaired.db")}
	case s.isKine:
		return s.serverRepairs("this")
	case planTo != "":
		return screen.Step{Why: "after a review, write exactly this to etcd", Words: s.Command("repair", "--apply", "--plan "+screen.Quoted(planTo))}
	default:
		return screen.Step{Why: "write this to etcd", Words: s.Command("repair", "--apply")}
	}
}

// probeStep finds leaked node ports over the Kubernetes API.
func (s *Source) probeStep(r *audit.Report) screen.Step {
	words := []string{"audit", "--probe"}
	isAssumed := func(one audit.Range) bool {
		return one.Name == clusterstate.ServiceNodePorts && one.Range == audit.DefaultNodePortRange
	}
	if s.nodePortRange == "" && !slices.ContainsFunc(r.Ranges, isAssumed) {
		words = append(words, "--service-node-port-range LOW-HIGH")
	}
	return screen.Step{Why: "find leaked node ports by dry runs, which write nothing", Words: s.Command(words...)}
}

// ReportSteps are the commands that follow an audit, if any do.
func (s *Source) ReportSteps(r *audit.Report) []screen.Step {
	var deleted []screen.Fault
	for _, f := range r.Findings {
		if f.Kind == audit.KindIPAddress && f.Remedy == rangekeeper.RemedyOwner {
			deleted = append(deleted, screen.FaultOf(f, false))
		}
	}
	var steps []screen.Step
	if faults := screen.FaultsOf(r, false); len(faults) > 0 {
		steps = s.explainSteps(screen.Worst(faults))
	}
	if slices.ContainsFunc(r.Findings, func(f audit.Finding) bool {
		return f.Severity == audit.Exhausted && f.Kind == audit.KindServiceCIDR
	}) {
		steps = append(steps, screen.Step{Why: "add addresses, once you have put a CIDR into this ServiceCIDR", Words: append([]string{"echo " + screen.Quoted(runbook.ServiceCIDR), "|"}, s.kubectl("create -f -")...)})
	}
	steps = append(steps, s.deleteSteps(deleted)...)
	steps = append(steps, s.damagedSteps(r)...)
	if r.SuspectsLeaks {
		steps = append(steps, s.probeStep(r))
	}
	return append(steps, s.repairSteps(r)...)
}

// PlanSteps are the commands that follow a plan, with a page of the runbook. It was written to the file planTo, or
// carried out into the file toFile, if these are not "".
func (s *Source) PlanSteps(p *audit.Plan, planTo, toFile string) (steps []screen.Step, page string) {
	switch {
	case !p.Applied && (p.ChangesAny() || p.LookedAtAgain() > 0 && planTo == ""):
		steps = append(steps, s.applyStep(planTo))
	case p.Applied && toFile != "":
		page = runbook.Restore
		words := []string{s.Program, "audit", "--etcd-snapshot " + screen.Quoted(toFile)}
		if s.prefix != clusterstate.DefaultPrefix {
			words = append(words, s.flags("prefix")...)
		}
		steps = append(steps, screen.Step{Why: "check the repaired snapshot, then restore it as the runbook says", Words: words})
	case p.Applied:
		why := "check the result"
		if slices.ContainsFunc(p.ServerObjects, func(o audit.ServerObject) bool { return o.Kind == audit.KindMasterLease }) {
			why += ", once the servers have had 20 seconds to put the endpoints right"
		}
		steps = append(steps, screen.Step{Why: why, Words: s.Command("audit")})
	}
	if p.LookedAtAgain() > 0 && (planTo != "" || p.Applied) {
		steps = append(steps, screen.Step{Why: "repair what the API servers keep, which no plan holds", Words: s.Command("repair", "--apply")})
	}
	objects, others, owners := screen.PlanLeft(p, false)
	steps = append(steps, s.deleteSteps(objects)...)
	if left := slices.Concat(objects, others, owners); len(left) > 0 {
		first := screen.Worst(left)
		steps = append(steps, s.explainSteps(first)...)
		if page == "" {
			entry, _ := runbook.Named(first.Reason)
			page = entry.Page()
		}
	}
	return steps, page
}
