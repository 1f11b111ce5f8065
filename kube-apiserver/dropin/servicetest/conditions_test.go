package servicetest

import (
	"fmt"
	"net/http"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	portsKey    = "/registry/ranges/servicenodeports"
	addressKeys = "/registry/ipaddresses/"
	cidrKeys    = "/registry/servicecidrs/"
)

// intrusions are what may happen between an allocation and the write of its Service, so that another Service can have
// the value.
var intrusions = map[string]func(t *testing.T, c *cluster){
	"a repair pass has begun to list Services": func(t *testing.T, c *cluster) {
		must(c.etcd.Do(t.Context(), clientv3.OpDelete(etcdstore.WitnessKey(portsKey))))
	},
	"a repair pass has begun, and others have allocated since": func(t *testing.T, c *cluster) {
		must(c.etcd.Do(t.Context(), clientv3.OpDelete(etcdstore.WitnessKey(portsKey))))
		must(c.etcd.Put(t.Context(), etcdstore.WitnessKey(portsKey), ""))
	},
	"etcd was restored to a state without the allocation": func(t *testing.T, c *cluster) {
		must(c.etcd.Do(t.Context(), clientv3.OpDelete(etcdstore.WitnessKey(portsKey)))) // there was no witness then
	},
}

// TestLateCreation lets values be lost before their Service is created. The Service must not be created, and a client
// must try again.
func TestLateCreation(t *testing.T) {
	for name, intrude := range intrusions {
		t.Run(name, func(t *testing.T) {
			c := start(t, nil)
			var allocated *api.Service
			_, err := c.create(request(t), nodePort("a"), func(service *api.Service) {
				allocated = service.DeepCopy()
				intrude(t, c)
			})
			checkRetry(t, err, http.StatusServiceUnavailable, "may belong to another Service", "nothing was written")
			if c.stored(t, key("a")) != 0 {
				t.Error("the Service is stored")
			}
			if c.addresses.Has(addressOf(allocated)) {
				t.Error("the address was not released")
			}
			if _, err := c.create(request(t), nodePort("a"), nil); err != nil {
				t.Error("the next request:", err)
			}
		})
	}
}

// TestLateUpdate lets values be lost before a Service is updated with them. It must not be updated.
func TestLateUpdate(t *testing.T) {
	for name, intrude := range intrusions {
		for what, change := range map[string]svctest.Tweak{
			"type": svctest.SetTypeNodePort,
			"new port": func(service *api.Service) {
				service.Spec.Ports = append(service.Spec.Ports, svctest.MakeServicePort("other", 99, intstr.FromInt32(99), api.ProtocolTCP))
			},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				c := start(t, nil)
				service := svctest.MakeService("a")
				if what == "new port" {
					service = nodePort("a")
					service.Spec.Ports[0].Name = "first"
				}
				created := must(c.create(request(t), service, nil))
				revision := c.stored(t, key("a"))
				change(created)
				var allocated *api.Service
				_, err := c.update(request(t), created.DeepCopy(), func(service *api.Service) {
					allocated = service.DeepCopy()
					intrude(t, c)
				})
				checkRetry(t, err, http.StatusServiceUnavailable, "nothing was written")
				if allocated == nil || c.stored(t, key("a")) != revision {
					t.Error("the Service was updated")
				}
				if _, err := c.update(request(t), created, nil); err != nil {
					t.Error("the next request:", err)
				}
			})
		}
	}
}

// maxConnections is more than the number of the server's connections to etcd.
const maxConnections = 10

