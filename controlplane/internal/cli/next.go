package cli

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
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// secrets are flags that are not shown again.
var secrets = []string{"password", "token"}

// remember keeps the flags on the command line that are not others, the command's own, for the commands that come next.
func (s *source) remember(c *cobra.Command, others map[string]bool) {
	s.program = c.Root().CommandPath()
	c.Flags().Visit(func(f *pflag.Flag) {
		if others[f.Name] || slices.Contains(secrets, f.Name) {
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
			s.given = append(s.given, "--"+f.Name+" "+quoted(value))
		}
	})
}

// context returns the context of the kubeconfig, empty where none is used.
func (s *source) context() string {
	config, err := s.kube.loader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(s.kube.overrides.CurrentContext, config.CurrentContext)
}

// namespace returns that of the kubeconfig's context, default unless it names one; empty where no kubeconfig can be read.
func (s *source) namespace() string {
	namespace, _, err := s.kube.loader().Namespace()
	if err != nil {
		return ""
	}
	return namespace
}

// command returns a command for this source, in words that are not broken.
func (s *source) command(words ...string) []string {
	return append(append([]string{s.program}, words...), s.given...)
}

// kubectlFlags are the flags of kubectl on the command line.
func (s *source) kubectlFlags() []string {
	return slices.DeleteFunc(slices.Clone(s.given), func(flag string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), " ")
		name, _, _ = strings.Cut(name, "=") // of a bool
		return s.kube == nil || !slices.Contains(s.kube.names, name)
	})
}

// kubectl returns a command of kubectl for this cluster, in words that are not broken.
func (s *source) kubectl(words ...string) []string {
	return append(append([]string{"kubectl"}, s.kubectlFlags()...), words...)
}

// explainSteps explain a fault: its value, if it can be looked up, and its reason.
func (s *source) explainSteps(f fault) []step {
	steps := []step{{"its meaning, risk and remedy", []string{s.program, "explain", f.reason}}}
	if f.subject == f.reason || !hasPlainName(f.subject) {
		steps[0].why = "meaning, risk and remedy of the worst kind"
		return steps
	}
	return append([]step{{"everything about the first value of the worst kind", s.command("explain", f.subject)}}, steps...)
}

// plainName is an address, or the name of an object that an API server accepts, with its namespace if it has one.
var plainName = regexp.MustCompile(`^[a-z0-9.:][a-z0-9.:/-]*$`)

// hasPlainName reports whether a name can be part of a command: one that was written into etcd may be a flag, or a command itself.
func hasPlainName(name string) bool { return plainName.MatchString(name) }

// deleteSteps delete the worst of the IPAddress objects that nothing else removes, which takes an administrator of the cluster.
// There are none without an object whose name can be part of a command.
func (s *source) deleteSteps(objects []fault) []step {
	objects = slices.DeleteFunc(slices.Clone(objects), func(f fault) bool { return !hasPlainName(f.value) || strings.Contains(f.value, "/") })
	if len(objects) == 0 {
		return nil
	}
	first := worst(objects)
	if first.reason == rangekeeper.ReasonIPAddressWithoutParent.String() && s.connection.Given() && !s.isKine {
		words := append(append([]string{"etcdctl"}, s.etcdctlFlags()...), "del "+quoted(clusterstate.IPAddressKeys(s.prefix)+first.value))
		return []step{{"as an administrator, delete the worst IPAddress object by its key, as kube-apiserver may not start", words}}
	}
	return []step{{"as an administrator, delete the worst IPAddress object", s.kubectl("delete ipaddress " + first.value)}}
}

// etcdctlFlags are the flags of the etcd on the command line, which etcdctl has, too.
func (s *source) etcdctlFlags() []string {
	return slices.DeleteFunc(slices.Clone(s.given), func(flag string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), " ")
		return !slices.Contains([]string{"endpoints", "cacert", "cert", "key", "user", "dial-timeout"}, name)
	})
}

// repairSteps lead to the repair of a report's faults: of all that need no owner in data at rest, and of the bitmaps, whose leaks may
// still be allocated, in a running cluster.
func (s *source) repairSteps(r *audit.Report) []step {
	if s.overAPI() || len(r.Unreadable) > 0 || r.Summary.Services == 0 { // the repair is refused then
		return nil
	}
	repaired := func(remedy rangekeeper.Remedy) bool {
		return remedy == rangekeeper.RemedyRepair || remedy == rangekeeper.RemedyAPIServer && (s.isKine || !s.online())
	}
	n, leaks := 0, 0
	for _, f := range r.Findings {
		byNobody := s.isKine && f.Reason == rangekeeper.ReasonBitmapDisagrees.String() // servers never compare the two
		if repaired(f.Remedy) && !byNobody {
			n++
		}
	}
	for _, l := range r.Leaks {
		if repaired(l.Remedy) {
			leaks++
		}
	}
	all := len(r.Findings) + len(r.Leaks)
	switch {
	case n+leaks == 0:
		return nil
	case s.isKine:
		return []step{s.serverRepairs(fmt.Sprintf("%d of %d", n+leaks, all))}
	case !s.online():
		return []step{{fmt.Sprintf("repair %d of %d into a new snapshot", n+leaks, all), s.command("repair", "--to-file repaired.db")}}
	}
	why := fmt.Sprintf("show the repair of %d of %d; add --apply to write it", n, all)
	switch {
	case n == 0:
		why = "show the repair; add --apply --clean-leaks to clean " + count(leaks, "leak")
	case leaks > 0:
		why += ", and --clean-leaks to clean " + count(leaks, "leak") + ", too"
	}
	return []step{{why, s.command("repair")}}
}

// serverRepairs says, without a command, who repairs what kine stores.
func (s *source) serverRepairs(what string) step {
	return step{why: "the cluster's kube-apiserver repairs " + what + " while it runs, in three passes within 10 minutes; kine refuses all other repairs"}
}

// probeStep finds leaked node ports over the Kubernetes API.
func (s *source) probeStep(r *audit.Report) step {
	words := []string{"audit", "--probe"}
	isAssumed := func(one audit.Range) bool {
		return one.Name == clusterstate.ServiceNodePorts && one.Range == audit.DefaultNodePortRange
	}
	if s.nodePortRange == "" && !slices.ContainsFunc(r.Ranges, isAssumed) {
		words = append(words, "--service-node-port-range LOW-HIGH")
	}
	return step{"find leaked node ports by dry runs, which write nothing", s.command(words...)}
}

// applyStep carries out the plan of a repair that was shown.
func (r *repair) applyStep() step {
	switch s := r.source; {
	case !s.online():
		return step{"write this into a new snapshot", s.command("repair", "--to-file repaired.db")}
	case s.isKine:
		return s.serverRepairs("this")
	case r.planTo != "":
		return step{"after a review, write exactly this to etcd", s.command("repair", "--apply", "--plan "+quoted(r.planTo))}
	default:
		return step{"write this to etcd", s.command("repair", "--apply")}
	}
}
