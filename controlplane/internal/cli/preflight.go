package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
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
	format := addFormat(c, formatTable, formatWide, formatJSON, formatYAML)
	c.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(preflight.Targets(), cobra.ShellCompDirectiveNoFileComp))
	var target preflight.Release
	var s *source
	usage.AddRule(c, func([]string) (err error) {
		if target, err = preflight.ParseTarget(to); err != nil {
			return usage.Error(c, "--to: %v", err)
		}
		if s.mode != modeAuto {
			return usage.Error(c, "--mode is for other commands: preflight looks at all records of ClusterIPs")
		}
		return nil
	})
	s = withAPISource(c, p, func(c *cobra.Command, _ []string, s *source) error {
		s.forUpgrade = true
		state, err := s.read(c.Context(), 0)
		if err != nil {
			return err
		}
		findings := s.auditOptions(state)
		findings.FindsFullRanges, findings.WarnFree = true, defaultWarnFree
		a, err := s.auditWith(state, findings)
		if err != nil {
			return err
		}
		options := preflight.Options{To: target, Command: s.command, Kubectl: s.kubectlFlags(), AtRest: s.snapshot != ""}
		options.Explain = func(what string) []string { return s.command("explain", quoted(what)) }
		for _, text := range s.clusterIPRanges() {
			r, err := rangekeeper.ParseCIDR(text)
			if err != nil {
				return err
			}
			options.ClusterIPRanges = append(options.ClusterIPRanges, r.String())
		}
		if !s.overAPI() {
			// Other commands take the flag over the Kubernetes API only.
			s.given = slices.DeleteFunc(s.given, func(flag string) bool { return strings.HasPrefix(flag, "--service-cluster-ip-range ") })
		}
		switch {
		case s.snapshot != "":
			options.Repair = s.command("repair", "--to-file repaired.db")
		case s.connection.Given() && !s.isKine:
			options.Repair = s.command("repair", "--apply", "--clean-leaks")
		}
		report, err := preflight.New(state, a, options)
		if err != nil {
			return err
		}
		for i := range report.Checks {
			report.Checks[i].Remedy = called(s.program, report.Checks[i].Remedy)
		}
		if *format == formatJSON || *format == formatYAML {
			err = writeDocument(c.OutOrStdout(), report, *format)
		} else {
			screen := newScreen(c.OutOrStdout(), *format == formatWide)
			screen.preflight(report)
			err = screen.writeTo(c.OutOrStdout())
		}
		return foundOrUnseen(!report.Ready(), *strict && report.Summary.Unknown > 0, err)
	})
	s.flagsAnywhere = true
	c.Flags().Lookup("service-cluster-ip-range").Usage = "the flag of the API servers, to be compared with what is stored: a CIDR, or two, separated by a comma"
	c.Flags().MarkHidden("mode")
	return c
}

// levelTexts are the headers of the levels of checks, and levelColors their colors.
var (
	levelTexts  = map[preflight.Level]string{preflight.Must: "Must be done first", preflight.Surprise: "May surprise", preflight.Unknown: "Unknown", preflight.OK: "OK"}
	levelColors = map[preflight.Level]string{preflight.Must: red, preflight.Surprise: yellow, preflight.Unknown: cyan, preflight.OK: bold}
)

// preflight writes the checks by level.
func (s *screen) preflight(r *preflight.Report) {
	s.source(r.Source)
	from := r.From
	if from == "" {
		from = "an unknown release"
	}
	result := "nothing must be done first"
	switch unknown := r.Summary.Unknown; {
	case r.Summary.MustBeDoneFirst > 0:
		result = count(r.Summary.MustBeDoneFirst, "thing") + " must be done first"
	case unknown == 1:
		result = "nothing known must be done first; 1 thing is unknown"
	case unknown > 1:
		result = fmt.Sprintf("nothing known must be done first; %d things are unknown", unknown)
	}
	s.text(0, bold, fmt.Sprintf("Upgrade of kube-apiserver from %s to %s: %s", from, r.To, result))
	shown := map[string]string{} // commands, and the checks that they belong to
	for _, level := range preflight.Levels {
		checks := r.Of(level)
		if len(checks) == 0 {
			continue
		}
		s.blank()
		fmt.Fprintf(&s.b, "%s (%d)\n", s.colored(levelColors[level], levelTexts[level]), len(checks))
		for _, check := range checks {
			s.check(check, shown)
		}
	}
}

// escaped shows a sentence, which may have texts of others in it, without handing control characters to the terminal.
func escaped(sentence string) string {
	quoted := strconv.Quote(sentence)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// check writes one check with its remedy, and its command unless it is shown already.
func (s *screen) check(c preflight.Check, shown map[string]string) {
	for i, line := range wrapped(escaped(c.Name+": "+c.Message), s.width-2, 2) {
		if i == 0 {
			line = strings.Replace(line, c.Name, s.colored(bold, c.Name), 1)
		}
		s.b.WriteString("  " + line + "\n")
	}
	if s.all && len(c.Values) > 0 {
		s.text(4, "", "Values: "+printable(strings.Join(c.Values, ", ")))
	}
	if c.Remedy != "" {
		s.text(4, "", "Remedy: "+c.Remedy)
	}
	if of, ok := shown[c.Command]; ok {
		s.comment(6, "the command of "+of)
		return
	}
	s.words(6, c.Words)
	if c.Command != "" {
		shown[c.Command] = c.Name
	}
}
