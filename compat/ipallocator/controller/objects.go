package controller

import networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

// objects are the IPAddress objects, without a cache.
type objects = networkingv1client.IPAddressInterface

// begin returns the objects for one repair. An API server reads etcd, and not its watch cache, if a request names no
// resource version.
func (r *RepairIPAddress) begin() objects { return r.client.NetworkingV1().IPAddresses() }
