package bootstrap

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	netutils "k8s.io/utils/net"
)

// Addresses of servers. Most situations start only the first one.
const a, b, c, d = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"

// start starts a server, run makes it sync once, stop stops it gracefully, and kill does not.
func start(address string) step {
	return func(p *play) {
		c := p.config
		c.address = address
		p.servers[address] = p.newServer(p.t, p.world, c)
		p.servers[address].start()
	}
}

func run(address string) step  { return func(p *play) { p.servers[address].run() } }
func stop(address string) step { return func(p *play) { p.servers[address].stop() } }
func kill(address string) step { return func(p *play) { p.servers[address].kill() } }

// expire makes the lease of an address expire.
func expire(address string) step { return func(p *play) { p.world.expire(p.t, address) } }

// overwrite replaces the value of an address's lease.
func overwrite(address string, value []byte) step {
	return func(p *play) { p.world.put(p.t, lease{address, value}) }
}

// remove deletes objects.
func remove(objects ...runtime.Object) step {
	return func(p *play) {
		for _, object := range objects {
			p.world.remove(p.t, object)
		}
	}
}

// damage replaces objects.
func damage(objects ...runtime.Object) step {
	return func(p *play) {
		for _, object := range objects {
			p.world.remove(p.t, object)
			p.world.seed(p.t, object)
		}
	}
}

// starts are a server's start and first sync.
var starts = []step{start(a), run(a)}

func then(steps ...step) []step { return append(append([]step{}, starts...), steps...) }

// leaseOf returns the value that a kube-apiserver writes for a lease.
func leaseOf(address string) []byte {
	object := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
	if address != "" {
		object.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: address}}}}
	}
	return encoded(object)
}

func encoded(object *corev1.Endpoints) []byte {
	info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	value, err := runtime.Encode(legacyscheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), object)
	if err != nil {
		panic(err)
	}
	return value
}

func leases(addresses ...string) []lease {
	var all []lease
	for _, address := range addresses {
		all = append(all, lease{address, leaseOf(address)})
	}
	return all
}

// endpoints returns correct Endpoints.
func endpoints(addresses ...string) *corev1.Endpoints {
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "kubernetes", Labels: map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"},
	}}
	if len(addresses) > 0 {
		e.Subsets = []corev1.EndpointSubset{{Addresses: listed(addresses...), Ports: []corev1.EndpointPort{port("https", 6443)}}}
	}
	return e
}

func listed(addresses ...string) []corev1.EndpointAddress {
	var all []corev1.EndpointAddress
	for _, address := range addresses {
		all = append(all, corev1.EndpointAddress{IP: address})
	}
	return all
}

func port(name string, number int32) corev1.EndpointPort {
	return corev1.EndpointPort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
}

// slice returns a correct EndpointSlice. Its family is IPv6 if one of the addresses is.
func slice(addresses ...string) *discoveryv1.EndpointSlice {
	ready, name, number, protocol := true, "https", int32(6443), corev1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{"kubernetes.io/service-name": "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
	}
	for _, address := range addresses {
		if netutils.IsIPv6String(address) {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s
}

// both returns correct Endpoints and their slice.
func both(addresses ...string) []runtime.Object {
	return []runtime.Object{endpoints(addresses...), slice(addresses...)}
}

// with changes an object.
func with[T any](object T, change func(T)) T {
	change(object)
	return object
}

// service returns the stored Service that a kube-apiserver creates.
func service() *corev1.Service {
	policy := corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{"provider": "kubernetes", "component": "apiserver"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &policy,
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(6443)}},
		},
	}
}

const (
	six    = "2001:db8::1"
	sixToo = "2001:db8::2"
	// sixRange is the range of a server at six: kube-apiserver refuses a range of the other family.
	sixRange = "fd00:10::/108"
	// dead is the address of a server that is gone.
	dead = "192.0.2.99"
)

var foreign = map[string]string{"example.com/team": "net"}

// foreignTo adds a label and an annotation of another client.
func foreignTo[T metav1.Object](object T) T {
	labels := object.GetLabels()
	labels["example.com/team"] = "net"
	object.SetLabels(labels)
	object.SetAnnotations(foreign)
	return object
}

