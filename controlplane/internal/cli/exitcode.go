package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
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
	exitDisk        = 6
	exitInterrupted = 130 // by the shell's convention for SIGINT
)

// exitCodesHelp is the table of the exit codes.
const exitCodesHelp = `Exit codes of all commands:
  0    done, and nothing is left to do
  1    findings, pending changes or leaks are left; a value is in use or none is
       free; a server failed
  2    wrong usage, or input that cannot be used
  3    the etcd or API server cannot be reached or cannot answer now, or another
       process uses its data
  4    with --strict: nothing was found, but the source does not show all
  5    there is no such Service or range, or the user may not read it
  6    no space is left on a disk or in etcd, or a disk has failed; no file is
       half-written
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

// exitCode is that of a command which has failed.
func (p *Program) exitCode(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(context.Canceled):
		return exitInterrupted
	case is(clusterstate.ErrUnreachable), is(clusterstate.ErrAPIUnreachable), is(clusterstate.ErrAPINotReady), slices.ContainsFunc(p.Unreachable, is):
		return exitUnreachable
	case isOfDisk(err):
		return exitDisk
	case is(audit.ErrNone), is(rangekeeper.ErrNotInitialised), isForbidden(err):
		return exitNone
	case slices.ContainsFunc([]error{rangekeeper.ErrFull, rangekeeper.ErrAlreadyAllocated, edit.ErrInUse, edit.ErrBusy, edit.ErrChanged, edit.ErrOtherRun, errTooFew, errNotPrinted, etcdstore.ErrDeferred, etcdstore.ErrRestored}, is), slices.ContainsFunc(p.Failed, is):
		return exitFound
	default:
		return exitInput
	}
}

// isOfDisk reports whether a disk, or etcd, has no space left, or a disk fails.
func isOfDisk(err error) bool {
	for _, fault := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return refuses(err, rpctypes.ErrNoSpace)
}

// refuses reports whether an etcd has answered with an error of its own. Of the refusal of a committer's write only the
// text is known.
func refuses(err, answer error) bool {
	return errors.Is(err, answer) || errors.Is(err, rangekeeper.ErrRefused) && strings.Contains(err.Error(), answer.Error())
}

// isForbidden reports whether an API server or an etcd says that the user may not do this.
func isForbidden(err error) bool {
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) && e.Code() == codes.PermissionDenied {
		return true
	}
	return refuses(err, rpctypes.ErrPermissionDenied) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || status.Code(err) == codes.PermissionDenied
}
