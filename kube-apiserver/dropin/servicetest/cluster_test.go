// Package servicetest tests the storage of Services inside a kube-apiserver, with a real etcd and the ranges in it.
package servicetest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	svctest "k8s.io/kubernetes/pkg/api/service/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"
	"k8s.io/kubernetes/pkg/registry/registrytest"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// cluster is the storage of Services of one API server. Its ranges and its Services are in etcd, behind a proxy.
type cluster struct {
	*servicestorage.REST
	status    *servicestorage.StatusREST
	etcd      *clientv3.Client // past the proxy
	proxy     *proxy
	ports     *portallocator.PortAllocator
	addresses ipallocator.Interface
	// registry is that of the ports.
	registry *allocatorstorage.Etcd
	config   *storagebackend.ConfigForResource
}

// start starts a cluster. addresses is nil for a stored range of them.
func start(t *testing.T, addresses ipallocator.Interface) *cluster {
	t.Helper()
	config, server := registrytest.NewEtcdStorage(t, "")
	t.Cleanup(func() { server.Terminate(t) })
	direct := must(clientv3.New(clientv3.Config{Endpoints: config.Transport.ServerList}))
	t.Cleanup(func() { direct.Close() })
	c := &cluster{etcd: direct, proxy: startProxy(t, config.Transport.ServerList[0])}
	config.Transport.ServerList = []string{c.proxy.url}
	c.config = config
	ranges := config.ForResource(api.Resource("serviceipallocations"))
	open := func(key string) allocator.AllocatorWithOffsetFactory {
		return func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
			etcd, err := allocatorstorage.NewEtcd(allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), key, ranges)
			if err == nil {
				// If it stayed open, it could notice the end of its connection in the next test, and connect to what
				// listens at the proxy's address by then; both change allocatorstorage.Connections.
				t.Cleanup(etcd.Destroy)
				err = etcd.CreateOrUpdate(&api.RangeAllocation{Range: rangeSpec})
			}
			c.registry = etcd
			return etcd, err
		}
	}
	if c.addresses = addresses; addresses == nil {
		_, cidr, _ := net.ParseCIDR("10.0.0.0/24")
		c.addresses = must(ipallocator.New(cidr, open("/ranges/serviceips")))
	}
	c.ports = must(portallocator.New(*utilnet.ParsePortRangeOrDie("30000-30099"), open("/ranges/servicenodeports")))
	c.REST, c.status = c.open(t, generic.UndecoratedStorage)
	// As a server's watch cache does, it connects to etcd before the first request.
	must(c.List(request(t), nil))
	return c
}

// open opens the storage of Services with a cache, or without.
func (c *cluster) open(t *testing.T, decorator generic.StorageDecorator) (*servicestorage.REST, *servicestorage.StatusREST) {
	config := *c.config
	config.EventsHistoryWindow = storagebackend.DefaultEventsHistoryWindow
	options := optionsGetter{&config, decorator}
	families := map[api.IPFamily]ipallocator.Interface{api.IPv4Protocol: c.addresses}
	services, status, _, err := servicestorage.NewREST(options, api.IPv4Protocol, families, c.ports, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(services.Destroy)
	return services, status
}

// optionsGetter returns the options of all resources, with the prefixes of a kube-apiserver.
type optionsGetter struct {
	config    *storagebackend.ConfigForResource
	decorator generic.StorageDecorator
}

func (o optionsGetter) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	prefix := resource.Resource
	if prefix == "services" {
		prefix = "services/specs"
	}
	return generic.RESTOptions{StorageConfig: o.config.ForResource(resource), Decorator: o.decorator, ResourcePrefix: prefix}, nil
}

func request(t *testing.T) context.Context {
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, APIVersion: "v1", Resource: "services", Namespace: metav1.NamespaceDefault}
	return genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(t.Context(), metav1.NamespaceDefault), info)
}

// nodePort returns a Service that needs a ClusterIP and a node port.
func nodePort(name string) *api.Service {
	return svctest.MakeService(name, svctest.SetTypeNodePort)
}

