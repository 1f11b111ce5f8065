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

// cluster is what the cluster is known by: the context of the kubeconfig, or else the source.
func (s *source) cluster() string {
	if s.overAPI() {
		if config, err := s.kube.loader().RawConfig(); err == nil {
			if context := cmp.Or(s.kube.overrides.CurrentContext, config.CurrentContext); context != "" {
				return context + " (" + s.server + ")"
			}
		}
	}
	return s.name()
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
	if first.reason == rangekeeper.ReasonIPAddressWithoutParent.String() && s.connection.Given() {
		words := append(append([]string{"etcdctl"}, s.etcdctlFlags()...), "del "+quoted(clusterstate.IPAddressKeys(s.prefix)+first.value))
		return []step{{"as an administrator, delete the worst IPAddress object by its key, as kube-apiserver may not start", words}}
	}
	words := append(append([]string{"kubectl"}, s.kubectlFlags()...), "delete ipaddress "+first.value)
	return []step{{"as an administrator, delete the worst IPAddress object", words}}
}

// etcdctlFlags are the flags of the etcd on the command line, which etcdctl has, too.
func (s *source) etcdctlFlags() []string {
	return slices.DeleteFunc(slices.Clone(s.given), func(flag string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), " ")
		return !slices.Contains([]string{"endpoints", "cacert", "cert", "key", "user", "dial-timeout"}, name)
	})
}

// repairStep leads to the repair of n of all faults, and of leaks, which a running cluster may still allocate.
func (s *source) repairStep(n, leaks, all int) step {
	if !s.online() {
		return step{fmt.Sprintf("repair %d of %d into a new snapshot", n+leaks, all), s.command("repair", "--to-file repaired.db")}
	}
	why := fmt.Sprintf("show the repair of %d of %d; add --apply to write it", n, all)
	switch {
	case n == 0:
		why = "show the repair; add --apply --clean-leaks to clean " + count(leaks, "leak")
	case leaks > 0:
		why += ", and --clean-leaks to clean " + count(leaks, "leak") + ", too"
	}
	return step{why, s.command("repair")}
}

// probeStep finds leaked node ports over the Kubernetes API.
func (s *source) probeStep(r *audit.Report) step {
	words := []string{"audit", "--probe"}
	isAssumed := func(one audit.Range) bool {
		return one.Name == audit.ServiceNodePorts && one.Range == audit.DefaultNodePortRange
	}
	if s.nodePortRange == "" && !slices.ContainsFunc(r.Ranges, isAssumed) {
		words = append(words, "--service-node-port-range LOW-HIGH")
	}
	return step{"find leaked node ports by dry runs, which write nothing", s.command(words...)}
}

// applyStep carries out a plan that was shown.
func (s *source) applyStep() step {
	if s.online() {
		return step{"write this to etcd", s.command("repair", "--apply")}
	}
	return step{"write this into a new snapshot", s.command("repair", "--to-file repaired.db")}
}