// TestReconnected loses the connections to etcd between an allocation and the write of its Service. There can be
// another etcd, or an older state of it, at the end of the next ones: the Service must not be written, nor its values
// released.
func TestReconnected(t *testing.T) {
	c := start(t, nil)
	var allocated *api.Service
	_, err := c.create(request(t), nodePort("a"), func(service *api.Service) {
		allocated = service.DeepCopy()
		c.proxy.cut()
	})
	checkReconnected(t, err)
	if c.stored(t, key("a")) != 0 {
		t.Error("the Service is stored")
	}
	if !c.addresses.Has(addressOf(allocated)) {
		t.Error("the address was released")
	}
	service := nodePort("a")
	service.Spec.Ports[0].Name = "first"
	// Each of the server's connections may notice that it is closed during another request.
	created, err := c.create(request(t), service, nil)
	for range maxConnections {
		if err == nil {
			break
		}
		checkReconnected(t, err)
		created, err = c.create(request(t), service, nil)
	}
	if err != nil {
		t.Fatal("the last of the next requests:", err)
	}
	revision := c.stored(t, key("a"))
	created.Spec.Ports = append(created.Spec.Ports, svctest.MakeServicePort("other", 99, intstr.FromInt32(99), api.ProtocolTCP))
	_, err = c.update(request(t), created, func(*api.Service) { c.proxy.cut() })
	checkReconnected(t, err)
	if c.stored(t, key("a")) != revision {
		t.Error("the Service was updated")
	}
}

// checkReconnected checks the error of a write: it was not sent over another connection, or had no answer over the one
// that was cut.
func checkReconnected(t *testing.T, err error) {
	t.Helper()
	if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) {
		t.Errorf("error %v", err)
	}
}

// TestWithoutValues updates a Service that keeps its values, after a repair pass has begun. Only new values have
// conditions.
func TestWithoutValues(t *testing.T) {
	c := start(t, nil)
	created := must(c.create(request(t), nodePort("a"), nil))
	created.Labels = map[string]string{"a": "b"}
	_, err := c.update(request(t), created, func(*api.Service) { must(c.etcd.Do(t.Context(), clientv3.OpDelete(etcdstore.WitnessKey(portsKey)))) })
	if err != nil {
		t.Error(err)
	}
}

// TestConflict updates a Service with new values while another client updates it. The update must be tried again with
// the newer Service: it is no lost value.
func TestConflict(t *testing.T) {
	c := start(t, nil)
	created := must(c.create(request(t), svctest.MakeService("a"), nil))
	update := created.DeepCopy()
	update.ResourceVersion = ""
	svctest.SetTypeNodePort(update)
	attempts := 0
	updated, err := c.update(request(t), update, func(*api.Service) {
		if attempts++; attempts == 1 {
			other := created.DeepCopy()
			other.Annotations = map[string]string{"a": "b"}
			must(c.update(request(t), other, nil))
		}
	})
	if err != nil || attempts != 2 {
		t.Fatalf("%d attempts, %v", attempts, err)
	}
	used := 0
	c.ports.ForEach(func(port int) {
		if used++; port != int(updated.Spec.Ports[0].NodePort) {
			t.Errorf("node port %d of the first attempt is not released", port)
		}
	})
	if used != 1 {
		t.Errorf("%d node ports in use", used)
	}
}

