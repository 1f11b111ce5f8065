package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// unavailable returns an error after which clients try again: the store is the cause, not the request.
func unavailable(message string) *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

// failed returns the error of a request that failed because of the store.
func failed(what string, cause error) error {
	if cause, isKine := etcdstore.ExplainKine(cause); isKine {
		return apierrors.NewInternalError(fmt.Errorf("%s: %w", what, cause))
	}
	if !isNoSpace(cause) {
		return unavailable(fmt.Sprintf("%s: the store did not answer as it should: %v; try again", what, cause))
	}
	err := unavailable(fmt.Sprintf("%s: etcd has no space left: %v", what, cause))
	err.ErrStatus.Code = http.StatusInsufficientStorage
	return err
}

// isNoSpace compares texts, as the error may come from another API server.
func isNoSpace(err error) bool {
	return strings.Contains(err.Error(), rpctypes.ErrNoSpace.Error())
}

// explain returns the error of an allocation. The released code makes errors about the request, such as 422 Invalid, of
// most errors of an allocator, and has their texts in it.
func (q *request) explain(err error) error {
	for _, part := range q.parts {
		if cause := part.Failure(); cause != nil && strings.Contains(err.Error(), cause.Error()) {
			return failed("failed to allocate a "+part.kind, cause)
		}
	}
	// The caches of IPAddress and ServiceCIDR objects have those that the restored etcd does not have, and lack some
	// that it has, which only a restart corrects.
	looksWrong := strings.Contains(err.Error(), ipallocator.ErrFull.Error()) || strings.Contains(err.Error(), ipallocator.ErrMismatchedNetwork.Error())
	if restored := allocatorstorage.Restored(); restored != nil && looksWrong {
		return unavailable(fmt.Sprintf("%v, as far as this server knows: %v; try again", err, restored))
	}
	return err
}

// A change is what a write does with a Service, in the words of its errors.
type change struct{ verb, participle string }

var (
	written = change{"write", "written"}
	deleted = change{"delete", "deleted"}
)

// explain returns the error of a write of a Service. Errors that already are answers of an API server stay as they are.
// Without an answer of etcd the Service may have been changed, so clients are not told to try again: one that did so by
// itself would create a second Service of a generated name.
func (c change) explain(err error) error {
	var answer apierrors.APIStatus
	if err == nil || errors.As(err, &answer) {
		return err
	}
	_, isKine := etcdstore.ExplainKine(err)
	switch code := codeOf(err); {
	case isKine, isNoSpace(err), errors.Is(err, rpctypes.ErrTooManyRequests):
		return failed(fmt.Sprintf("failed to %s the Service", c.verb), err)
	case errors.Is(err, context.DeadlineExceeded), code == codes.Unavailable, code == codes.DeadlineExceeded:
		return apierrors.NewTimeoutError(fmt.Sprintf("the Service may have been %s, as etcd did not answer: %v", c.participle, err), 0)
	}
	return err
}

// codeOf returns the gRPC code of an error of the etcd client; Unknown for other errors.
func codeOf(err error) codes.Code {
	var answered rpctypes.EtcdError
	if errors.As(err, &answered) {
		return answered.Code()
	}
	return status.Code(err)
}