func withPorts(e *corev1.Endpoints, ports ...corev1.EndpointPort) *corev1.Endpoints {
	e.Subsets[0].Ports = ports
	return e
}

func withNotReady(e *corev1.Endpoints, addresses ...string) *corev1.Endpoints {
	e.Subsets[0].NotReadyAddresses = listed(addresses...)
	return e
}

// extra and extraService are another port of every server.
var (
	extra        = []corev1.EndpointPort{port("konnectivity", 8132)}
	extraService = []corev1.ServicePort{{Name: "konnectivity", Protocol: corev1.ProtocolTCP, Port: 8132, TargetPort: intstr.FromInt32(8132)}}
)

func withServicePort(change func(*corev1.ServicePort)) *corev1.Service {
	return with(service(), func(s *corev1.Service) { change(&s.Spec.Ports[0]) })
}

// atNodePort returns the Service with a NodePort.
func atNodePort(number int32) *corev1.Service {
	return with(withServicePort(func(p *corev1.ServicePort) { p.NodePort = number }), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func objects(all ...runtime.Object) []runtime.Object { return all }

var situations = slices.Concat(inLeaseMode, withWrongLeases, inMasterCountMode, inNoneMode, ofServiceAndNamespaces)

var inLeaseMode = []situation{
	{name: "nothing is there", steps: starts, ready: []string{a}},
	{name: "several turns", steps: then(run(a), run(a)), ready: []string{a}},
	{name: "all is right", objects: append(both(a), service()), leases: leases(a), steps: starts, ready: []string{a}},
	{name: "start beside others after a crash", objects: both(a, b), leases: leases(a, b), steps: starts, ready: []string{a, b}},
	{name: "start after the own lease ran out", objects: both(a, b), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "start of the only server after a crash", objects: both(a), leases: leases(a), steps: []step{start(a)}, ready: []string{a}},
	{name: "an address without a lease", objects: both(a, b, dead), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "leases without addresses", objects: both(b), leases: leases(b, c), steps: starts, ready: []string{a, b, c}},
	{name: "the own lease runs out between turns", leases: leases(b), steps: then(expire(a), run(a)),
		ready: []string{a, b}, differs: []*difference{generationGoesOn}},
	{name: "another lease runs out between turns", leases: leases(b), steps: then(expire(b), run(a)), ready: []string{a}},
	{name: "stop of one", leases: leases(b), steps: then(stop(a)), ready: []string{b}},
	{name: "stop of the last", steps: then(stop(a))},
	{name: "stop without Endpoints", leases: leases(b), steps: then(remove(both()...), stop(a))},
	{name: "the own address is not ready before the stop", leases: leases(b),
		steps: then(damage(withNotReady(endpoints(b), a), slice(b)), stop(a)), ready: []string{b}, differs: []*difference{notReadyWins}},
	{name: "start without Endpoints", leases: leases(a, b), steps: starts, ready: []string{a, b}},
	{name: "stop before the first turn", objects: both(b), leases: leases(b), steps: []step{start(a), stop(a)}, ready: []string{b}},
	{name: "stop before the first turn beside wrong Endpoints", objects: objects(endpoints(), slice(dead)), leases: leases(b),
		steps: []step{start(a), stop(a)}, ready: []string{b}, theirs: []string{}, differs: []*difference{stopWithoutLease}},
	{name: "stop after the own lease ran out", leases: leases(b), steps: then(expire(a), stop(a)),
		ready: []string{b}, theirs: []string{a, b}, differs: []*difference{stopWithoutLease}},
	{name: "three servers come and go", steps: []step{
		start(a), run(a), start(b), run(b), start(c), run(c), run(a), kill(b), run(a), expire(b), run(c), stop(a), start(b), run(b), stop(c), stop(b),
	}},
	{name: "killed and started again", leases: leases(b), steps: then(kill(a), start(a), run(a)), ready: []string{a, b}},

	{name: "no Endpoints but a slice", objects: objects(slice(a, dead)), steps: starts, ready: []string{a}},
	{name: "Endpoints but no slice", objects: objects(endpoints(a)), steps: starts, ready: []string{a}},
	{name: "wrong Endpoints and no slice", objects: objects(endpoints(dead)), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "foreign labels of Endpoints", objects: objects(foreignTo(endpoints(dead)), slice(dead)), steps: starts, ready: []string{a}},
	{name: "foreign labels of a slice that is right", objects: objects(endpoints(a), foreignTo(slice(a))), steps: starts,
		ready: []string{a}, differs: []*difference{foreignMetadata}},
	{name: "foreign labels of a slice that is wrong", objects: objects(endpoints(a), foreignTo(slice(dead))), steps: starts,
		ready: []string{a}, differs: []*difference{foreignMetadata}},
	{name: "foreign labels of a slice of another family", objects: objects(endpoints(a), foreignTo(slice(six))), steps: starts,
		ready: []string{a}, differs: []*difference{foreignMetadata}},
	{name: "foreign annotations of a slice that is right",
		objects: objects(endpoints(a), with(slice(a), func(s *discoveryv1.EndpointSlice) { s.Annotations = foreign })), steps: starts, ready: []string{a}},
	{name: "mirroring is not forbidden", objects: objects(with(endpoints(a), func(e *corev1.Endpoints) { e.Labels = nil }), slice(a)),
		steps: starts, ready: []string{a}},
	{name: "mirroring is allowed",
		objects: objects(with(endpoints(a), func(e *corev1.Endpoints) { e.Labels["endpointslice.kubernetes.io/skip-mirror"] = "false" }), slice(a)), steps: starts, ready: []string{a}},
	{name: "a slice of another Service",
		objects: objects(endpoints(a), with(slice(a), func(s *discoveryv1.EndpointSlice) { s.Labels["kubernetes.io/service-name"] = "other" })), steps: starts, ready: []string{a}},
	{name: "a slice without labels", objects: objects(endpoints(a), with(slice(a), func(s *discoveryv1.EndpointSlice) { s.Labels = nil })),
		steps: starts, ready: []string{a}},
	{name: "a slice of another family", objects: objects(endpoints(a), slice(six)), steps: starts, ready: []string{a}},
	{name: "a slice of names",
		objects: objects(endpoints(a), with(slice("a.example"), func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN })), steps: starts, ready: []string{a}},
	{name: "a slice with other addresses", objects: objects(endpoints(a), slice(b, dead)), steps: starts, ready: []string{a}},
	{name: "a slice whose endpoint is not ready",
		objects: objects(endpoints(a), with(slice(a), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(bool) })), steps: starts, ready: []string{a}},
	{name: "a slice whose endpoint has a zone",
		objects: objects(endpoints(a), with(slice(a), func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Zone = &s.Name })), steps: starts, ready: []string{a}},
	{name: "a slice with an address twice", objects: objects(endpoints(a), slice(a, a)), steps: starts, ready: []string{a}},
	{name: "a slice with other ports",
		objects: objects(endpoints(a), with(slice(a), func(s *discoveryv1.EndpointSlice) { *s.Ports[0].Port = 80 })), steps: starts, ready: []string{a}},

	{name: "several subsets", objects: objects(with(endpoints(a, b), func(e *corev1.Endpoints) {
		e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: listed(c), Ports: []corev1.EndpointPort{port("https", 443)}})
	}), slice(a, b)), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "no subset", objects: both(), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "a subset without addresses",
		objects: objects(with(endpoints(a), func(e *corev1.Endpoints) { e.Subsets[0].Addresses = nil }), slice()), steps: starts, ready: []string{a}},
	{name: "addresses in another order", objects: both(b, a), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "an address twice", objects: objects(endpoints(a, b, b), slice(a, b)), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "addresses in the order of text", leases: leases("192.0.2.10", "192.0.2.9"), steps: starts, ready: []string{a, "192.0.2.10", "192.0.2.9"}},
	{name: "a stranger is not ready", objects: objects(withNotReady(endpoints(a), dead), slice(a)), steps: starts, ready: []string{a}},
	{name: "a stranger is not ready and addresses are wrong", objects: objects(withNotReady(endpoints(c), dead), slice(a)), steps: starts,
		ready: []string{a}},
	{name: "strangers are not ready and addresses are wrong", objects: objects(withNotReady(endpoints(c), dead, d), slice(a)),
		steps: starts, ready: []string{a}, differs: []*difference{order}},
	{name: "a live server is not ready", objects: objects(withNotReady(endpoints(a), b), slice(a)), leases: leases(b), steps: starts,
		ready: []string{a, b}, theirs: []string{a}, differs: []*difference{notReadyWins}},
	{name: "the own address is not ready", objects: objects(withNotReady(endpoints(b), a), slice(b)), leases: leases(b), steps: starts,
		ready: []string{a, b}, theirs: []string{b}, differs: []*difference{notReadyWins}},
	{name: "an address has a node",
		objects: objects(with(endpoints(b), func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].NodeName = &e.Name }), slice(b)), leases: leases(b), steps: starts, ready: []string{a, b}, differs: []*difference{details}},
	{name: "a stranger that is not ready has another family", config: config{serviceRange: sixRange}, objects: objects(withNotReady(endpoints(sixToo), b), slice(b)),
		leases: leases(sixToo), steps: []step{start(six), run(six)}, ready: []string{six, sixToo}, differs: []*difference{familyOfNotReady}},
	{name: "an address that cannot be one", objects: objects(endpoints(a, "127.0.0.1"), slice(a)), steps: starts, ready: []string{a}},
	{name: "a stranger that is not ready cannot be one", objects: objects(withNotReady(endpoints(b), "127.0.0.1"), slice(b)),
		leases: leases(b), steps: starts, ready: []string{a, b}, theirs: []string{b}, differs: []*difference{unusable}},

	{name: "other ports are left", objects: objects(withPorts(endpoints(a), port("https", 443)), slice(a)), steps: starts, ready: []string{a}},
	{name: "other ports are left beside wrong addresses", objects: objects(withPorts(endpoints(dead), port("https", 443)), slice(a)),
		leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "other ports are reset", config: config{reconcile: true}, objects: objects(withPorts(endpoints(a), port("https", 443)), slice(a)),
		steps: starts, ready: []string{a}},
	{name: "other ports when a server stops", objects: objects(withPorts(endpoints(a, b), port("https", 443)), slice(a, b)),
		leases: leases(b), steps: then(stop(a)), ready: []string{b}, differs: []*difference{portsOfOthers}},
	{name: "other ports when a server starts", objects: objects(withPorts(endpoints(a, b), port("https", 443)), slice(a, b)),
		leases: leases(a, b), steps: []step{start(a)}, ready: []string{b}, differs: []*difference{portsOfOthers}},
	{name: "ports of another name and protocol", config: config{reconcile: true},
		objects: objects(withPorts(endpoints(a), corev1.EndpointPort{Name: "api", Port: 6443, Protocol: corev1.ProtocolUDP}), slice(a)), steps: starts, ready: []string{a}},
	{name: "one port too many", config: config{reconcile: true},
		objects: objects(withPorts(endpoints(a), port("https", 6443), port("api", 443)), slice(a)), steps: starts, ready: []string{a}},
	{name: "a port with an application protocol",
		objects: objects(with(endpoints(a), func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].AppProtocol = &e.Name }), slice(a)), steps: starts, ready: []string{a}},
	{name: "Endpoints are removed between turns", leases: leases(b), steps: then(remove(endpoints()), run(a)), ready: []string{a, b}},
	{name: "the slice is removed between turns", leases: leases(b), steps: then(remove(slice()), run(a)), ready: []string{a, b}},
	{name: "Endpoints are damaged between turns", leases: leases(b), steps: then(damage(endpoints(b, dead), slice(dead)), run(a)),
		ready: []string{a, b}},
	{name: "Endpoints are damaged before the stop", leases: leases(b), steps: then(damage(endpoints(a, dead), slice(dead)), stop(a)),
		ready: []string{b}},
	{name: "no ports", objects: objects(withPorts(endpoints(a)), slice(a)), steps: starts, ready: []string{a}},
	{name: "two ports beside wrong addresses", objects: objects(withPorts(endpoints(dead), port("https", 6443), port("z", 1)), slice(dead)),
		steps: starts, ready: []string{a}, differs: []*difference{order}},
	{name: "two ports beside other ports", config: config{reconcile: true, endpointPorts: extra, servicePorts: extraService},
		objects: objects(withPorts(endpoints(a, b), port("api", 6443), port("z", 1)), slice(a)), leases: leases(b), steps: starts, ready: []string{a, b}},
	{name: "no ports and wrong addresses", objects: objects(withPorts(endpoints(dead)), slice(a)), steps: starts, ready: []string{a}},
	{name: "ports that are refused", objects: objects(withPorts(endpoints(a), port("https", 0)), slice(dead)), steps: starts,
		ready: []string{a}, differs: []*difference{refusedPorts}},
	{name: "ports that are refused and wrong addresses",
		objects: objects(withPorts(endpoints(dead), port("https", 6443), port("", 443)), slice(dead)), steps: starts, ready: []string{a}, theirs: []string{dead}, differs: []*difference{refusedPorts}},
	{name: "extra ports", config: config{servicePorts: extraService, endpointPorts: extra}, steps: starts, ready: []string{a}},
	{name: "extra ports are left out", config: config{servicePorts: extraService, endpointPorts: extra}, objects: both(a), steps: starts,
		ready: []string{a}},
	{name: "extra ports are reconciled", config: config{reconcile: true, servicePorts: extraService, endpointPorts: extra},
		objects: append(both(a), service()), steps: starts, ready: []string{a}},

	{name: "IPv6", config: config{serviceRange: sixRange}, leases: leases(sixToo), steps: []step{start(six), run(six)},
		ready: []string{six, sixToo}},
	{name: "IPv6 comes to an IPv4 slice", config: config{serviceRange: sixRange}, objects: both(dead), leases: leases(sixToo), steps: []step{start(six), run(six)},
		ready: []string{six, sixToo}},
	{name: "both families", leases: leases(six, b), steps: starts, ready: []string{a, b, six}},
	{name: "both families on an IPv6 server", config: config{serviceRange: sixRange}, objects: both(six), leases: leases(b), steps: []step{start(six), run(six)}, ready: []string{b, six}},
	{name: "the last IPv4 server of both families stops", leases: leases(six), steps: then(stop(a)), ready: []string{six}},
	{name: "an IPv6 address is written at length", config: config{serviceRange: sixRange}, objects: both("2001:db8:0:0::1"), steps: []step{start(six), run(six)}, ready: []string{six}},
}