// create creates a Service. before is called when its values are allocated and it is not written yet.
func (c *cluster) create(ctx context.Context, service *api.Service, before func(*api.Service)) (*api.Service, error) {
	validate := rest.ValidateObjectFunc(func(_ context.Context, object runtime.Object) error {
		if before != nil {
			before(object.(*api.Service))
		}
		return nil
	})
	created, err := c.Create(ctx, service, validate, &metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return created.(*api.Service), nil
}

// update updates a Service. before is called when its new values are allocated and it is not written yet.
func (c *cluster) update(ctx context.Context, service *api.Service, before func(*api.Service)) (*api.Service, error) {
	validate := rest.ValidateObjectUpdateFunc(func(_ context.Context, object, _ runtime.Object) error {
		if before != nil {
			before(object.(*api.Service))
		}
		return nil
	})
	updated, _, err := c.Update(ctx, service.Name, rest.DefaultUpdatedObjectInfo(service), rest.ValidateAllObjectFunc, validate, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return updated.(*api.Service), nil
}

// reconnect cuts all connections, and has the storages make others: until each has created a Service while no
// connection was lost or made. Before that a request may be refused, as each client may notice late that its connection
// is closed.
func (c *cluster) reconnect(t *testing.T, of ...*servicestorage.REST) {
	t.Helper()
	c.proxy.cut()
	var failure error
	for range 2 * maxConnections {
		before := allocatorstorage.Connections()
		failure = nil
		for _, services := range of {
			service := svctest.MakeService("", svctest.SetTypeNodePort)
			service.GenerateName = "reconnect-"
			if _, err := services.Create(request(t), service, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
				checkReconnected(t, err)
				failure = err
			}
		}
		if failure == nil && allocatorstorage.Connections() == before {
			return
		}
	}
	t.Fatal("the connections are still changing; the last failure:", failure)
}

// restored starts another etcd, with the keys below a prefix. It returns its URL, and the revision that the first one
// had reached.
func (c *cluster) restored(t *testing.T, prefix string) (etcd *clientv3.Client, url string, reached int64) {
	t.Helper()
	config, server := registrytest.NewEtcdStorage(t, "")
	t.Cleanup(func() { server.Terminate(t) })
	etcd = must(clientv3.New(clientv3.Config{Endpoints: config.Transport.ServerList}))
	t.Cleanup(func() { etcd.Close() })
	stored := must(c.etcd.Get(t.Context(), prefix, clientv3.WithPrefix()))
	for _, of := range stored.Kvs {
		must(etcd.Put(t.Context(), string(of.Key), string(of.Value)))
	}
	return etcd, config.Transport.ServerList[0], stored.Header.Revision
}

// key returns the key of a Service of the default namespace.
func key(name string) string { return "/registry/services/specs/default/" + name }

// stored returns the revision of a key; 0 if it does not exist.
func (c *cluster) stored(t *testing.T, key string) int64 {
	t.Helper()
	answer, err := c.etcd.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return 0
	}
	return answer.Kvs[0].ModRevision
}

// proxy forwards connections to etcd.
type proxy struct {
	url string

	listener net.Listener
	mu       sync.Mutex
	to       *url.URL
	open     []net.Conn
	// on is called before a transaction with this text is forwarded, once.
	text string
	on   func()
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	p := &proxy{url: "http://" + listener.Addr().String(), listener: listener, to: must(url.Parse(to))}
	t.Cleanup(p.close)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := p.dial()
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, from, to)
			p.mu.Unlock()
			go func() {
				defer to.Close()
				p.forward(to, from)
			}()
			go func() {
				defer from.Close()
				io.Copy(from, to)
			}()
		}
	}()
	return p
}

func (p *proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to.Scheme == "unix" {
		return net.Dial("unix", p.to.Host+p.to.Path)
	}
	return net.Dial("tcp", p.to.Host)
}

// made returns how many connections were made through the proxy.
func (p *proxy) made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) / 2
}

// turn cuts all connections, and forwards the next ones to another etcd.
func (p *proxy) turn(to string) {
	p.mu.Lock()
	p.to = must(url.Parse(to))
	p.mu.Unlock()
	p.cut()
}

// close cuts all connections, and accepts no other.
func (p *proxy) close() {
	p.listener.Close()
	p.cut()
}

// cut cuts all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.open {
		one.Close()
	}
}

func (p *proxy) forward(to io.Writer, from io.Reader) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		on := p.on
		if on != nil && bytes.Contains(buffer[:n], []byte(p.text)) {
			p.on = nil
		} else {
			on = nil
		}
		p.mu.Unlock()
		if on != nil {
			on()
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// before has the proxy call on before it forwards the next request with a text, once.
func (p *proxy) before(text string, on func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.on = text, on
}

func revisionText(revision int64) string { return strconv.FormatInt(revision, 10) }
