package controller

import "k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

type objects = ipallocator.Objects

// begin returns the objects for one repair: those of the API in tests without a storage.
func (r *RepairIPAddress) begin() objects {
	if stored := ipallocator.BeginObjects(); stored != nil {
		return stored
	}
	return r.client.NetworkingV1().IPAddresses()
}
