package kubernetesservice

import (
	"context"
	"net/netip"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// addressTaken is how many attempts in a row find the Service missing and its address taken before the address is
// freed: another server that creates the Service allocates the address before it writes the Service. The core's
// controller waits for as many (bootstrap/src/rounds/kubernetes.rs).
const addressTaken = 3

// isLost counts the attempts that find the address taken, and reports whether the Service is lost: it is missing in
// etcd, and its address, which nobody else can have, counts as allocated.
func (c *Controller) isLost(err error) bool {
	if err == nil || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), ipallocator.ErrAllocated.Error()) {
		c.taken = 0
		return false
	}
	c.taken++
	return c.taken >= addressTaken
}

// freeAddress frees the address of the Service, which is lost, where servers record it: in a stored range, in an
// IPAddress object, or in both.
func (c *Controller) freeAddress(ctx context.Context) error {
	address, _ := netip.AddrFromSlice(c.ServiceIP)
	address = address.Unmap()
	klog.Infof("Service %q is lost, and its address counts as allocated; freeing %s", serviceName, address)
	if err := allocatorstorage.FreeAddress(ctx, address); err != nil {
		return err
	}
	return c.deleteAddress(ctx, address.String())
}
