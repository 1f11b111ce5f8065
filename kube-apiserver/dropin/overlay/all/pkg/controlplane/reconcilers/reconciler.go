package reconcilers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/rangekeeper/rangekeeper/kube-apiserver/dropin/bootstrapplan"
)

// tries is the number of attempts to change objects that other servers write concurrently.
const tries = 5

// errOwnLeaseMissing means that the lease expired before the answer to its put, or that another server removed it.
var errOwnLeaseMissing = errors.New("this server's lease is missing right after it was written")

// endpointReconciler carries out Rangekeeper's plans for the endpoints.
type endpointReconciler struct {
	mode      bootstrapplan.Mode
	endpoints EndpointsAdapter
	// leases is nil unless the mode is lease.
	leases  Leases
	stopped atomic.Bool
	// mu keeps a reconciliation from undoing a concurrent removal.
	mu sync.Mutex
	// faults are the last reported faults of leases.
	faults []json.RawMessage
}

// ValidateIP implements EndpointReconciler.
func (r *endpointReconciler) ValidateIP(ip net.IP) error {
	return bootstrapplan.CheckAddress(ip.String())
}

// ReconcileEndpoints implements EndpointReconciler.
func (r *endpointReconciler) ReconcileEndpoints(serviceName string, ip net.IP, endpointPorts []corev1.EndpointPort, reconcilePorts bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.Load() {
		return nil
	}
	question := bootstrapplan.EndpointsQuestion{
		Name: serviceName, AdvertiseAddress: ip.String(), Mode: r.mode, Stage: bootstrapplan.StageRun, Ports: endpointPorts, Reconcile: reconcilePorts,
	}
	err := r.refreshAndChange(question)
	if errors.Is(err, errOwnLeaseMissing) {
		err = r.refreshAndChange(question)
	}
	return err
}

func (r *endpointReconciler) refreshAndChange(question bootstrapplan.EndpointsQuestion) error {
	if r.leases != nil {
		if err := r.leases.UpdateLease(question.AdvertiseAddress); err != nil {
			return fmt.Errorf("refresh the lease of this server: %w", err)
		}
	}
	return r.change(question)
}

// RemoveEndpoints implements EndpointReconciler.
func (r *endpointReconciler) RemoveEndpoints(serviceName string, ip net.IP, endpointPorts []corev1.EndpointPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	question := bootstrapplan.EndpointsQuestion{
		Name: serviceName, AdvertiseAddress: ip.String(), Mode: r.mode, Stage: bootstrapplan.StageStart, Ports: endpointPorts,
	}
	if r.stopped.Load() {
		question.Stage = bootstrapplan.StageStop
	}
	var missing error
	if r.leases != nil {
		var follows bool
		if follows, missing = r.leases.remove(question.AdvertiseAddress, question.Stage); !follows {
			return missing
		}
	}
	if err := r.change(question); err != nil {
		return err
	}
	return missing
}

// Watch calls gone when the lease of a server is deleted or runs out, until ctx is done. It may miss some, and without
// leases it misses all.
func (r *endpointReconciler) Watch(ctx context.Context, gone func()) {
	if r.leases != nil {
		r.leases.watch(ctx, gone)
	}
}

// StopReconciling implements EndpointReconciler.
func (r *endpointReconciler) StopReconciling() { r.stopped.Store(true) }

// Destroy implements EndpointReconciler.
func (r *endpointReconciler) Destroy() {
	if r.leases != nil {
		r.leases.Destroy()
	}
}

// change repeats tryChange until no other server writes the same objects concurrently.
func (r *endpointReconciler) change(question bootstrapplan.EndpointsQuestion) error {
	var err error
	for range tries {
		if err = r.tryChange(question); !bootstrapplan.IsStale(err) {
			break
		}
	}
	return err
}

// tryChange reads the slice, then the Endpoints, then the leases. So it never resets the slice to older Endpoints, and
// has the lease of each address that another server has added.
func (r *endpointReconciler) tryChange(question bootstrapplan.EndpointsQuestion) error {
	const namespace = metav1.NamespaceDefault
	var err error
	if question.Slice, err = r.endpoints.slice(namespace, question.Name); err != nil {
		return err
	}
	question.Endpoints, err = r.endpoints.Get(namespace, question.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		question.Endpoints = nil
	} else if err != nil {
		return err
	}
	if r.leases != nil {
		if question.Leases, err = r.leases.list(); err != nil {
			return err
		}
	}
	answer, err := bootstrapplan.Endpoints(question)
	if err != nil {
		return err
	}
	r.report(answer.Survey.Faults)
	if question.Stage == bootstrapplan.StageRun {
		serverMetrics.Set(answer.Found)
	}
	switch answer.Refused {
	case bootstrapplan.OnlyOwnAddress:
		klog.Infof("Service %q has no endpoints except this server's old one, which stays until the server is ready", question.Name)
		return nil
	case bootstrapplan.OwnLeaseMissing:
		return errOwnLeaseMissing
	case "":
	default:
		return fmt.Errorf("not changing the endpoints of Service %q: %s", question.Name, answer.Refused)
	}
	if !answer.Endpoints.IsLeave() || !answer.Slice.IsLeave() {
		klog.Infof("Endpoints of Service %q: %s, EndpointSlice: %s", question.Name, answer.Endpoints, answer.Slice)
	}
	ctx := context.Background()
	if err := answer.Endpoints.Make(ctx, r.endpoints.endpoints.Endpoints(namespace), question.Endpoints); err != nil {
		return err
	}
	return answer.Slice.Make(ctx, r.endpoints.slices.EndpointSlices(namespace), question.Slice)
}

// report logs faults when they change.
func (r *endpointReconciler) report(faults []json.RawMessage) {
	if !slices.EqualFunc(faults, r.faults, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		klog.Warningf("Leases of API servers have faults: %s", faults)
	}
	r.faults = faults
}
