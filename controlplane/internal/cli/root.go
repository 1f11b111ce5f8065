// Package cli is the command line of rangekeeper.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// The exit codes of all commands.
const (
	exitOK          = 0
	exitFound       = 1
	exitInput       = 2
	exitUnreachable = 3
	exitUnseen      = 4
	exitNone        = 5
	exitInterrupted = 130 // by the shell's convention for SIGINT
)

// exitCodesHelp is the table of the exit codes.
const exitCodesHelp = `Exit codes of all commands:
  0    done, and nothing is left to do
  1    findings, pending changes or leaks are left; a value is in use or none is
       free; a server failed
  2    wrong usage, or input that cannot be used
  3    the etcd or API server cannot be reached, or another process uses its
       data
  4    with --strict: nothing was found, but the source does not show all
  5    there is no such Service or range, or the user may not read it
  130  interrupted; a command that runs until then ends with 0`

// ErrFound ends a command whose output is complete with exitFound.
var ErrFound = errors.New("something was found")

// ErrUnseen ends a command whose output is complete with exitUnseen.
var ErrUnseen = errors.New("the source does not show all")

// foundIf is the end of a command whose output is complete unless there is an error.
func foundIf(found bool, err error) error {
	if err == nil && found {
		return ErrFound
	}
	return err
}

// foundOrUnseen is foundIf for a command that may have to say that its source does not show all.
func foundOrUnseen(found, unseen bool, err error) error {
	if err == nil && !found && unseen {
		return ErrUnseen
	}
	return foundIf(found, err)
}

// A Program is one of those that have the commands of this package.
type Program struct {
	// Name is what the program is called by; the usage and the examples have it in place of rangekeeper.
	Name string
	// About ends the sentence "It also allocates from the stored ranges, as kube-apiserver does".
	About string
	// Commands returns those that only this program has.
	Commands func() []*cobra.Command
	// Unreachable and Failed are errors of what only this program has: a store is in use by another process, a server
	// failed.
	Unreachable, Failed []error
	// Linked is what only some programs link.
	Linked source.Linked
	// AddLocal adds the flags of the store in this process to a command; nil if the program has none.
	AddLocal func(c *cobra.Command) ranges.Local
	// StoreHelp ends the sentence "It is kept in the etcd at --endpoints".
	StoreHelp string
}

// rangesHelp says where the RANGE of a command is.
func (p *Program) rangesHelp() string {
	return `RANGE is serviceips, secondaryserviceips or servicenodeports. It is kept in the etcd
at --endpoints` + p.StoreHelp + "."
}

// Main runs the command of these arguments, and ends the process. SIGINT and SIGTERM end the command in order; a second
// one ends the process at once.
func (p *Program) Main(args []string) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // before the command is cancelled, so that no second signal is lost
		cancel()
	}()
	os.Exit(p.Run(ctx, args, os.Stdout, os.Stderr))
}

// Run runs one command and returns the exit code. Data go to stdout, all else to
// stderr.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stderr = screen.Messages{Writer: stderr, Program: p.Name}
	root := newRoot(p, stdout, stderr)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, ErrFound):
		return exitFound
	case errors.Is(err, ErrUnseen):
		return exitUnseen
	default:
		fmt.Fprintf(stderr, "rangekeeper: %v\n", err)
		return p.exitCode(err)
	}
}

// Command returns the program's command, for its documents.
func (p *Program) Command() *cobra.Command { return newRoot(p, io.Discard, io.Discard) }

func (p *Program) exitCode(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(context.Canceled):
		return exitInterrupted
	case is(clusterstate.ErrUnreachable), is(clusterstate.ErrAPIUnreachable), slices.ContainsFunc(p.Unreachable, is):
		return exitUnreachable
	case is(audit.ErrNone), is(rangekeeper.ErrNotInitialised), isForbidden(err):
		return exitNone
	case slices.ContainsFunc([]error{rangekeeper.ErrFull, rangekeeper.ErrAlreadyAllocated, edit.ErrInUse, edit.ErrBusy, edit.ErrChanged, edit.ErrOtherRun, errTooFew, errNotPrinted, etcdstore.ErrDeferred, etcdstore.ErrRestored}, is), slices.ContainsFunc(p.Failed, is):
		return exitFound
	default:
		return exitInput
	}
}

// isForbidden reports whether an API server or an etcd says that the user may not do this.
func isForbidden(err error) bool {
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) && e.Code() == codes.PermissionDenied {
		return true
	}
	// Of the refusal of a committer's write only the text is known.
	if errors.Is(err, rangekeeper.ErrRefused) && strings.Contains(err.Error(), rpctypes.ErrPermissionDenied.Error()) {
		return true
	}
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || status.Code(err) == codes.PermissionDenied
}

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

// wrappedUsage is a usage with the help of flags at the width of a terminal. Cobra has templates for it, with which
// text/template would be linked: it calls methods by name, so that the linker keeps all exported methods of the
// program.
func wrappedUsage(print func(*cobra.Command) error, width int) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		out := c.OutOrStderr()
		var text strings.Builder
		c.SetOut(&text)
		err := print(c)
		c.SetOut(out)
		if err != nil {
			return err
		}
		wide := c.LocalFlags().FlagUsages()
		narrow := c.LocalFlags().FlagUsagesWrapped(width - 5) // pflag takes up to 5 columns more
		shown := strings.Replace(text.String(), strings.TrimSpace(wide), strings.TrimSpace(narrow), 1)
		if at := strings.LastIndex(shown, "\nUse \""); at >= 0 { // the hint at the end
			shown = shown[:at+1] + strings.Join(screen.Wrapped(shown[at+1:], width, 0), "\n")
		}
		_, err = io.WriteString(out, shown)
		return err
	}
}

// reflowed breaks the paragraphs of a text at a width. Those that are indented or have a table stay as they are.
func reflowed(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") && !strings.Contains("\n"+p, "\n\t") {
			paragraphs[i] = strings.Join(screen.Wrapped(strings.ReplaceAll(p, "\n", " "), width, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// call puts the name of the program into usage and examples.
func call(root *cobra.Command, program string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: program}
	for _, c := range root.Commands() {
		c.Example = strings.ReplaceAll(c.Example, "  rangekeeper ", "  "+program+" ")
	}
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
