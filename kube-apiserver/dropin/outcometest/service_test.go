// Package outcometest tests which values the storage of Services inside a kube-apiserver releases after each outcome of
// a write, with ranges in an etcd. The released tests of that storage keep ranges in memory, where a value is released
// at once.
package outcometest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/storage"
	"k8s.io/kubernetes/pkg/registry/registrytest"
)

const (
	port      = 30010
	otherPort = 30011
)

var address, otherAddress = net.IPv4(10, 0, 0, 100), net.IPv4(10, 0, 0, 101)

// server is the storage of Services of an API server, and its ranges.
type server struct {
	*testing.T
	*storage.REST
	status    *storage.StatusREST
	ctx       context.Context
	ports     *portallocator.PortAllocator
	addresses map[api.IPFamily]*ipallocator.Range
	etcd      *clientv3.Client
	// proxy is between the storage of Services and etcd.
	proxy *proxy
}

// newServer returns a server. ports replaces its allocator of ports; nil for no change.
func newServer(t *testing.T, ports func(*portallocator.PortAllocator) portallocator.Interface) *server {
	t.Helper()
	config, etcd := registrytest.NewEtcdStorage(t, "")
	ctx := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{APIVersion: "v1", Resource: "services"})
	s := &server{
		T: t, ctx: genericapirequest.WithNamespace(ctx, metav1.NamespaceDefault), etcd: etcd.V3Client.Client,
		addresses: make(map[api.IPFamily]*ipallocator.Range), proxy: newProxy(t, config.Transport.ServerList[0]),
	}
	ranges := config.ForResource(api.Resource("ranges"))
	open := func(key string) allocator.AllocatorWithOffsetFactory {
		return func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
			opened, err := allocatorstorage.NewEtcd(allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), key, ranges)
			if err == nil {
				err = opened.CreateOrUpdate(&api.RangeAllocation{Range: rangeSpec})
			}
			return opened, err
		}
	}
	allocators := make(map[api.IPFamily]ipallocator.Interface)
	for family, text := range map[api.IPFamily]string{api.IPv4Protocol: "10.0.0.0/24", api.IPv6Protocol: "fd00::/120"} {
		_, cidr, _ := net.ParseCIDR(text)
		addresses, err := ipallocator.New(cidr, open("/ranges/"+string(family)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(addresses.Destroy)
		s.addresses[family], allocators[family] = addresses, addresses
	}
	var err error
	if s.ports, err = portallocator.New(*utilnet.ParsePortRangeOrDie("30000-30099"), open("/ranges/servicenodeports")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.ports.Destroy)
	var portAllocator portallocator.Interface = s.ports
	if ports != nil {
		portAllocator = ports(s.ports)
	}
	through := *config
	through.Transport.ServerList = []string{s.proxy.address}
	options := generic.RESTOptions{
		StorageConfig: through.ForResource(api.Resource("services")), Decorator: generic.UndecoratedStorage, ResourcePrefix: "services",
	}
	if s.REST, s.status, _, err = storage.NewREST(options, api.IPv4Protocol, allocators, portAllocator, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Store.Destroy)
	// Connect: the proxy must not lose what opens a connection.
	s.mustCreate(nodePort("first", port, address))
	s.mustDelete("first")
	s.check(nil)
	return s
}

// nodePort returns a Service with a node port and an address.
func nodePort(name string, port int, address net.IP, tweaks ...svctest.Tweak) *api.Service {
	tweaks = append([]svctest.Tweak{svctest.SetTypeNodePort, svctest.SetNodePorts(port), svctest.SetClusterIPs(address.String())}, tweaks...)
	return svctest.MakeService(name, tweaks...)
}

// create creates a Service. allocated is called after the values were allocated, and before the Service is written.
func (s *server) create(service *api.Service, allocated rest.ValidateObjectFunc) (*api.Service, error) {
	if allocated == nil {
		allocated = rest.ValidateAllObjectFunc
	}
	created, err := s.Create(s.ctx, service, allocated, &metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return created.(*api.Service), nil
}

func (s *server) mustCreate(service *api.Service) *api.Service {
	s.Helper()
	created, err := s.create(service, nil)
	if err != nil {
		s.Fatal(err)
	}
	return created
}

// update updates a Service. allocated is called after the values were allocated, and before the Service is written.
func (s *server) update(service *api.Service, allocated func()) (*api.Service, error) {
	validate := func(context.Context, runtime.Object, runtime.Object) error {
		if allocated != nil {
			allocated()
		}
		return nil
	}
	updated, _, err := s.Update(s.ctx, service.Name, rest.DefaultUpdatedObjectInfo(service), rest.ValidateAllObjectFunc, validate, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return updated.(*api.Service), nil
}

// createByUpdate creates a Service by an update. allocated is called after the values were allocated, and before the
// Service is written.
func (s *server) createByUpdate(service *api.Service, allocated rest.ValidateObjectFunc) error {
	_, _, err := s.Update(s.ctx, service.Name, rest.DefaultUpdatedObjectInfo(service), allocated, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
	return err
}

func (s *server) mustDelete(name string) {
	s.Helper()
	if _, _, err := s.Delete(s.ctx, name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// isStored reports whether etcd has a Service. It does not use the proxy.
func (s *server) isStored(name string, field string) bool {
	s.Helper()
	answer, err := s.etcd.Get(context.Background(), "/", clientv3.WithPrefix())
	if err != nil {
		s.Fatal(err)
	}
	for _, kv := range answer.Kvs {
		if strings.HasSuffix(string(kv.Key), "/services/default/"+name) {
			return strings.Contains(string(kv.Value), field)
		}
	}
	return false
}

// check compares the values in use with those that should be.
func (s *server) check(ports []int, addresses ...net.IP) {
	s.Helper()
	var usedPorts, usedAddresses []string
	s.ports.ForEach(func(port int) { usedPorts = append(usedPorts, fmt.Sprint(port)) })
	s.addresses[api.IPv4Protocol].ForEach(func(ip net.IP) { usedAddresses = append(usedAddresses, ip.String()) })
	if used, want := strings.Join(usedPorts, " "), strings.Trim(fmt.Sprint(ports), "[]"); used != want {
		s.Errorf("ports in use: %s, want %s", used, want)
	}
	if used, want := strings.Join(usedAddresses, " "), strings.Trim(fmt.Sprint(addresses), "[]"); used != want {
		s.Errorf("addresses in use: %s, want %s", used, want)
	}
}

// TestUnknownOutcome loses the connection to etcd during the write of a Service. As the Service may be stored, no value
// may be released: neither the new ones nor those that an update gives up.
func TestUnknownOutcome(t *testing.T) {
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprintf("create, written: %v", written), func(t *testing.T) {
			s := newServer(t, nil)
			_, err := s.create(nodePort("a", port, address), func(context.Context, runtime.Object) error {
				s.lose(written, "a", "")
				return nil
			})
			if err == nil || s.isStored("a", "") != written {
				t.Fatalf("the error is %v, the Service is stored: %v", err, s.isStored("a", ""))
			}
			s.check([]int{port}, address)
		})
		t.Run(fmt.Sprintf("create by update, written: %v", written), func(t *testing.T) {
			s := newServer(t, nil)
			err := s.createByUpdate(nodePort("a", port, address), func(context.Context, runtime.Object) error {
				s.lose(written, "a", "")
				return nil
			})
			if err == nil || s.isStored("a", "") != written {
				t.Fatalf("the error is %v, the Service is stored: %v", err, s.isStored("a", ""))
			}
			s.check([]int{port}, address)
		})
		t.Run(fmt.Sprintf("update, written: %v", written), func(t *testing.T) {
			s := newServer(t, nil)
			changed := s.mustCreate(nodePort("a", port, address))
			changed.Spec.Ports[0].NodePort = otherPort
			changed.Labels = map[string]string{"changed": "yes"}
			_, err := s.update(changed, func() { s.lose(written, "a", "changed") })
			if err == nil || s.isStored("a", "changed") != written {
				t.Fatalf("the error is %v, the change is stored: %v", err, s.isStored("a", "changed"))
			}
			s.check([]int{port, otherPort}, address)
		})
	}
}

// TestAnswerAfterDeadline holds back the answer to an update until its request has no time left. The connection stays,
// so that values could be released, and the Service has them.
func TestAnswerAfterDeadline(t *testing.T) {
	s := newServer(t, nil)
	changed := s.mustCreate(nodePort("a", port, address))
	changed.Spec.Ports[0].NodePort = otherPort
	changed.Labels = map[string]string{"changed": "yes"}
	inTime := s.ctx
	for limit := time.Second; !s.isStored("a", "changed"); limit *= 2 { // it is refused where it comes too late
		ctx, cancel := context.WithTimeout(inTime, limit)
		defer cancel()
		s.ctx = ctx
		_, err := s.update(changed, func() {
			s.proxy.answers.sending.Lock()
			go func() {
				<-ctx.Done()
				s.proxy.answers.sending.Unlock()
			}()
		})
		if err == nil {
			t.Fatal("the update has no error")
		}
	}
	s.check([]int{port, otherPort}, address)
}

// lose loses what is sent from now on: the answer to a write, which then changes a field of a Service, or the request.
// After that it closes the connections.
func (s *server) lose(written bool, name, field string) {
	if !written {
		s.proxy.requests.loses.Store(true)
		go func() {
			<-s.proxy.lost
			s.proxy.disconnect()
		}()
		return
	}
	s.proxy.answers.loses.Store(true)
	go func() {
		for s.Context().Err() == nil && !s.isStored(name, field) {
			time.Sleep(time.Millisecond)
		}
		s.proxy.disconnect()
	}()
}

// TestRefusedWrite sends Services that etcd or its client refuses as too large. The new values must be free again, and
// those that the update gives up must stay allocated.
func TestRefusedWrite(t *testing.T) {
	for name, labels := range map[string]int{"etcd": 14_000, "its client": 18_000} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			changed := s.mustCreate(nodePort("a", port, address))
			changed.Labels = make(map[string]string)
			for i := range labels {
				changed.Labels[fmt.Sprintf("%s-%05d", strings.Repeat("k", 54), i)] = strings.Repeat("v", 60)
			}
			changed.Spec.Ports[0].NodePort = otherPort
			if _, err := s.update(changed, nil); err == nil || !strings.Contains(err.Error(), "larger than max") && !strings.Contains(err.Error(), "too large") {
				t.Errorf("the update: %v", err)
			}
			created := nodePort("b", otherPort, otherAddress)
			created.Labels = changed.Labels
			if _, err := s.create(created, nil); err == nil || !strings.Contains(err.Error(), "larger than max") && !strings.Contains(err.Error(), "too large") {
				t.Errorf("the creation: %v", err)
			}
			s.check([]int{port}, address)
		})
	}
}

// late is an allocator of ports whose requests have no time left.
type late struct {
	*portallocator.PortAllocator
	isLate bool
}

func (l *late) ForRequest() (portallocator.Interface, allocator.Request) {
	own, request := l.PortAllocator.ForRequest()
	if l.isLate {
		request = lateRequest{request}
	}
	return own, request
}

type lateRequest struct{ allocator.Request }

func (lateRequest) UseUntil() time.Time { return time.Now().Add(-time.Second) }

// TestLateWrite allocates values, and is then too late to write the Service: a repair of another server may have
// released them. Nothing may be written, and the new values must be free again.
func TestLateWrite(t *testing.T) {
	var ports *late
	s := newServer(t, func(source *portallocator.PortAllocator) portallocator.Interface {
		ports = &late{PortAllocator: source}
		return ports
	})
	old := s.mustCreate(nodePort("a", port, address))
	ports.isLate = true
	if _, err := s.create(nodePort("b", otherPort, otherAddress), nil); !apierrors.IsTimeout(err) {
		t.Errorf("the creation: %v", err)
	}
	old.Spec.Ports[0].NodePort = otherPort
	old.Labels = map[string]string{"changed": "yes"}
	if _, err := s.update(old, nil); !apierrors.IsTimeout(err) {
		t.Errorf("the update: %v", err)
	}
	if s.isStored("b", "") || s.isStored("a", "changed") {
		t.Errorf("the created Service is stored: %v, the change: %v", s.isStored("b", ""), s.isStored("a", "changed"))
	}
	s.check([]int{port}, address)
}

// TestRepeatedAttempt changes a Service during an update of it, whose first attempt fails. The second attempt allocates
// another port; that of the first must be free again.
func TestRepeatedAttempt(t *testing.T) {
	s := newServer(t, nil)
	s.mustCreate(svctest.MakeService("a", svctest.SetTypeClusterIP, svctest.SetClusterIPs(address.String())))
	attempts := 0
	updated, err := s.update(svctest.MakeService("a", svctest.SetTypeNodePort, svctest.SetClusterIPs(address.String())), func() {
		if attempts++; attempts > 1 {
			return
		}
		concurrent := svctest.MakeService("a", svctest.SetTypeClusterIP, svctest.SetClusterIPs(address.String()))
		concurrent.Labels = map[string]string{"changed": "too"}
		if _, err := s.update(concurrent, nil); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if attempts != 2 {
		t.Errorf("%d attempts, want 2", attempts)
	}
	s.check([]int{int(updated.Spec.Ports[0].NodePort)}, address)
}

// TestReleaseAfterWrite gives up a port by an update, which must release it after the write and not before.
func TestReleaseAfterWrite(t *testing.T) {
	s := newServer(t, nil)
	changed := s.mustCreate(nodePort("a", port, address))
	changed.Spec.Ports[0].NodePort = otherPort
	_, err := s.update(changed, func() { s.check([]int{port, otherPort}, address) })
	if err != nil {
		t.Fatal(err)
	}
	s.check([]int{otherPort}, address)
	s.mustDelete("a")
	s.check(nil)
}

// TestDisconnect cancels requests after their values were allocated. Nothing may be written, and the new values must be
// free again.
func TestDisconnect(t *testing.T) {
	s := newServer(t, nil)
	changed := s.mustCreate(nodePort("a", port, address))
	connected := s.ctx
	request := func() context.CancelFunc {
		ctx, disconnect := context.WithCancel(connected)
		s.ctx = ctx
		return disconnect
	}
	disconnect := request()
	if _, err := s.create(nodePort("b", otherPort, otherAddress), func(context.Context, runtime.Object) error { disconnect(); return nil }); err == nil {
		t.Error("the creation succeeded")
	}
	s.check([]int{port}, address)
	disconnect = request()
	changed.Spec.Ports[0].NodePort = otherPort
	if _, err := s.update(changed, disconnect); err == nil {
		t.Error("the update succeeded")
	}
	s.check([]int{port}, address)
	disconnect = request()
	if err := s.createByUpdate(nodePort("b", otherPort, otherAddress), func(context.Context, runtime.Object) error { disconnect(); return nil }); err == nil {
		t.Error("the creation by an update succeeded")
	}
	s.check([]int{port}, address)
}

// TestStatusEndsDeletion removes the last finalizer of a deleted Service by its status. The values must be free then,
// and not before.
func TestStatusEndsDeletion(t *testing.T) {
	s := newServer(t, nil)
	service := nodePort("a", port, address)
	service.Finalizers = []string{"example.com/wait"}
	s.mustCreate(service)
	s.mustDelete("a")
	s.check([]int{port}, address)
	stored, err := s.Get(s.ctx, "a", &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := stored.(*api.Service).DeepCopy()
	ended.Finalizers = nil
	if _, _, err := s.status.Update(s.ctx, "a", rest.DefaultUpdatedObjectInfo(ended), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.isStored("a", "") {
		t.Fatal("the Service is stored")
	}
	s.check(nil)
}

// TestValueOfAnotherService ends a Service whose port another Service has got, as a stock server releases it before an
// update that fails. The port must stay allocated.
func TestValueOfAnotherService(t *testing.T) {
	for name, end := range map[string]func(s *server, service *api.Service) error{
		"deleted": func(s *server, service *api.Service) error { s.mustDelete(service.Name); return nil },
		"updated": func(s *server, service *api.Service) error {
			service.Spec.Ports[0].NodePort = otherPort
			_, err := s.update(service, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			first := s.mustCreate(nodePort("first", port, address))
			if err := s.ports.Release(port); err != nil {
				t.Fatal(err)
			}
			s.mustCreate(nodePort("second", port, otherAddress))
			if err := end(s, first); err != nil {
				t.Fatal(err)
			}
			if !s.ports.Has(port) {
				t.Error("the port of the second Service is free")
			}
		})
	}
}

// TestExternalNameWithNodePort deletes an ExternalName Service with the node port of another Service, which was never
// allocated for it.
func TestExternalNameWithNodePort(t *testing.T) {
	s := newServer(t, nil)
	s.mustCreate(nodePort("owner", port, address))
	s.mustCreate(svctest.MakeService("external", svctest.SetTypeExternalName, svctest.SetExternalName("example.com"), svctest.SetNodePorts(port)))
	s.mustDelete("external")
	s.check([]int{port}, address)
	changed := s.mustCreate(svctest.MakeService("external", svctest.SetTypeExternalName, svctest.SetExternalName("example.com"), svctest.SetNodePorts(port)))
	changed.Spec.Type, changed.Spec.ExternalName = api.ServiceTypeNodePort, ""
	if _, err := s.update(changed, nil); err == nil {
		t.Error("a Service got the port of another Service")
	}
	s.check([]int{port}, address)
}

// TestSecondFamilyRefused creates Services whose second address is in use. The first address must be free again.
func TestSecondFamilyRefused(t *testing.T) {
	s := newServer(t, nil)
	dualStack := func(name string, first net.IP) *api.Service {
		return svctest.MakeService(name, svctest.SetIPFamilyPolicy(api.IPFamilyPolicyRequireDualStack), svctest.SetClusterIPs(first.String(), "fd00::7"))
	}
	s.mustCreate(dualStack("a", address))
	for range 20 { // the released code allocates the families in random order
		if _, err := s.create(dualStack("b", otherAddress), nil); !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
	}
	s.check(nil, address)
}
