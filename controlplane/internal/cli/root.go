// Package cli is the command line of rangekeeper.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/etcdflags"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
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
	// Unreachable and Failed are errors of what only this program has: a store is in use by another process, a server failed.
	Unreachable, Failed []error
	// ReadSQLite is [clusterstate.ReadSQLite], for which the program links SQLite; nil if it does not.
	ReadSQLite func(ctx context.Context, path string, o clusterstate.Options) (*clusterstate.State, error)
	// AddLocal adds the flags of the store in this process to a command; nil if the program has none.
	AddLocal func(c *cobra.Command) LocalStore
	// StoreHelp ends the sentence "It is kept in the etcd at --endpoints".
	StoreHelp string
}

// Main runs the command of these arguments, and ends the process. SIGINT and SIGTERM end the command in order; a second one
// ends the process at once.
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
	stderr = messages{stderr, p.Name}
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
	case is(audit.ErrNone), isForbidden(err):
		return exitNone
	case slices.ContainsFunc([]error{rangekeeper.ErrFull, rangekeeper.ErrAlreadyAllocated, errInUse, errBusy, errChanged, etcdstore.ErrDeferred, etcdstore.ErrRestored}, is), slices.ContainsFunc(p.Failed, is):
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
		Version:       versionText() + ", " + rangekeeper.BackEnd,
		Args:          usage.Subcommands,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(usage.FlagError)
	root.AddCommand(newAudit(p), newRepair(), newUndo(), newShow(p), newExplain(p), newFree(p), newPreflight(p),
		newInit(p), newAllocate(p), newRelease(p), newWatch(p), newVersion())
	if p.Commands != nil {
		root.AddCommand(p.Commands()...)
	}
	call(root, p.Name)
	root.InitDefaultCompletionCmd()
	// As kubectl, help keeps to the width of a terminal, and has one line for each flag elsewhere.
	width := helpWidth(stdout)
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

// wrappedUsage is a usage with the help of flags at the width of a terminal. Cobra has templates for it, with which text/template
// would be linked: it calls methods by name, so that the linker keeps all exported methods of the program.
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
			shown = shown[:at+1] + strings.Join(wrapped(shown[at+1:], width, 0), "\n")
		}
		_, err = io.WriteString(out, shown)
		return err
	}
}

// helpWidth is the width of flags' help, 0 where there is no terminal.
func helpWidth(w io.Writer) int {
	if s := newScreen(w, false); s.breaksRows {
		return s.width
	}
	return 0
}

// reflowed breaks the paragraphs of a text at a width. Those that are indented or have a table stay as they are.
func reflowed(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") && !strings.Contains("\n"+p, "\n\t") {
			paragraphs[i] = strings.Join(wrapped(strings.ReplaceAll(p, "\n", " "), width, 0), "\n")
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

// versionText has the commit where it is known: `go install MODULE@VERSION` does not record one.
func versionText() string {
	revision := commit
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if revision == "" {
		return version
	}
	return version + " (commit " + revision + ")"
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

// withAPISource is withSource for a command that can read the Kubernetes API as well.
func withAPISource(c *cobra.Command, p *Program, run func(c *cobra.Command, args []string, s *source) error) *source {
	if c.Flags().Lookup("namespace") == nil {
		c.Flags().StringP("namespace", "n", "", "without effect, as in kubectl for what is in no namespace")
		c.Flags().BoolP("all-namespaces", "A", false, "without effect, as --namespace")
		usage.CompleteNothing(c, "namespace")
	}
	s := withSource(c, run)
	s.addAPIFlags(c, p)
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
		s.progress = newProgress(c.ErrOrStderr())
		defer s.close()
		return nameStore(&s.connection, run(c, args, s))
	}
	return s
}
