package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// completeRange offers the names of the source's ranges for the argument of a command.
func completeRange(c *cobra.Command, s *source.Source) {
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := ranges.Names
		s.Quietly(c.Context(), func(state *clusterstate.State) {
			a, err := s.AuditOf(state, nil)
			if err != nil {
				return
			}
			names = nil
			for _, r := range a.Report().Ranges {
				names = append(names, r.Name)
			}
			names = slices.Compact(names) // a ServiceCIDR object can have two
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNamespaces offers the namespaces of the source's Services for --namespace.
func completeNamespaces(c *cobra.Command, s **source.Source) {
	c.RegisterFlagCompletionFunc("namespace", func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		var names []string
		(*s).Quietly(c.Context(), func(state *clusterstate.State) { names = beginning(namespaces(state), begun) })
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// namespaces returns those of Services.
func namespaces(state *clusterstate.State) (names []string) {
	for _, s := range state.Services.All() {
		names = append(names, s.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// completeValues offers what explain takes: the Services of a namespace if one is named, else namespaces and reasons.
func completeValues(s **source.Source, inNamespace *string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) (names []string, directive cobra.ShellCompDirective) {
		directive = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, directive
		}
		namespace, _, hasNamespace := strings.Cut(begun, "/")
		before := namespace + "/"
		if hasNamespace && isServiceKind(namespace) {
			namespace = (*s).ServiceNamespace(*inNamespace)
		}
		if *inNamespace != "" && !hasNamespace {
			namespace, before, hasNamespace = *inNamespace, "", true
		}
		(*s).Quietly(c.Context(), func(state *clusterstate.State) {
			if !hasNamespace {
				for _, name := range namespaces(state) {
					names = append(names, name+"/")
				}
				return
			}
			for _, one := range state.Services.All() {
				if one.Namespace == namespace {
					names = append(names, before+one.Name)
				}
			}
		})
		if !hasNamespace {
			names, directive = append(names, runbook.Names()...), directive|cobra.ShellCompDirectiveNoSpace
		}
		return beginning(names, begun), directive
	}
}

// beginning returns the names that begin with a text.
func beginning(names []string, text string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, text) })
}
