package ipaddresstest

import (
	"maps"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
)

// TestRemovedObjectIsRecreated removes the object of a Service. The repair must not wait for the next check of all
// objects: until then the address can be allocated again.
func TestRemovedObjectIsRecreated(t *testing.T) {
	runRepair(t, func(c *cluster) {
		object := c.address(ipv4, "a", 0)
		c.put(object)
		c.put(c.service("a", ipv4))
		c.keeps(object, cacheGrace)
		c.removeAddress(object.Name)
		c.pass(cacheGrace + time.Second)
		c.refersTo(ipv4, "a")
	})
}

// TestLabelsAreRepairedInPlace changes labels of the object of a Service. The repair must write the object at once and
// never delete it, and keeps the labels that others have set.
func TestLabelsAreRepairedInPlace(t *testing.T) {
	for name, change := range map[string]func(labels map[string]string){
		"removed":            func(labels map[string]string) { clear(labels) },
		"of another manager": func(labels map[string]string) { labels[networkingv1.LabelManagedBy] = "another" },
		"of another family":  func(labels map[string]string) { labels[networkingv1.LabelIPAddressFamily] = "IPv6" },
	} {
		t.Run(name, func(t *testing.T) {
			runRepair(t, func(c *cluster) {
				object := c.address(ipv4, "a", 0)
				c.put(object)
				c.put(c.service("a", ipv4))
				c.keeps(object, cacheGrace)
				changed := object.DeepCopy()
				change(changed.Labels)
				changed.Labels["team"], changed.ResourceVersion = "a", c.revision()
				c.put(changed)
				want := maps.Clone(object.Labels)
				want["team"] = "a"
				if stored := c.stored(ipv4); stored == nil || stored.UID != object.UID || !maps.Equal(stored.Labels, want) {
					c.Errorf("the object is %+v", stored)
				}
				c.refersTo(ipv4, "a")
			})
		})
	}
}

// TestRepairReadsTheStoredObject has an object in the cache that etcd lacks, as after a restore, and another one of the
// same name and revision in etcd. Its Service has the address, so the repair must not write it.
func TestRepairReadsTheStoredObject(t *testing.T) {
	runRepair(t, func(c *cluster) {
		c.api.PrependReactor("update", "ipaddresses", func(k8stesting.Action) (bool, runtime.Object, error) {
			c.Error("the repair writes the object")
			return false, nil, nil
		})
		lost := c.address(ipv4, "lost", 0)
		stored := lost.DeepCopy()
		stored.UID, stored.Spec.ParentRef.Name = "another", "a"
		c.putInAPI(stored)
		c.putInCache(lost)
		c.put(c.service("a", ipv4))
		c.keeps(stored, requestTimeout+interval)
	})
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