var withWrongLeases = []situation{
	{name: "a lease has no value that can be read", objects: both(b, dead), leases: append(leases(c), lease{b, []byte("garbage")}),
		steps: starts, ready: []string{a, b, c}, theirs: []string{b, dead}, differs: []*difference{unreadableLease}},
	{name: "a lease of a server that is not listed cannot be read", objects: both(c),
		leases: append(leases(c), lease{b, []byte("k8s\x00garbage")}), steps: starts, ready: []string{a, c}, theirs: []string{c}, differs: []*difference{unreadableLease}},
	{name: "the own lease cannot be read", objects: both(b), leases: append(leases(b), lease{a, []byte("garbage")}), steps: starts,
		ready: []string{a, b}, theirs: []string{b}, differs: []*difference{unreadableLease}},
	{name: "a lease has no address", objects: both(b), leases: []lease{{b, leaseOf("")}}, steps: starts,
		ready: []string{a, b}, theirs: []string{a}, differs: []*difference{doubtfulLease}},
	{name: "a lease has an address that cannot be one", objects: both(b), leases: append(leases(b), lease{"127.0.0.1", leaseOf("127.0.0.1")}),
		steps: starts, ready: []string{a, b}, theirs: []string{b}, differs: []*difference{unusable}},
	{name: "a lease has another address than its key", objects: both(b), leases: []lease{{b, leaseOf(c)}}, steps: starts,
		ready: []string{a, b, c}, theirs: []string{a, c}, differs: []*difference{doubtfulLease}},
	{name: "a lease has another address than its key, which is not listed", leases: []lease{{b, leaseOf(c)}}, steps: starts, ready: []string{a, c}},
	{name: "two leases have the same address", leases: []lease{{b, leaseOf(b)}, {c, leaseOf(b)}}, steps: starts, ready: []string{a, b}},
	{name: "the own lease has another address", steps: then(overwrite(a, leaseOf(b)), run(a)), ready: []string{a}},
	{name: "the own lease has more in it",
		steps: then(overwrite(a, encoded(with(endpoints(a), func(e *corev1.Endpoints) { e.Annotations, e.Generation = foreign, 7 }))), run(a)), ready: []string{a}, differs: []*difference{ownLease}},
	{name: "the own lease is another one at the start", leases: []lease{{a, leaseOf(b)}}, objects: both(a, b), steps: starts, ready: []string{a}},
	{name: "the own lease is written by another server", leases: leases(b), steps: then(overwrite(a, leaseOf(a)), stop(a)),
		ready: []string{a, b}, theirs: []string{b}, differs: []*difference{sharedLease}},
	{name: "an address is written in another way", config: config{serviceRange: sixRange}, leases: []lease{{sixToo, leaseOf("2001:DB8:0::2")}}, steps: []step{start(six), run(six)},
		ready: []string{six, sixToo}, theirs: []string{six, "2001:DB8:0::2"}, differs: []*difference{spelling}},
	{name: "a lease in JSON",
		leases: []lease{{b, []byte(`{"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":3},"subsets":[{"addresses":[{"ip":"192.0.2.2"}]}]}`)}}, steps: starts, ready: []string{a, b}},
}