// TestLateAddress removes, or replaces, the IPAddress object of a Service before the Service is written.
func TestLateAddress(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		c, _, putCIDR := startObjects(t)
		putCIDR("kubernetes", "10.6.0.0/24")
		_, err := c.create(request(t), svctest.MakeService("a"), func(service *api.Service) {
			must(c.etcd.Delete(t.Context(), addressKeys+service.Spec.ClusterIP))
			if replaced {
				must(c.etcd.Put(t.Context(), addressKeys+service.Spec.ClusterIP, "the object of another Service"))
			}
		})
		checkRetry(t, err, http.StatusServiceUnavailable, "may belong to another Service")
		if c.stored(t, key("a")) != 0 {
			t.Error("the Service is stored")
		}
		// A repair writes the object before it looks for the Service a last time and deletes the object.
		_, err = c.create(request(t), svctest.MakeService("b"), func(service *api.Service) {
			must(c.etcd.Put(t.Context(), addressKeys+service.Spec.ClusterIP, "the object with an annotation"))
		})
		checkRetry(t, err, http.StatusServiceUnavailable, "may belong to another Service")
		if c.stored(t, key("b")) != 0 {
			t.Error("the Service is stored")
		}
		// An ExternalName Service that becomes another one gets an address.
		external := must(c.create(request(t), svctest.MakeService("external", svctest.SetTypeExternalName, svctest.SetExternalName("example.com")), nil))
		svctest.SetTypeClusterIP(external)
		_, err = c.update(request(t), external, func(service *api.Service) {
			must(c.etcd.Delete(t.Context(), addressKeys+service.Spec.ClusterIP))
		})
		checkRetry(t, err, http.StatusServiceUnavailable, "may belong to another Service")
		_, err = c.create(request(t), svctest.MakeService("c"), func(*api.Service) {
			must(c.etcd.Put(t.Context(), cidrKeys+"kubernetes", "the ServiceCIDR with a label"))
		})
		if err != nil {
			t.Error("while somebody writes the ServiceCIDR:", err)
		}
		// A restored etcd lacks the ServiceCIDR. Then there is another one of its name.
		for _, name := range []string{"d", "e"} {
			_, err = c.create(request(t), svctest.MakeService(name), func(*api.Service) {
				must(c.etcd.Delete(t.Context(), cidrKeys+"kubernetes"))
				if name == "e" {
					must(c.etcd.Put(t.Context(), cidrKeys+"kubernetes", "another ServiceCIDR"))
				}
			})
			checkRetry(t, err, http.StatusServiceUnavailable, "their ServiceCIDR is gone")
			if c.stored(t, key(name)) != 0 {
				t.Error("the Service is stored")
			}
		}
	}
}

// TestRangeIsLost loses the range of node ports, so that etcd has an older one. The server must set the ports again
// that it handed out, those of stored Services and that of a request that has not ended.
func TestRangeIsLost(t *testing.T) {
	const created, updated, unwritten = 30050, 30051, 30055
	c := start(t, nil)
	before := string(must(c.etcd.Get(t.Context(), portsKey)).Kvs[0].Value)
	must(c.create(request(t), svctest.MakeService("a", svctest.SetTypeNodePort, svctest.SetNodePorts(created)), nil))
	service := must(c.create(request(t), svctest.MakeService("b"), nil))
	svctest.SetTypeNodePort(service)
	svctest.SetNodePorts(updated)(service)
	must(c.update(request(t), service, nil))
	underWay, _ := c.ports.ForRequest()
	if err := underWay.Allocate(unwritten); err != nil {
		t.Fatal(err)
	}
	must(c.etcd.Delete(t.Context(), portsKey))
	must(c.etcd.Put(t.Context(), portsKey, before))
	must(c.create(request(t), svctest.MakeService("c", svctest.SetTypeNodePort, svctest.SetNodePorts(30060)), nil))
	if !c.ports.Has(created) || !c.ports.Has(updated) || !c.ports.Has(unwritten) {
		t.Errorf("set again: that of a created Service: %v, of an updated one: %v, of a request under way: %v", c.ports.Has(created), c.ports.Has(updated), c.ports.Has(unwritten))
	}
}

// TestManyNodePorts creates and updates a Service with more node ports than a transaction of etcd may have conditions.
func TestManyNodePorts(t *testing.T) {
	c := start(t, nil)
	service := nodePort("a")
	service.Spec.Ports = nil
	addPorts := func(n int) {
		for range n {
			number := int32(1 + len(service.Spec.Ports))
			service.Spec.Ports = append(service.Spec.Ports, svctest.MakeServicePort(fmt.Sprintf("p%d", number), int(number), intstr.FromInt32(number), api.ProtocolTCP))
		}
	}
	addPorts(45)
	service = must(c.create(request(t), service, nil))
	addPorts(45)
	service = must(c.update(request(t), service, nil))
	for _, port := range service.Spec.Ports {
		if !c.ports.Has(int(port.NodePort)) {
			t.Errorf("node port %d is not recorded", port.NodePort)
		}
	}
}
