package servicebatch

import (
	"encoding/binary"
	"iter"

	corev1 "k8s.io/api/core/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// perChunk is how many records lie in one text, a power of two.
const perChunk = 4096

// packed keeps records in order, as bytes: so 1,000,000 objects are few objects of the garbage collector.
type packed struct {
	chunks []chunk
	// open is the chunk that is not full yet.
	open []byte
	ends []uint32
}

type chunk struct {
	text string
	ends []uint32
}

func (p *packed) add(record []byte) {
	p.open = append(p.open, record...)
	if p.ends = append(p.ends, uint32(len(p.open))); len(p.ends) == perChunk {
		p.chunks = append(p.chunks, chunk{string(p.open), p.ends})
		p.open, p.ends = make([]byte, 0, len(p.open)), make([]uint32, 0, perChunk)
	}
}

func (p *packed) len() int { return len(p.chunks)*perChunk + len(p.ends) }

// at returns a record.
func (p *packed) at(i int) string {
	if i/perChunk == len(p.chunks) {
		from, to := bounds(p.ends, i%perChunk)
		return string(p.open[from:to])
	}
	of := &p.chunks[i/perChunk]
	from, to := bounds(of.ends, i%perChunk)
	return of.text[from:to]
}

func bounds(ends []uint32, i int) (from, to uint32) {
	if i > 0 {
		from = ends[i-1]
	}
	return from, ends[i]
}

// Fields are those of a Service that an audit reads, to be put into a [List]. The texts may be in a buffer.
type Fields struct {
	Namespace, Name []byte
	// Created is metadata.creationTimestamp in seconds since 1970, CreateRevision that of the key; 0 if unknown.
	Created, CreateRevision int64
	ClusterIP               []byte
	ClusterIPs              [][]byte
	// Ports are those with a node port.
	Ports               []PortFields
	HealthCheckNodePort int32
	// Type is spec.type.
	Type []byte
	// RequiresDualStack, WithoutNodePorts, LacksNodePort and Local are as in [rangekeeper.ServiceForm].
	RequiresDualStack, WithoutNodePorts, LacksNodePort, Local bool
}

// PortFields are those of one of spec.ports.
type PortFields struct {
	Protocol []byte
	NodePort int32
}

// FieldsOf returns those of an object.
func FieldsOf(s *corev1.Service) *Fields {
	spec := &s.Spec
	f := &Fields{
		Namespace: []byte(s.Namespace), Name: []byte(s.Name), ClusterIP: []byte(spec.ClusterIP), Type: []byte(spec.Type),
		HealthCheckNodePort: spec.HealthCheckNodePort,
		RequiresDualStack:   spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack,
		WithoutNodePorts:    spec.AllocateLoadBalancerNodePorts != nil && !*spec.AllocateLoadBalancerNodePorts,
		Local:               spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
	}
	if !s.CreationTimestamp.IsZero() {
		f.Created = s.CreationTimestamp.Unix()
	}
	for _, text := range spec.ClusterIPs {
		f.ClusterIPs = append(f.ClusterIPs, []byte(text))
	}
	for _, port := range spec.Ports {
		f.AddPort([]byte(port.Protocol), port.NodePort)
	}
	return f
}

// AddPort adds one of spec.ports.
func (f *Fields) AddPort(protocol []byte, nodePort int32) {
	if nodePort == 0 {
		f.LacksNodePort = true
		return
	}
	f.Ports = append(f.Ports, PortFields{protocol, nodePort})
}

// Reset empties the fields and keeps the memory of their lists.
func (f *Fields) Reset() { *f = Fields{ClusterIPs: f.ClusterIPs[:0], Ports: f.Ports[:0]} }

// The bits of a record's first byte, of which two are the type.
const (
	typeBits          = 3
	requiresDualStack = 1 << (iota + 1)
	withoutNodePorts
	lacksNodePort
	local
)

// types are those that a record tells from each other; all others count as the first.
var types = [...]corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName}

// protocols are those of which a record has the number.
var protocols = [...]string{"TCP", "UDP", "SCTP"}

