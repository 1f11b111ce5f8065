package rangekeeper

// #include <rangekeeper.h>
import "C"

import "time"

// Owner is the Service that an IPAddress object refers to.
type Owner uint32

const (
	// OwnerNoService: the object refers to something other than a Service, or to nothing.
	OwnerNoService Owner = C.RK_OWNER_NO_SERVICE
	// OwnerMissing: the Service does not exist.
	OwnerMissing Owner = C.RK_OWNER_MISSING
	// OwnerOther: the Service exists and does not use the address.
	OwnerOther Owner = C.RK_OWNER_OTHER
	// OwnerUses: the Service exists and uses the address.
	OwnerUses Owner = C.RK_OWNER_USES
)

// IPAddressVerdict is the repair of an IPAddress object.
type IPAddressVerdict uint32

const (
	// IPAddressKeep: it stays.
	IPAddressKeep IPAddressVerdict = C.RK_IP_ADDRESS_KEEP
	// IPAddressWait: nothing uses it, but a request may still be about to.
	IPAddressWait IPAddressVerdict = C.RK_IP_ADDRESS_WAIT
	// IPAddressNoService: it is to be removed, since it does not refer to a Service.
	IPAddressNoService IPAddressVerdict = C.RK_IP_ADDRESS_NO_SERVICE
	// IPAddressWrongReference: it is to be removed, since its Service does not use the address.
	IPAddressWrongReference IPAddressVerdict = C.RK_IP_ADDRESS_WRONG_REFERENCE
	// IPAddressLeaked: it is to be removed, since its Service does not exist.
	IPAddressLeaked IPAddressVerdict = C.RK_IP_ADDRESS_LEAKED
)

// JudgeIPAddress returns the repair of an IPAddress object, and with IPAddressWait after which time it is to be judged
// again. managed says whether the allocator made it, by its label; unusedFor is for how long at least nothing has used it,
// grace the longest time that a request can take.
func JudgeIPAddress(managed bool, owner Owner, unusedFor, grace time.Duration) (IPAddressVerdict, time.Duration) {
	var verdict C.uint32_t
	var wait C.uint64_t
	// It refuses only other owners than those above.
	if C.rk_ip_address_judge(C.bool(managed), C.uint32_t(owner), C.uint64_t(max(unusedFor, 0)), C.uint64_t(max(grace, 0)), &verdict, &wait) != C.RK_RESULT_OK {
		return IPAddressKeep, 0
	}
	return IPAddressVerdict(verdict), time.Duration(wait)
}

// AddressObject is the IPAddress object of an address that a Service uses.
type AddressObject struct {
	// Managed reports whether the allocator made it, by its label; Labelled whether its labels are those that the allocator
	// sets.
	Managed, Labelled bool
	// RefersHere reports whether it refers to the Service that is looked at. If not, Owner is the Service that it refers to.
	RefersHere bool
	Owner      Owner
}

// ClusterIPVerdict is the repair of a Service's ClusterIP that a ServiceCIDR hands out.
type ClusterIPVerdict uint32

const (
	// ClusterIPKeep: its IPAddress object is right.
	ClusterIPKeep ClusterIPVerdict = C.RK_CLUSTER_IP_KEEP
	// ClusterIPWait: its object will be removed on its own; the Service gets another one then.
	ClusterIPWait ClusterIPVerdict = C.RK_CLUSTER_IP_WAIT
	// ClusterIPCreate: it has no object, and is to get one.
	ClusterIPCreate ClusterIPVerdict = C.RK_CLUSTER_IP_CREATE
	// ClusterIPReshape: its object has another shape than those of the allocator, and is to be replaced; no Event reports
	// it.
	ClusterIPReshape ClusterIPVerdict = C.RK_CLUSTER_IP_RESHAPE
	// ClusterIPReplace: its object does not refer to its Service, and is to be replaced.
	ClusterIPReplace ClusterIPVerdict = C.RK_CLUSTER_IP_REPLACE
	// ClusterIPTaken: another Service has it; an owner has to recreate one of the two.
	ClusterIPTaken ClusterIPVerdict = C.RK_CLUSTER_IP_TAKEN
)

// JudgeClusterIP returns the repair of an address that a Service uses and a ServiceCIDR hands out, by its IPAddress
// object; nil if there is none.
func JudgeClusterIP(object *AddressObject) ClusterIPVerdict {
	var verdict C.uint32_t
	var c *C.rk_address_object
	if object != nil {
		c = &C.rk_address_object{
			managed: C.bool(object.Managed), labelled: C.bool(object.Labelled), owner: C.uint32_t(object.Owner),
		}
		if object.RefersHere {
			c.owner = C.RK_OWNER_SELF
		}
	}
	if C.rk_cluster_ip_judge(c, &verdict) != C.RK_RESULT_OK {
		return ClusterIPWait
	}
	return ClusterIPVerdict(verdict)
}
