package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

// TestRefusal checks which errors mean that a write did not take effect. If others were refusals, values of stored
// Services would be released.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err       error
		isRefusal bool
	}{
		{storage.NewKeyExistsError("a", 1), true},
		{storage.NewResourceVersionConflictsError("a", 1), true},
		{storage.NewKeyNotFoundError("a", 0), true},
		{storage.NewInvalidObjError("a", "b"), true},
		{storage.NewInternalError(errors.New("cannot encode the object")), true},
		{storage.ErrResourceVersionSetOnCreate, true},
		{rpctypes.ErrRequestTooLarge, true},
		{rpctypes.ErrTooManyRequests, true},
		{fmt.Errorf("write: %w", rpctypes.ErrRequestTooLarge), true},
		{status.Error(codes.InvalidArgument, "etcdserver: unsupported operations in txn request"), true},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (2098000 vs. 2097152)"), true},

		{storage.NewUnreachableError("a", 0), false},
		{rpctypes.ErrNoSpace, false},
		{rpctypes.ErrTimeout, false},
		{rpctypes.ErrTimeoutDueToLeaderFail, false},
		{rpctypes.ErrLeaderChanged, false},
		{rpctypes.ErrStopped, false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), false},
		{errors.New("something else"), false},
	} {
		if is := isRefusal(c.err); is != c.isRefusal {
			t.Errorf("%v is a refusal: %v, want %v", c.err, is, c.isRefusal)
		}
	}
}

// TestRefusedByKine: nobody tries again what kine never carries out.
func TestRefusedByKine(t *testing.T) {
	refusal := status.Error(codes.InvalidArgument, "etcdserver: unsupported operations in txn request")
	for want, err := range map[string]error{
		"failed to write the Service: ":    written.explain(refusal),
		"failed to delete the Service: ":   deleted.explain(refusal),
		"failed to allocate a ClusterIP: ": failed("failed to allocate a ClusterIP", refusal),
	} {
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the store is kine") {
			t.Errorf("%v", err)
		}
	}
}
