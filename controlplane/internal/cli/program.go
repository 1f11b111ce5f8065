package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
)

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
	// LocalHint says how commands read the store in this process, after an error that nothing names a cluster; empty if
	// there is no such store. nil if the program has none.
	LocalHint func() string
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
		text := textOf(err)
		if errors.Is(err, source.ErrNoCluster) && p.LocalHint != nil {
			text += p.LocalHint()
		}
		fmt.Fprintf(stderr, "rangekeeper: %s\n", text)
		return p.exitCode(err)
	}
}

// textOf returns the text of an error that ends a command. One that the user has interrupted has not failed.
func textOf(err error) string {
	text, canceled := err.Error(), context.Canceled.Error()
	if !errors.Is(err, context.Canceled) {
		return text
	}
	if strings.Contains(text, "interrupted") { // it says where
		text = strings.ReplaceAll(text, ": "+canceled, "")
	}
	return strings.ReplaceAll(text, canceled, "interrupted")
}

// Command returns the program's command, for its documents.
func (p *Program) Command() *cobra.Command { return newRoot(p, io.Discard, io.Discard) }
