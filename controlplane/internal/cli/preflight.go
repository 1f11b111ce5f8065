package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
	driver "github.com/rangekeeper/rangekeeper/controlplane/repair"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newPreflight(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "preflight",
		Short: "Show what stops or surprises an upgrade of Kubernetes",
		Long: `Shows what stops or surprises an upgrade of the API servers to another minor release, as
far as it is about ClusterIPs and node ports: faults that the new release cannot repair,
feature gates that it refuses, ranges that differ from the servers' flag, admission
webhooks and policies that keep a server from starting, and the writes of its first repair
pass. Each line has its remedy. Writes nothing. docs/upgrade.md explains each check.

Over the Kubernetes API it reads the admission webhooks and policies, too, if the user may
list them (deploy/audit/preflight.yaml).`,
		Example: `  rangekeeper preflight --to 1.34
  rangekeeper preflight --to 1.34 -o json \
    --service-cluster-ip-range 10.96.0.0/12
  rangekeeper preflight --to 1.33 --etcd-snapshot backup.db.gz`,
		Args:              usage.Arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var to string
	c.Flags().StringVar(&to, "to", "", "release of the upgrade: "+strings.Join(preflight.Targets(), ", ")+", or a patch release of one of these")
	usage.Required(c, "to")
	strict := c.Flags().Bool("strict", false, "exit code 4 if nothing must be done first, but something is unknown")
	format := screen.AddFormat(c, screen.FormatTable, screen.FormatWide, screen.FormatJSON, screen.FormatYAML)
	c.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(preflight.Targets(), cobra.ShellCompDirectiveNoFileComp))
	var target preflight.Release
	var s *source.Source
	usage.AddRule(c, func([]string) (err error) {
		if target, err = preflight.ParseTarget(to); err != nil {
			return usage.Error(c, "--to: %v", err)
		}
		if c.Flags().Changed("mode") {
			return usage.Error(c, "--mode is for other commands: preflight looks at all records of ClusterIPs")
		}
		return nil
	})
	s = source.AddWithAPI(c, p.Linked, func(c *cobra.Command, _ []string, s *source.Source) error {
		state, err := s.Read(c.Context(), 0)
		if err != nil {
			return err
		}
		findings := s.AuditOptions(state)
		findings.FindsFullRanges, findings.WarnFree = true, driver.WarnFree
		a, err := s.AuditWith(state, findings)
		if err != nil {
			return err
		}
		options := preflight.Options{To: target, Command: s.Command, Kubectl: s.KubectlFlags(), AtRest: s.Kind() == audit.FromSnapshot}
		options.Explain = func(what string) []string { return s.Command("explain", screen.Quoted(what)) }
		for _, text := range s.ClusterIPRanges() {
			r, err := rangekeeper.ParseCIDR(text)
			if err != nil {
				return err
			}
			options.ClusterIPRanges = append(options.ClusterIPRanges, r.String())
		}
		switch s.Kind() {
		case audit.FromSnapshot:
			options.Repair = s.Command("repair", "--to-file repaired.db")
		case audit.FromEtcd:
			if !state.Kine {
				options.Repair = s.RangesCommand("repair", "--apply", "--clean-leaks")
			}
		}
		report, err := preflight.New(state, a, options)
		if err != nil {
			return s.Explain(err)
		}
		for i := range report.Checks {
			report.Checks[i].Remedy = screen.Called(s.Program, report.Checks[i].Remedy)
		}
		if *format == screen.FormatJSON || *format == screen.FormatYAML {
			err = screen.WriteDocument(c.OutOrStdout(), report, *format)
		} else {
			shown := screen.New(c.OutOrStdout(), *format == screen.FormatWide)
			shown.Preflight(report)
			err = shown.Print(c.OutOrStdout())
		}
		return foundOrUnseen(!report.Ready(), *strict && report.Summary.Unknown > 0, err)
	})
	s.ForUpgrade, s.ForServers = true, true
	c.Flags().Lookup("service-cluster-ip-range").Usage = "the flag of the API servers, to be compared with what is stored: a CIDR, or two, separated by a comma"
	c.Flags().MarkHidden("mode")
	return c
}
