// Command restored-etcd runs a command beside an etcd that it restores from a
// snapshot file:
//
//	restored-etcd SNAPSHOT COMMAND [ARGUMENT...]
//
// The command finds the URL of etcd in the environment variable
// ETCDCTL_ENDPOINTS, which etcdctl reads too. When it ends, etcd ends and its
// data, which lie in a temporary directory, are removed. The exit code is that of
// the command, or 125 if it was not run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

const (
	endpointsVariable = "ETCDCTL_ENDPOINTS"
	// exitNotRun is the exit code of env and timeout for this case.
	exitNotRun = 125
	// stopTimeout is how long an interrupted command may take to end.
	stopTimeout = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "restored-etcd: %v\n", err)
	}
	os.Exit(code)
}

// run returns the exit code; with an error, the command did not end by itself.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, err error) {
	if len(args) < 2 {
		return exitNotRun, errors.New("usage: restored-etcd SNAPSHOT COMMAND [ARGUMENT...]")
	}
	dir, err := os.MkdirTemp("", "restored-etcd-")
	if err != nil {
		return exitNotRun, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	if err := embedded.Restore(ctx, args[0], data, snapshotfile.Options{}); err != nil {
		return exitNotRun, err
	}
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: data})
	if err != nil {
		return exitNotRun, err
	}
	defer etcd.Close()

	command := exec.CommandContext(ctx, args[1], args[2:]...)
	command.Env = append(os.Environ(), endpointsVariable+"="+strings.Join(etcd.Endpoints(), ","))
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, stdout, stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTimeout
	err = command.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return exitNotRun, fmt.Errorf("%s: %w", args[1], err)
	}
	return 0, nil
}
