package audit

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// missingServiceCIDR returns the default ServiceCIDR if it is missing and its range is stored elsewhere. Its CIDRs are
// those of the bitmaps that Kubernetes 1.33 writes beside IPAddress objects. Bitmaps that an upgrade has left over do
// not count: the flag may have changed since, and a server does not correct the CIDRs of a ServiceCIDR.
func missingServiceCIDR(state *clusterstate.State) *networkingv1.ServiceCIDR {
	if len(state.ServiceCIDRs)+state.CountUnreadable(KindServiceCIDR) > 0 || state.IPAddresses.Len() == 0 {
		return nil
	}
	missing := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: clusterstate.DefaultServiceCIDR}}
	for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs} {
		stored, ok := state.Ranges[name]
		if !ok || state.UpgradedAt != 0 {
			continue
		}
		// One that cannot be read is a finding.
		if text, _, err := clusterstate.DecodeRange(stored.Value); err == nil && text != "" {
			missing.Spec.CIDRs = append(missing.Spec.CIDRs, text)
		}
	}
	if len(missing.Spec.CIDRs) == 0 {
		return nil
	}
	return missing
}

// serviceCIDRs are those that are stored, or else the missing one.
func (a *Audit) serviceCIDRs() []networkingv1.ServiceCIDR {
	if a.missing != nil {
		return []networkingv1.ServiceCIDR{*a.missing}
	}
	return a.state.ServiceCIDRs
}

// newServiceCIDR returns the object as a kube-apiserver stores it. Its finalizer is up to kube-controller-manager.
func newServiceCIDR(missing *networkingv1.ServiceCIDR, now time.Time) *networkingv1.ServiceCIDR {
	o := missing.DeepCopy()
	o.UID, o.CreationTimestamp = uuid.NewUUID(), metav1.NewTime(now)
	o.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Message: "Kubernetes default Service CIDR is ready",
	}}
	return o
}
