package repaircontroller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// Free frees a value of a stored range, unless a Service uses it: also one that this store has just handed out. So it
// is for a value that no Service which is being created can have. It does nothing if the stored range is missing or
// another one. The store has Config.Services.
//
// Cost: one list of all Services, and another one each time that a Service is written meanwhile. The error is
// rangekeeper.ErrServicesWritten if that is so until ctx ends; nothing is written then.
func Free(ctx context.Context, store *etcdstore.Store, services ListStored, value rangekeeper.Value) error {
	for {
		if err := free(ctx, store, services, value); !errors.Is(err, rangekeeper.ErrServicesWritten) || ctx.Err() != nil {
			return err
		}
	}
}

func free(ctx context.Context, store *etcdstore.Store, services ListStored, value rangekeeper.Value) error {
	look, err := store.Look(ctx)
	if err != nil {
		return err
	}
	defer look.End(context.WithoutCancel(ctx))
	if err := CheckUnused(ctx, services, look.At(), value); err != nil {
		return err
	}
	// No Service that was written since the list has it, either: the edit depends on that.
	edited, err := store.Edit(ctx, look, rangekeeper.Edit{Kind: rangekeeper.EditForce, Clear: []rangekeeper.Value{value}})
	if errors.As(err, new(*rangekeeper.MismatchedRangeError)) || errors.Is(err, rangekeeper.ErrNotInitialised) {
		return nil // it is recorded nowhere
	}
	if err != nil {
		return fmt.Errorf("%s: free %s: %w", store.Key(), value, err)
	}
	if !edited.Done {
		return fmt.Errorf("%s: %s is not free: %s", store.Key(), value, edited.Values[0].Fate)
	}
	return nil
}

// CheckUnused returns an error that names a Service which claims the value, nil if none does. at is that of
// [ListStored].
func CheckUnused(ctx context.Context, services ListStored, at int64, value rangekeeper.Value) error {
	listed, _, err := services(ctx, at)
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	claims, err := servicebatch.Claims(len(listed), func(i int) *corev1.Service { return listed[i] })
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Value == value {
			of := listed[claim.Service]
			return fmt.Errorf("the Service %s/%s uses %s", of.Namespace, of.Name, value)
		}
	}
	return nil
}
