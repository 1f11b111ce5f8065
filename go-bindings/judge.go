package rangekeeper

import (
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Parent is the Service that an IPAddress object refers to.
type Parent uint32

const (
	// ParentNoService: the object refers to something other than a Service, or to nothing.
	ParentNoService Parent = rk.ParentNoService
	// ParentMissing: the Service does not exist.
	ParentMissing Parent = rk.ParentMissing
	// ParentOther: the Service exists and does not use the address.
	ParentOther Parent = rk.ParentOther
	// ParentUses: the Service exists and uses the address.
	ParentUses Parent = rk.ParentUses
)

// IPAddressVerdict is the repair of an IPAddress object.
type IPAddressVerdict uint32

const (
	// IPAddressKeep: it stays.
	IPAddressKeep IPAddressVerdict = rk.IPAddressKeep
	// IPAddressWait: nothing uses it, but a request may still be about to.
	IPAddressWait IPAddressVerdict = rk.IPAddressWait
	// IPAddressNoService: it is to be removed, since it does not refer to a Service.
	IPAddressNoService IPAddressVerdict = rk.IPAddressNoService
	// IPAddressWrongReference: it is to be removed, since its Service does not use the address.
	IPAddressWrongReference IPAddressVerdict = rk.IPAddressWrongReference
	// IPAddressLeaked: it is to be removed, since its Service does not exist.
	IPAddressLeaked IPAddressVerdict = rk.IPAddressLeaked
)

// JudgeIPAddress returns the repair of an IPAddress object, and with IPAddressWait after which time it is to be judged
// again. managed says whether the allocator made it, by its label; unusedFor is for how long at least nothing has used
// it, grace the longest time that a request can take.
func JudgeIPAddress(managed bool, parent Parent, unusedFor, grace time.Duration) (IPAddressVerdict, time.Duration) {
	var verdict uint32
	var wait uint64
	// It refuses only other parents than those above.
	if rk.IPAddressJudge(managed, uint32(parent), uint64(max(unusedFor, 0)), uint64(max(grace, 0)), &verdict, &wait) != rk.ResultOK {
		return IPAddressKeep, 0
	}
	return IPAddressVerdict(verdict), time.Duration(wait)
}

// AddressObject is the IPAddress object of an address that a Service uses.
type AddressObject struct {
	// Managed reports whether the allocator made it, by its label; Labelled whether its labels are those that the
	// allocator sets.
	Managed, Labelled bool
	// RefersHere reports whether it refers to the Service that is looked at. If not, Parent is the Service that it
	// refers to.
	RefersHere bool
	Parent     Parent
}

// ClusterIPVerdict is the repair of a Service's ClusterIP that a ServiceCIDR hands out.
type ClusterIPVerdict uint32

const (
	// ClusterIPKeep: its IPAddress object is right.
	ClusterIPKeep ClusterIPVerdict = rk.ClusterIPKeep
	// ClusterIPWait: its object refers to another Service, which may need it; the verdict on the object comes first.
	ClusterIPWait ClusterIPVerdict = rk.ClusterIPWait
	// ClusterIPCreate: it has no object, and is to get one.
	ClusterIPCreate ClusterIPVerdict = rk.ClusterIPCreate
	// ClusterIPReshape: its object lacks labels of the allocator, which are to be set in place; no Event reports it.
	ClusterIPReshape ClusterIPVerdict = rk.ClusterIPReshape
	// ClusterIPReplace: its object does not refer to its Service, and is to do so: in place if the store allows that.
	ClusterIPReplace ClusterIPVerdict = rk.ClusterIPReplace
	// ClusterIPTaken: another Service has it: the owner of one of the two has to recreate it.
	ClusterIPTaken ClusterIPVerdict = rk.ClusterIPTaken
)

// JudgeClusterIP returns the repair of an address that a Service uses and a ServiceCIDR hands out, by its IPAddress
// object; nil if there is none.
func JudgeClusterIP(object *AddressObject) ClusterIPVerdict {
	var verdict uint32
	var c *rk.AddressObject
	if object != nil {
		c = &rk.AddressObject{
			Managed: object.Managed, Labelled: object.Labelled, Parent: uint32(object.Parent),
		}
		if object.RefersHere {
			c.Parent = rk.ParentSelf
		}
	}
	if rk.ClusterIPJudge(c, &verdict) != rk.ResultOK {
		return ClusterIPWait
	}
	return ClusterIPVerdict(verdict)
}