var inMasterCountMode = []situation{
	{name: "one of one", config: config{count: 1}, steps: starts, ready: []string{a}},
	{name: "one of one again", config: config{count: 1}, objects: both(a), steps: starts, ready: []string{a}, differs: []*difference{eraseAtStart}},
	{name: "fewer than the count", config: config{count: 3}, objects: both(b), steps: starts, ready: []string{a, b}},
	{name: "as many as the count", config: config{count: 3}, objects: both(b, c), steps: starts, ready: []string{a, b, c}},
	{name: "own listed with the count", config: config{count: 3}, objects: both(a, b, c), steps: starts, ready: []string{a, b, c}},
	{name: "one more than the count", config: config{count: 2}, objects: both(b, c), steps: starts, ready: []string{a, c}},
	{name: "many more than the count", config: config{count: 2}, objects: both(b, c, d, dead), steps: starts, ready: []string{a, dead}},
	{name: "more than the count, own in the middle", config: config{count: 2}, objects: both(a, c, d), steps: []step{start(b), run(b)},
		ready: []string{b, a}},
	{name: "more than the count, own at the end", config: config{count: 2}, objects: both(a, b, c), steps: []step{start(d), run(d)},
		ready: []string{d, c}, theirs: []string{b, d}, differs: []*difference{staleIndex}},
	{name: "more than one, own at the end", config: config{count: 1}, objects: both(a, b), steps: []step{start(c), run(c)},
		ready: []string{c}, theirs: []string{b}, differs: []*difference{staleIndex}},
	{name: "the surplus appears later", config: config{count: 2}, steps: then(damage(both(a, b, c, d)...), run(a)), ready: []string{a, d}},
	{name: "addresses in another order at a start by count", config: config{count: 3}, objects: both(c, b),
		steps: starts, ready: []string{a, b, c}, differs: []*difference{order}},
	{name: "stop without a subset by count", config: config{count: 3},
		steps: then(damage(endpoints(), slice(dead)), stop(a)), differs: []*difference{sliceOfNothing}},
	{name: "addresses in another order by count", config: config{count: 3}, steps: then(damage(both(c, a, b)...), run(a)), ready: []string{a, b, c}},
	{name: "an address twice by count", config: config{count: 3}, steps: then(damage(endpoints(a, b, b), slice(a, b)), run(a)),
		ready: []string{a, b}, theirs: []string{a, b, b}, differs: []*difference{twiceByCount}},
	{name: "several subsets before a stop by count", config: config{count: 3}, steps: then(damage(with(endpoints(b), func(e *corev1.Endpoints) {
		e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: listed(a, c), Ports: []corev1.EndpointPort{port("https", 443)}})
	}), slice(b)), stop(a)), ready: []string{b, c}, theirs: []string{a, b, c}, differs: []*difference{subsetsByCount}},
	{name: "Endpoints are removed between turns by count", config: config{count: 3}, steps: then(remove(endpoints()), run(a)), ready: []string{a}},
	{name: "stop without Endpoints by count", config: config{count: 3}, steps: then(remove(both()...), stop(a))},
	{name: "an address twice beside too few by count", config: config{count: 2}, objects: objects(endpoints(b, b), slice(b)), steps: starts,
		ready: []string{a, b}},
	{name: "a surplus that is not ready by count", config: config{count: 2},
		steps: then(damage(withNotReady(endpoints(a, b), c), slice(a, b)), run(a)), ready: []string{a, b}},
	{name: "more than the count in a later turn", config: config{count: 2}, objects: both(b), steps: append(then(), start(c), run(c), run(a)),
		ready: []string{a, c}},
	{name: "stop of one by count", config: config{count: 2}, objects: both(b), steps: then(stop(a)), ready: []string{b}},
	{name: "stop of the last by count", config: config{count: 2}, steps: then(stop(a))},
	{name: "a killed server stays", config: config{count: 3},
		steps: []step{start(a), run(a), start(b), run(b), kill(b), run(a), start(c), run(c)}, ready: []string{a, b, c}},
	{name: "missing Endpoints by count", config: config{count: 2}, objects: objects(slice(dead)), steps: starts, ready: []string{a}},
	{name: "no subset by count", config: config{count: 2}, objects: both(), steps: starts, ready: []string{a}},
	{name: "several subsets by count", config: config{count: 3}, objects: objects(with(endpoints(a, b), func(e *corev1.Endpoints) {
		e.Subsets = append(e.Subsets, corev1.EndpointSubset{Addresses: listed(c), Ports: []corev1.EndpointPort{port("https", 443)}})
	}), slice(a, b)), steps: starts, ready: []string{a, b, c}, theirs: []string{a}, differs: []*difference{subsetsByCount}},
	{name: "other ports by count", config: config{count: 2}, objects: objects(withPorts(endpoints(b), port("https", 443)), slice(b)),
		steps: then(stop(a)), ready: []string{b}},
	{name: "other ports by count are reset", config: config{count: 2, reconcile: true},
		objects: objects(withPorts(endpoints(b), port("https", 443)), slice(b)), steps: starts, ready: []string{a, b}},
	{name: "mirroring is not forbidden by count", config: config{count: 2},
		objects: objects(with(endpoints(a, b), func(e *corev1.Endpoints) { e.Labels = nil }), slice(a, b)), steps: starts, ready: []string{a, b}, differs: []*difference{labelAtStart}},
	{name: "the own address is not ready by count", config: config{count: 2}, objects: objects(withNotReady(endpoints(b), a), slice(b)),
		steps: starts, ready: []string{a, b}, theirs: []string{b}, differs: []*difference{notReadyWins}},
	{name: "an address has a node by count", config: config{count: 2},
		objects: objects(with(endpoints(b), func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].NodeName = &e.Name }), slice(b)), steps: starts, ready: []string{a, b}},
	{name: "an address that cannot be one by count", config: config{count: 3}, objects: objects(endpoints(b, "127.0.0.1"), slice(b)),
		steps: starts, ready: []string{a, b}, theirs: []string{b, "127.0.0.1"}, differs: []*difference{unusable}},
	{name: "both families by count", config: config{count: 3}, objects: objects(endpoints(b, six), slice(b)), steps: starts, ready: []string{a, b, six}},
	{name: "an IPv6 address is written at length by count", config: config{serviceRange: sixRange, count: 2}, objects: both("2001:db8:0:0::1"),
		steps: []step{start(six), run(six)}, ready: []string{six}, theirs: []string{six, "2001:db8:0:0::1"}, differs: []*difference{spelling}},
	{name: "foreign labels of a slice by count", config: config{count: 2}, objects: objects(endpoints(b), foreignTo(slice(b))), steps: starts,
		ready: []string{a, b}, differs: []*difference{foreignMetadata}},
}

