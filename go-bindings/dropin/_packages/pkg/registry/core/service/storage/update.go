package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
)

// Update changes a Service, or makes it. What it takes and gives back is settled by what became of the write.
//
// Store.Update has it settled before the write (k8s.io/apiserver/pkg/registry/generic/registry/store.go): then others get
// a NodePort that the stored Service still has, for a moment, and for as long as until a repair if somebody else has
// changed the Service meanwhile and the write is in vain.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	var last attempt
	store := *r.Store
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		return last.begun(r.BeginCreate(ctx, obj, options))
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		return last.begun(r.BeginUpdate(ctx, obj, old, options))
	}
	out, created, err := store.Update(ctx, name, tried{objInfo, &last}, createValidation, updateValidation, forceAllowCreate, options)
	switch {
	case err == nil:
		last.settle(ctx, true)
	case last.finish != nil:
		tellDoubt(ctx, name)
	}
	return out, created, err
}

// tellDoubt logs that a Service may have been written or not.
func tellDoubt(ctx context.Context, name string) {
	service := klog.KRef(genericapirequest.NamespaceValue(ctx), name)
	klog.FromContext(ctx).Info("What the Service had and was to have stays allocated until a repair, as it may have been written or not", "service", service)
}

// attempt is the last attempt at an update; finish is nil if there is nothing to settle.
type attempt struct{ finish genericregistry.FinishFunc }

// begun puts the end of an attempt off that is about to be written.
func (a *attempt) begun(finish genericregistry.FinishFunc, err error) (genericregistry.FinishFunc, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, success bool) {
		if success {
			a.finish = finish
		} else {
			finish(ctx, false)
		}
	}, nil
}

func (a *attempt) settle(ctx context.Context, success bool) {
	if a.finish != nil {
		a.finish(ctx, success)
		a.finish = nil
	}
}

// tried is told when another attempt begins: the one before was not written.
type tried struct {
	rest.UpdatedObjectInfo
	last *attempt
}

func (t tried) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	t.last.settle(ctx, false)
	return t.UpdatedObjectInfo.UpdatedObject(ctx, old)
}
