package ipaddresstest

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
)

// TestObjectIsRepairedAtOnce changes the object of a Service. The repair must not wait for the next check of all
// objects: until then the address can be allocated again.
func TestObjectIsRepairedAtOnce(t *testing.T) {
	for name, change := range map[string]func(c *cluster, object *networkingv1.IPAddress){
		"removed": func(c *cluster, object *networkingv1.IPAddress) { c.removeAddress(object.Name) },
		"of another manager": func(c *cluster, object *networkingv1.IPAddress) {
			theirs := object.DeepCopy()
			theirs.Labels, theirs.ResourceVersion = nil, c.revision()
			c.put(theirs)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				object := c.address(ipv4, "a", 0)
				c.put(object)
				c.put(c.service("a", ipv4))
				c.keeps(object, cacheGrace)
				change(c, object)
				c.pass(cacheGrace + time.Second)
				stored := c.stored(ipv4)
				if stored == nil || stored.Labels[networkingv1.LabelManagedBy] != ipallocator.ControllerName || stored.Spec.ParentRef.Name != "a" {
					c.Errorf("%v after the change the object is %+v", cacheGrace+time.Second, stored)
				}
			})
		})
	}
}

// TestServiceWithUnusualText has a Service whose address is not in its canonical form. It uses the object of the
// address.
func TestServiceWithUnusualText(t *testing.T) {
	for address, text := range map[string]string{ipv6: "fd00:0:0::7", ipv4: "010.000.000.007"} {
		t.Run(text, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				object := c.address(address, "a", 0)
				c.put(object)
				c.put(c.service("a", text))
				c.keeps(object, 3*interval)
			})
		})
	}
}

// TestFirstCheckBesideAnotherServer has a Service whose object another server has created, and the cache does not have
// it yet. The first check of all objects must succeed: a starting server is not ready before that.
func TestFirstCheckBesideAnotherServer(t *testing.T) {
	runRepairOf(t, func(c *cluster) {
		c.addCIDR()
		service := c.service("a", ipv4)
		c.putInAPI(service)
		c.putInto(c.cache, service)
		c.putInAPI(c.address(ipv4, "a", 0))
	}, func(c *cluster, ready <-chan struct{}) {
		c.pass(time.Minute)
		select {
		case <-ready:
		default:
			c.Error("the first check has not succeeded")
		}
	})
}

// TestFirstServerOfACluster starts a repair before the cluster has a ServiceCIDR. It must wait, and not report that the
// addresses of all Services are out of range.
func TestFirstServerOfACluster(t *testing.T) {
	runRepairOf(t, func(c *cluster) {
		service := c.service("a", ipv4)
		c.putInAPI(service)
		c.putInto(c.cache, service)
	}, func(c *cluster, ready <-chan struct{}) {
		c.pass(time.Minute)
		select {
		case <-ready:
			c.Error("the first check succeeded without a ServiceCIDR")
		default:
		}
		c.addCIDR()
		<-ready
		c.pass(time.Second)
		events, err := c.api.EventsV1().Events(metav1.NamespaceAll).List(c.Context(), metav1.ListOptions{})
		if err != nil {
			c.Fatal(err)
		}
		reasons := make(map[string]bool)
		for _, event := range events.Items {
			reasons[event.Reason] = true
		}
		if !reasons["ClusterIPNotAllocated"] || len(reasons) != 1 {
			c.Errorf("Events with the reasons %v, want ClusterIPNotAllocated only", reasons)
		}
	})
}