var inNoneMode = []situation{
	{name: "none", config: config{none: true}, steps: then(stop(a))},
	{name: "none with wrong Endpoints", config: config{none: true}, objects: both(a, dead), leases: leases(a), steps: then(run(a), stop(a)),
		ready: []string{a, dead}},
}

var ofServiceAndNamespaces = []situation{
	{name: "a node port", config: config{nodePort: 30443}, steps: then(run(a)), ready: []string{a}},
	{name: "a node port that is left out", config: config{nodePort: 30443}, objects: objects(service()), steps: starts, ready: []string{a}},
	{name: "a node port is reconciled", config: config{nodePort: 30443, reconcile: true}, objects: objects(service()), steps: starts,
		ready: []string{a}},
	{name: "another node port is reconciled", config: config{nodePort: 30443, reconcile: true}, objects: objects(atNodePort(30444)),
		steps: starts, ready: []string{a}},
	{name: "a NodePort Service is left", objects: objects(atNodePort(30444)), steps: starts, ready: []string{a}},
	{name: "a NodePort Service is reconciled", config: config{reconcile: true}, objects: objects(atNodePort(30444)), steps: starts, ready: []string{a}},
	{name: "a node port outside of the range", config: config{nodePort: 20000}, steps: starts,
		ready: []string{a}, theirs: []string{}, differs: []*difference{afterService}},
	{name: "a node port outside of the range is reconciled", config: config{nodePort: 20000, reconcile: true}, objects: objects(service()),
		steps: starts, ready: []string{a}, theirs: []string{}, differs: []*difference{afterService}},
	{name: "an extra port beside a node port", config: config{nodePort: 30443, reconcile: true, servicePorts: extraService}, objects: objects(with(atNodePort(30443), func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, extraService[0])
		s.Spec.Ports[1].NodePort = 30132
	})), steps: starts, ready: []string{a}},
	{name: "an extra port beside a node port that is wrong", config: config{nodePort: 30443, reconcile: true, servicePorts: extraService}, objects: objects(with(atNodePort(30444), func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, extraService[0])
		s.Spec.Ports[1].NodePort = 30132
	})), steps: starts, ready: []string{a}},
	{name: "a Service that is right is reconciled", config: config{reconcile: true}, objects: objects(foreignTo(service())), steps: starts,
		ready: []string{a}},
	{name: "Service ports are left", objects: objects(withServicePort(func(p *corev1.ServicePort) { p.Port = 8443 })), steps: starts,
		ready: []string{a}},
	{name: "Service ports are reconciled", config: config{reconcile: true},
		objects: objects(withServicePort(func(p *corev1.ServicePort) { p.Port = 8443 })), steps: starts, ready: []string{a}},
	{name: "a Service port's target is reconciled", config: config{reconcile: true},
		objects: objects(foreignTo(withServicePort(func(p *corev1.ServicePort) { p.TargetPort = intstr.FromString("https") }))), steps: starts, ready: []string{a}},
	{name: "a Service port's application protocol is reconciled", config: config{reconcile: true},
		objects: objects(withServicePort(func(p *corev1.ServicePort) { p.AppProtocol = &p.Name })), steps: starts, ready: []string{a}},
	{name: "a Service with one port too many is reconciled", config: config{reconcile: true},
		objects: objects(with(service(), func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, extraService[0]) })), steps: starts, ready: []string{a}},
	{name: "the rest of a Service is left", config: config{reconcile: true}, objects: objects(with(service(), func(s *corev1.Service) {
		s.Labels, s.Spec.Selector, s.Spec.SessionAffinity = nil, map[string]string{"app": "api"}, corev1.ServiceAffinityClientIP
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.7", []string{"10.0.0.7"}
	})), steps: starts, ready: []string{a}},
	{name: "a LoadBalancer Service is reconciled", config: config{reconcile: true},
		objects: objects(with(atNodePort(30444), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })), steps: starts, ready: []string{a}},
	{name: "the Service is removed between turns", steps: then(remove(service()), run(a)), ready: []string{a}},
	{name: "a cluster with two ranges", config: config{secondRange: sixRange}, steps: starts, ready: []string{a}},
	{name: "a cluster with two ranges, IPv6 first", config: config{serviceRange: sixRange, secondRange: "10.0.0.0/24"},
		steps: []step{start(six), run(six)}, ready: []string{six}},
	{name: "namespaces are there",
		objects: objects(namespace("default"), with(namespace("kube-system"), func(n *corev1.Namespace) { n.Labels, n.Annotations = foreign, foreign })), steps: starts, ready: []string{a}},
	{name: "more namespaces", config: config{namespaces: []string{"platform", "default"}}, objects: objects(namespace("other")), steps: starts,
		ready: []string{a}},
}