// AppendTo appends the record of a Service to dst.
func (f *Fields) AppendTo(dst []byte) []byte {
	var flags byte
	for i, one := range types {
		if string(f.Type) == string(one) {
			flags = byte(i)
		}
	}
	for _, flag := range []struct {
		is  bool
		bit byte
	}{{f.RequiresDualStack, requiresDualStack}, {f.WithoutNodePorts, withoutNodePorts}, {f.LacksNodePort, lacksNodePort}, {f.Local, local}} {
		if flag.is {
			flags |= flag.bit
		}
	}
	dst = append(dst, flags)
	dst = appendText(appendText(dst, f.Namespace), f.Name)
	dst = binary.AppendVarint(dst, f.Created)
	dst = binary.AppendVarint(dst, f.CreateRevision)
	dst = binary.AppendVarint(dst, int64(f.HealthCheckNodePort))
	dst = appendText(dst, f.ClusterIP)
	others := f.ClusterIPs
	isSame := uint64(0)
	if len(others) > 0 && string(others[0]) == string(f.ClusterIP) {
		isSame, others = 1, others[1:]
	}
	dst = binary.AppendUvarint(dst, uint64(len(others))<<1|isSame)
	for _, text := range others {
		dst = appendText(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(len(f.Ports)))
	for _, port := range f.Ports {
		dst = binary.AppendVarint(dst, int64(port.NodePort))
		number := len(protocols)
		for i, name := range protocols {
			if string(port.Protocol) == name {
				number = i
			}
		}
		if dst = append(dst, byte(number)); number == len(protocols) {
			dst = appendText(dst, port.Protocol)
		}
	}
	return dst
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// List is Services in the order of their keys, of each no more than an audit reads: some 60 bytes.
type List struct{ packed }

// Add adds the record of a Service; see [Fields.AppendTo].
func (l *List) Add(record []byte) { l.add(record) }

// Len returns the number of Services.
func (l *List) Len() int { return l.len() }

// Service is one of a list. Its texts are parts of the list.
type Service struct {
	Namespace, Name         string
	Created, CreateRevision int64
	ClusterIP               string
	ClusterIPs              []string
	Ports                   []Port
	HealthCheckNodePort     int32
	Form                    rangekeeper.ServiceForm
}

// Port is one of spec.ports.
type Port struct {
	Protocol string
	NodePort int32
}

// At returns a Service.
func (l *List) At(i int) (s Service) {
	s.read(l.at(i))
	return s
}

// All returns all Services with their places. Each is there until the next one.
func (l *List) All() iter.Seq2[int, *Service] { return l.between(0, l.Len()) }

func (l *List) between(from, to int) iter.Seq2[int, *Service] {
	return func(yield func(int, *Service) bool) {
		var s Service
		for i := from; i < to; i++ {
			if s.read(l.at(i)); !yield(i, &s) {
				return
			}
		}
	}
}

// Find returns the place of a Service, -1 if there is none.
func (l *List) Find(namespace, name string) int {
	for i, s := range l.All() {
		if s.Namespace == namespace && s.Name == name {
			return i
		}
	}
	return -1
}

// HasNamespace reports whether a Service is in a namespace.
func (l *List) HasNamespace(namespace string) bool {
	for _, s := range l.All() {
		if s.Namespace == namespace {
			return true
		}
	}
	return false
}

// cut takes parts of the front of a record.
type cut string

func (c *cut) number() (n uint64) {
	for shift := uint(0); ; shift += 7 {
		b := (*c)[0]
		*c = (*c)[1:]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (c *cut) signed() int64 {
	n := c.number()
	return int64(n>>1) ^ -int64(n&1)
}

func (c *cut) text() string {
	n := c.number()
	text := string((*c)[:n])
	*c = (*c)[n:]
	return text
}

// read reads a record, and uses the lists of s again.
func (s *Service) read(record string) {
	flags, c := record[0], cut(record[1:])
	s.Namespace, s.Name = c.text(), c.text()
	s.Created, s.CreateRevision, s.HealthCheckNodePort = c.signed(), c.signed(), int32(c.signed())
	s.ClusterIP, s.ClusterIPs, s.Ports = c.text(), s.ClusterIPs[:0], s.Ports[:0]
	others := c.number()
	if others&1 == 1 {
		s.ClusterIPs = append(s.ClusterIPs, s.ClusterIP)
	}
	for range others >> 1 {
		s.ClusterIPs = append(s.ClusterIPs, c.text())
	}
	for range c.number() {
		port := Port{NodePort: int32(c.signed())}
		if number := c.number(); number < uint64(len(protocols)) {
			port.Protocol = protocols[number]
		} else {
			port.Protocol = c.text()
		}
		s.Ports = append(s.Ports, port)
	}
	s.Form = formOf(s, types[flags&typeBits], flags)
}

func formOf(s *Service, of corev1.ServiceType, flags byte) rangekeeper.ServiceForm {
	isHeadless := s.ClusterIP == corev1.ClusterIPNone
	hasAddress := s.ClusterIP != "" && !isHeadless
	return rangekeeper.ServiceForm{
		NodePort: of == corev1.ServiceTypeNodePort, LoadBalancer: of == corev1.ServiceTypeLoadBalancer,
		ExternalName: of == corev1.ServiceTypeExternalName, Headless: isHeadless,
		OneAddress: hasAddress, TwoAddresses: hasAddress && len(s.ClusterIPs) > 1,
		RequiresDualStack: flags&requiresDualStack != 0, WithoutNodePorts: flags&withoutNodePorts != 0,
		LacksNodePort: flags&lacksNodePort != 0, Local: flags&local != 0, HealthCheckNodePort: s.HealthCheckNodePort != 0,
	}
}

// add adds the claims of a Service to a batch.
func (s *Service) add(batch *rangekeeper.Services) {
	batch.Add(s.ClusterIP, s.ClusterIPs)
	for _, port := range s.Ports {
		batch.AddPort(port.Protocol, port.NodePort)
	}
	batch.SetHealthCheckNodePort(s.HealthCheckNodePort)
}
