package etcdflags

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// Explained marks an error that means that etcd did not answer with [clusterstate.ErrUnreachable], and explains an
// answer that refuses.
func Explained(err error) error {
	if errors.Is(err, context.Canceled) {
		return err // it was not waited for
	}
	code := status.Code(err)
	if e := (rpctypes.EtcdError{}); errors.As(err, &e) {
		code = e.Code()
	}
	if code == codes.InvalidArgument || code == codes.Unimplemented || errors.Is(err, rangekeeper.ErrRefused) {
		return &refusedError{err}
	}
	for _, silence := range []error{context.DeadlineExceeded, rangekeeper.ErrDeadlineExceeded, etcdstore.ErrUnknown} {
		if errors.Is(err, silence) {
			code = codes.Unavailable
		}
	}
	if code == codes.Unavailable || code == codes.DeadlineExceeded {
		return fmt.Errorf("%w: %w", clusterstate.ErrUnreachable, err)
	}
	return err
}

// Named puts the name of the etcd before an error about its refusal.
func (o *Connection) Named(err error) error {
	if refused := (*refusedError)(nil); errors.As(err, &refused) && o.Given() {
		return fmt.Errorf("%s: %w", o, err)
	}
	return err
}

// refusedError: the store answers that it does not carry out a request.
type refusedError struct{ err error }

func (e *refusedError) Error() string {
	err, _ := etcdstore.ExplainKine(e.err)
	text := err.Error()
	if before, status, ok := strings.Cut(text, "rpc error: code = "); ok {
		_, message, _ := strings.Cut(status, " desc = ")
		text = before + message
	}
	if !errors.Is(e.err, rangekeeper.ErrRefused) {
		text = fmt.Sprintf("%v: %s", rangekeeper.ErrRefused, text)
	}
	return text + "; nothing of it was written"
}

func (e *refusedError) Unwrap() error { return e.err }
