package ipaddress

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/servicecidr"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// cidr is a CIDR of ServiceCIDR objects.
type cidr struct {
	prefix  netip.Prefix
	values  rangekeeper.ServiceCIDR
	isReady bool
	// first is the first of its objects by name.
	first *networkingv1.ServiceCIDR
}

func (c cidr) has(address netip.Addr) bool {
	if !c.prefix.Contains(address) {
		return false
	}
	_, ok := c.values.OffsetOf(address) // false for the network and broadcast address
	return ok
}

func find(all []cidr, address netip.Addr) (cidr, bool) {
	if i := slices.IndexFunc(all, func(c cidr) bool { return c.has(address) }); i >= 0 {
		return all[i], true
	}
	return cidr{}, false
}

func values(all []cidr) []rangekeeper.ServiceCIDR {
	values := make([]rangekeeper.ServiceCIDR, len(all))
	for i, c := range all {
		values[i] = c.values
	}
	return values
}

// cidrs are the CIDRs of one family of all ServiceCIDR objects.
type cidrs struct {
	family   corev1.IPFamily
	index    *index
	informer cache.SharedIndexInformer
	lister   networkingv1listers.ServiceCIDRLister
	events   cache.ResourceEventHandlerRegistration
	changed  func(gone []netip.Prefix)

	// mu is held while the objects are read.
	mu sync.Mutex
	// corrected are the objects that the cache does not have as etcd does, by name.
	corrected map[string]correction
	// all is sorted by CIDR. A slice is never changed.
	all atomic.Pointer[[]cidr]
}

// correction is what etcd has instead of an object in the cache; nil if it has none.
type correction struct{ cached, stored *networkingv1.ServiceCIDR }

// newCIDRs returns the CIDRs of no objects. changed is called after each event, with those that are gone.
func newCIDRs(informer networkingv1informers.ServiceCIDRInformer, family corev1.IPFamily, index *index, changed func(gone []netip.Prefix)) *cidrs {
	c := &cidrs{family: family, index: index, informer: informer.Informer(), lister: informer.Lister(), changed: changed, corrected: map[string]correction{}}
	c.all.Store(new([]cidr))
	return c
}

// start follows the objects until close: the index then has their CIDRs.
func (c *cidrs) start() (err error) {
	c.events, err = c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.changed(c.follow()) },
		UpdateFunc: func(any, any) { c.changed(c.follow()) },
		DeleteFunc: func(any) { c.changed(c.follow()) },
	})
	return err
}

func (c *cidrs) close() error { return c.informer.RemoveEventHandler(c.events) }

// get returns all CIDRs.
func (c *cidrs) get() []cidr {
	if !c.events.HasSynced() {
		c.follow() // some objects were not reported as events yet
	}
	return *c.all.Load()
}

// ready returns those whose addresses can be allocated.
func (c *cidrs) ready() []cidr {
	return slices.DeleteFunc(slices.Clone(c.get()), func(c cidr) bool { return !c.isReady })
}

// correct replaces an object of the cache, until that has another one of its name.
func (c *cidrs) correct(cached, stored *networkingv1.ServiceCIDR) {
	c.mu.Lock()
	if before, ok := c.corrected[cached.Name]; ok && before.stored == cached {
		cached = before.cached
	}
	c.corrected[cached.Name] = correction{cached, stored}
	c.mu.Unlock()
	c.changed(c.follow())
}

// follow reads the objects of the cache, and returns the CIDRs that are gone. A CIDR is ready if one of its objects is.
func (c *cidrs) follow() (gone []netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.wanted()
	var next []cidr
	for _, old := range *c.all.Load() {
		now, ok := wanted[old.prefix]
		if !ok {
			_ = c.index.remove(old.values) // it only fails after Close
			gone = append(gone, old.prefix)
			continue
		}
		delete(wanted, old.prefix)
		now.values = old.values
		next = append(next, now)
	}
	for prefix, added := range wanted {
		values, err := rangekeeper.ParseServiceCIDR(prefix.String())
		if err == nil {
			err = c.index.insert(values)
		}
		if err != nil {
			klog.ErrorS(err, "Ignoring a CIDR of a ServiceCIDR", "cidr", prefix)
			continue
		}
		added.values = values
		next = append(next, added)
	}
	slices.SortFunc(next, func(a, b cidr) int { return a.prefix.Compare(b.prefix) })
	c.all.Store(&next)
	return gone
}

// wanted returns the CIDRs of the objects, without values.
func (c *cidrs) wanted() map[netip.Prefix]cidr {
	// A lister returns no error.
	objects, _ := c.lister.List(labels.Everything())
	wanted := make(map[netip.Prefix]cidr)
	for _, object := range objects {
		if instead, ok := c.corrected[object.Name]; ok && instead.cached == object {
			if object = instead.stored; object == nil {
				continue
			}
		}
		for _, text := range object.Spec.CIDRs {
			prefix, err := parsePrefix(text)
			if err != nil {
				klog.ErrorS(err, "Ignoring an invalid CIDR of a ServiceCIDR", "serviceCIDR", object.Name, "cidr", text)
				continue
			}
			if familyOf(prefix.Addr()) != c.family {
				continue
			}
			one := wanted[prefix]
			one.prefix, one.isReady = prefix, one.isReady || servicecidr.IsReady(object)
			if one.first == nil || object.Name < one.first.Name {
				one.first = object
			}
			wanted[prefix] = one
		}
	}
	return wanted
}

// parsePrefix reads a CIDR as kube-apiserver does, with leading zeros and host bits.
func parsePrefix(text string) (netip.Prefix, error) {
	_, network, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.ParsePrefix(network.String())
}

func familyOf(address netip.Addr) corev1.IPFamily {
	if address.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
