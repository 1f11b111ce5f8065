// Package cli is the command line of rangekeeper.
package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newRoot(p *Program, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   strings.ReplaceAll(p.Name, " ", "-"), // the name of the file
		Short: "Allocates ClusterIPs and node ports, and finds and repairs leaked, lost and duplicate ones",
		Long: `rangekeeper compares the ClusterIPs and node ports that a Kubernetes cluster has
recorded as allocated with those that its Services use: over the Kubernetes API, in a
running etcd, or in an etcd snapshot. It also allocates from the stored ranges, as
kube-apiserver does` + p.About + `.

The commands that only read use the cluster of the kubeconfig, unless a flag names
another source.

` + etcdflags.EnvironmentHelp + `

` + exitCodesHelp,
		Version:       version.Text() + ", " + rangekeeper.BackEnd,
		Args:          usage.Subcommands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(usage.FlagError)
	root.AddCommand(newAudit(p), newRepair(p), newUndo(), newShow(p), newExplain(p), newFree(p), newPreflight(p),
		newInit(p), newAllocate(p), newRelease(p), newWatch(p), newVersion())
	if p.Commands != nil {
		root.AddCommand(p.Commands()...)
	}
	call(root, p.Name)
	root.InitDefaultCompletionCmd()
	// As kubectl, help keeps to the width of a terminal, and has one line for each flag elsewhere.
	width := screen.TerminalWidth(stdout)
	if width > 0 {
		root.SetUsageFunc(wrappedUsage(root.UsageFunc(), width))
		for _, c := range append(root.Commands(), root) {
			c.Long = reflowed(c.Long, width)
		}
	}
	root.InitDefaultHelpCmd()
	// Without these an unknown shell or command would be no error, and an argument of a shell an error of cobra's.
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = usage.Subcommands
		completion.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range completion.Commands() {
			shell.Args = usage.Arguments
			if width > 0 {
				shell.Long = reflowed(shell.Long, width)
			}
		}
	}
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Run, help.RunE = nil, usage.ShowHelp
	}
	return root
}

// VersionLine is what the command version prints.
func VersionLine(c *cobra.Command) string { return "rangekeeper version " + c.Root().Version }

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  usage.Arguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), VersionLine(c))
			return err
		},
	}
}
