// Package servicecidr says of ServiceCIDR objects what the allocator and the audit must agree on.
package servicecidr

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsReady reports whether servers allocate addresses from an object: not while it is being deleted, or once its Ready
// condition is not true. An object without that condition has no controller, and is ready.
func IsReady(object *networkingv1.ServiceCIDR) bool {
	condition := meta.FindStatusCondition(object.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return object.DeletionTimestamp.IsZero() && (condition == nil || condition.Status == metav1.ConditionTrue)
}
