package storage

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// isRefusal returns whether the error of a write means that nothing was sent to etcd, or that etcd refused it. "No
// space" is no refusal: etcd was seen to answer it after the write.
func isRefusal(err error) bool {
	var ofStorage *storage.StorageError
	switch {
	case errors.Is(err, errLost), errors.Is(err, errOtherConnection):
		return true
	case errors.As(err, &ofStorage):
		return !storage.IsUnreachable(err)
	case storage.IsInternalError(err), errors.Is(err, storage.ErrResourceVersionSetOnCreate):
		return true
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyRequests):
		return true
	}
	if _, isKine := etcdstore.ExplainKine(err); isKine {
		return true
	}
	// The client refuses requests above 2 MiB (google.golang.org/grpc/stream.go).
	return strings.Contains(err.Error(), "trying to send message larger than max")
}

// logUnknown logs the unknown outcome of a Service's write.
func logUnknown(ctx context.Context, name string) {
	service := klog.KRef(genericapirequest.NamespaceValue(ctx), name)
	klog.FromContext(ctx).Info("Service write has an unknown outcome; keeping old and new allocations until the next repair", "service", service)
}
