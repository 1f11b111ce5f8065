// Package cli is the command line of rangekeeper.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/localcluster"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const version = "0.1.0"

// commit is set by the linker: -X .../internal/cli.commit=...
var commit string

// The exit codes of all commands.
const (
	exitOK          = 0
	exitFound       = 1
	exitInput       = 2
	exitUnreachable = 3
	exitInterrupted = 130 // by the shell's convention for SIGINT
)

// exitCodesHelp is the table of the exit codes.
const exitCodesHelp = `Exit codes of all commands:
  0    done, and nothing is left to do
  1    findings, pending changes or leaks are left; a value is in use or none is
       free; a server failed
  2    wrong usage, or input that cannot be used
  3    the etcd or API server cannot be reached, or another process uses the
       data directory
  130  interrupted (up, watch and controller run until then: 0)`

// errFound ends a command whose output is complete with exitFound.
var errFound = errors.New("something was found")

// Main runs the command that the process was started with, and ends the process.
// SIGINT and SIGTERM end the command in order; a second one ends the process at once.
func Main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // before the command is cancelled, so that no second signal is lost
		cancel()
	}()
	program, args := invocation(os.Args)
	os.Exit(runAs(ctx, program, args, os.Stdout, os.Stderr))
}

// invocation returns the name that the user calls the program by, and the arguments. kubectl runs kubectl-rangekeeper as its
// plugin, and kubectl_complete-rangekeeper with the words to complete.
func invocation(words []string) (program string, args []string) {
	const plugin = "kubectl rangekeeper"
	switch name := filepath.Base(words[0]); {
	case strings.HasPrefix(name, "kubectl-rangekeeper"):
		return plugin, words[1:]
	case strings.HasPrefix(name, "kubectl_complete-rangekeeper"):
		return plugin, append([]string{cobra.ShellCompRequestCmd}, words[1:]...)
	}
	return "rangekeeper", words[1:]
}

// Run runs one command and returns the exit code. Data go to stdout, all else to
// stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runAs(ctx, "rangekeeper", args, stdout, stderr)
}

// runAs is [Run] under the name that the user calls the program by.
func runAs(ctx context.Context, program string, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	call(root, program)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFound
	default:
		fmt.Fprintf(stderr, "rangekeeper: %v\n", err)
		return exitCode(err)
	}
}

func exitCode(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(context.Canceled):
		return exitInterrupted
	case slices.ContainsFunc([]error{clusterstate.ErrUnreachable, clusterstate.ErrAPIUnreachable, embedded.ErrInUse}, is):
		return exitUnreachable
	case slices.ContainsFunc([]error{rangekeeper.ErrFull, rangekeeper.ErrAlreadyAllocated, errInUse, errBusy, errChanged, etcdstore.ErrDeferred, localcluster.ErrServer}, is):
		return exitFound
	default:
		return exitInput
	}
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "rangekeeper",
		Short: "Allocates ClusterIPs and node ports, and finds and repairs leaked, lost and duplicate ones",
		Long: `rangekeeper compares the ClusterIPs and node ports that a Kubernetes cluster has
recorded as allocated with those that its Services use: over the Kubernetes API, in a
running etcd, or in an etcd snapshot. It also allocates from the stored ranges, as
kube-apiserver does, and runs whole control planes that do it.

The commands that only read use the cluster of the kubeconfig, unless a flag names
another source.

` + environmentHelp + `

` + exitCodesHelp,
		Version:       version + " (commit " + commitOrUnknown() + ")",
		Args:          subcommands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(flagError)
	// As kubectl, help of flags keeps to the width of a terminal, and has one line for each flag elsewhere.
	width := helpWidth(stdout)
	wraps := fmt.Sprintf(".FlagUsagesWrapped %d | trim", max(width-5, 0)) // pflag takes up to 5 columns more
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages | trim", wraps))
	root.AddCommand(newAudit(), newRepair(), newUndo(), newShow(), newExplain(), newFree(), newPreflight(),
		newInit(), newAllocate(), newRelease(), newWatch(), newController(), newUp())
	if width > 0 {
		for _, c := range append(root.Commands(), root) {
			c.Long = reflowed(c.Long, width)
		}
	}
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	// Without these an unknown shell or command would be no error, and an argument of a shell an error of cobra's.
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = subcommands
		completion.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range completion.Commands() {
			shell.Args = arguments
		}
	}
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Run, help.RunE = nil, showHelp
	}
	return root
}

// helpWidth is the width of flags' help, 0 where there is no terminal.
func helpWidth(w io.Writer) int {
	if s := newScreen(w, false); s.breaksRows {
		return s.width
	}
	return 0
}

// reflowed breaks the paragraphs of a text at a width. Those that begin with spaces or have a table stay as they are.
func reflowed(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = strings.Join(wrapped(strings.ReplaceAll(p, "\n", " "), width, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// call puts the name of the program into usage and examples.
func call(root *cobra.Command, program string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: program}
	for _, c := range root.Commands() {
		c.Example = strings.ReplaceAll(c.Example, "  "+root.Name()+" ", "  "+program+" ")
	}
}

func commitOrUnknown() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// withAPISource is withSource for a command that can read the Kubernetes API as well.
func withAPISource(c *cobra.Command, run func(c *cobra.Command, args []string, s *source) error) *source {
	if c.Flags().Lookup("namespace") == nil {
		c.Flags().StringP("namespace", "n", "", "without effect, as in kubectl for what is in no namespace")
		c.Flags().BoolP("all-namespaces", "A", false, "without effect, as --namespace")
		completeNothing(c, "namespace")
	}
	s := withSource(c, run)
	s.addAPIFlags(c)
	return s
}

// withSource returns a command its source: run is called with it, and it is closed.
func withSource(c *cobra.Command, run func(c *cobra.Command, args []string, s *source) error) *source {
	s := new(source)
	others := map[string]bool{} // flags of the command itself
	c.Flags().VisitAll(func(f *pflag.Flag) { others[f.Name] = true })
	s.addFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		s.remember(c, others)
		s.progress = &progress{w: c.ErrOrStderr()}
		defer s.close()
		return nameStore(&s.connection, run(c, args, s))
	}
	return s
}
