package rangekeeper

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

const (
	// maxEntries is the largest number of addresses or ports of one Service in a batch.
	maxEntries = 1<<16 - 1
	// portUnit is one port in a Service's first word.
	portUnit = 1 << 16
)

// batch is objects in the form in which they cross the border: numbers in words, texts one behind the other. The header
// of the library describes the words.
type batch struct {
	words []uint32
	text  []byte
	count int
}

func (b *batch) reset() {
	b.words, b.text, b.count = b.words[:0], b.text[:0], 0
}

// add appends an object that consists of some words and then texts, whose lengths come last among its words.
func (b *batch) add(words []uint32, texts ...string) {
	b.words = append(b.words, words...)
	for _, text := range texts {
		b.words = append(b.words, uint32(len(text)))
		b.text = append(b.text, text...)
	}
	b.count++
}

func (b *batch) toC() rk.Batch { return rk.Batch{Words: b.words, Text: b.text, Count: uint(b.count)} }

// Services is a batch of Services for Audit.Observe, to be filled, observed, reset and filled again. The zero value is
// empty. Some thousand Services per batch are a good size.
//
// Adding costs a few nanoseconds per address or port, and no memory once the batch has had its size. A batch is for one
// goroutine at a time.
type Services struct {
	batch
	head  int // where the Service added last begins in words
	names serviceNames
	err   error
}

// Len says how many Services the batch has.
func (s *Services) Len() int { return s.count }

// Reset empties the batch and keeps its memory.
func (s *Services) Reset() {
	s.reset()
	s.names.reset()
	s.err = nil
}

// Add adds a Service with its spec.clusterIP and spec.clusterIPs, as they are: empty, "None" and nonsense too.
func (s *Services) Add(clusterIP string, clusterIPs []string) {
	s.head = len(s.words)
	if len(clusterIPs) == 1 && clusterIPs[0] == clusterIP {
		s.words = append(s.words, 2, 0, uint32(len(clusterIP)), rk.SameText)
		s.text = appendAddress(s.text, clusterIP)
	} else {
		s.addAny(clusterIP, clusterIPs)
	}
	s.count++
}

func (s *Services) addAny(clusterIP string, clusterIPs []string) {
	entries := 1 + len(clusterIPs)
	if entries > maxEntries {
		s.tooLarge(s.count, "clusterIPs")
		clusterIPs, entries = nil, 1
	}
	s.words = append(s.words, uint32(entries), 0, uint32(len(clusterIP)))
	s.text = appendAddress(s.text, clusterIP)
	before := clusterIP
	for _, text := range clusterIPs {
		if text == before {
			s.words = append(s.words, rk.SameText)
			continue
		}
		s.words = append(s.words, uint32(len(text)))
		s.text = appendAddress(s.text, text)
		before = text
	}
}

// appendAddress is append for texts that mostly have 8 to 16 bytes: two words that may overlap take a third of the time
// of a copy of any length.
func appendAddress(to []byte, text string) []byte {
	before, after := len(to), len(to)+len(text)
	if len(text) < 8 || len(text) > 16 || after > cap(to) {
		return append(to, text...)
	}
	to = to[:after]
	from := unsafe.Slice(unsafe.StringData(text), len(text))
	binary.NativeEndian.PutUint64(to[before:], binary.NativeEndian.Uint64(from))
	binary.NativeEndian.PutUint64(to[after-8:], binary.NativeEndian.Uint64(from[len(from)-8:]))
	return to
}

// AddPort adds one of spec.ports to the Service that was added last; one without a node port may be left out. Before
// the first Add, Audit.Observe refuses the batch.
func (s *Services) AddPort(protocol string, nodePort int32) {
	if s.noService("AddPort") {
		return
	}
	if s.words[s.head]/portUnit == maxEntries {
		s.tooLarge(s.count-1, "ports")
		return
	}
	s.words[s.head] += portUnit
	var code uint32
	switch protocol {
	case "TCP":
		code = rk.ProtocolTCP
	case "UDP":
		code = rk.ProtocolUDP
	case "SCTP":
		code = rk.ProtocolSCTP
	default:
		code = rk.ProtocolText + uint32(len(protocol))
		s.text = append(s.text, protocol...)
	}
	s.words = append(s.words, uint32(nodePort), code)
}

// SetHealthCheckNodePort sets spec.healthCheckNodePort of the Service that was added last. Before the first Add,
// Audit.Observe refuses the batch.
func (s *Services) SetHealthCheckNodePort(port int32) {
	if s.noService("SetHealthCheckNodePort") {
		return
	}
	s.words[s.head+1] = uint32(port)
}

func (s *Services) noService(call string) bool {
	if s.count == 0 && s.err == nil {
		s.err = fmt.Errorf("%w: %s was called before Add", ErrInvalidBatch, call)
	}
	return s.count == 0
}

func (s *Services) tooLarge(index int, what string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: the Service at index %d of the batch has more than %d %s", ErrInvalidBatch, index, maxEntries, what)
	}
}

func (s *Services) toC() rk.Services {
	return rk.Services{Batch: s.batch.toC()}
}

// Name names the Service that was added last, with its metadata.creationTimestamp and etcd's create revision, each zero
// if unknown. All Services of a batch have names, or none has: only an audit of IPAddress objects and
// Report.ObserveClaimants need them. Audit.Observe refuses the batch if Name was called before the first Add, or more
// or less than once for a Service.
func (s *Services) Name(namespace, name string, created time.Time, createRevision uint64) {
	if s.noService("Name") {
		return
	}
	if missing := s.count - s.names.count; missing != 1 && s.err == nil {
		index, calls := s.names.count, "not called"
		if missing == 0 {
			index, calls = s.count-1, "called twice"
		}
		s.err = fmt.Errorf("%w: Name was %s for the Service at index %d of the batch", ErrInvalidBatch, calls, index)
	}
	var seconds uint64
	if !created.IsZero() {
		seconds = uint64(created.Unix())
	}
	s.names.add([]uint32{uint32(seconds), uint32(seconds >> 32), uint32(createRevision), uint32(createRevision >> 32)}, namespace, name)
}

// serviceNames are the names of the Services in a batch, in the same order.
type serviceNames struct {
	batch
}

func (n *serviceNames) toC() rk.ServiceNames {
	return rk.ServiceNames{Batch: n.batch.toC()}
}

// IPAddress has the fields of an IPAddress object that an audit reads.
type IPAddress struct {
	// Name is metadata.name: the address.
	Name string
	// ManagedBy is the label ipaddress.kubernetes.io/managed-by.
	ManagedBy string
	// Created is metadata.creationTimestamp.
	Created time.Time
	// Revision is metadata.resourceVersion, the revision of its last write; 0 if unknown.
	Revision uint64
	// WithoutParent reports that there is no spec.parentRef. An empty one is a reference to nothing.
	WithoutParent bool
	// The parts of spec.parentRef; empty if there is none.
	ParentGroup, ParentResource, ParentNamespace, ParentName string
}

// IPAddresses is a batch of IPAddress objects for Audit.ObserveIPAddresses. The zero value is empty.
type IPAddresses struct {
	batch
}

// Add adds an object.
func (b *IPAddresses) Add(o *IPAddress) {
	created, withoutParent := uint64(o.Created.Unix()), uint32(0)
	if o.WithoutParent {
		withoutParent = 1
	}
	b.add([]uint32{uint32(created), uint32(created >> 32), uint32(o.Revision), uint32(o.Revision >> 32), withoutParent},
		o.Name, o.ManagedBy, o.ParentGroup, o.ParentResource, o.ParentNamespace, o.ParentName)
}

// Reset empties the batch and keeps its memory.
func (b *IPAddresses) Reset() { b.reset() }

func (b *IPAddresses) toC() rk.IPAddresses {
	return rk.IPAddresses{Batch: b.batch.toC()}
}

// Claim is what a Service of a batch claims by one of its fields.
type Claim struct {
	// Value is the zero Value if the Service has a text there that is no address.
	Value Value
	// Text is the Service's text of an address, empty of a port.
	Text string
	// Service is the place of the Service in the batch.
	Service int
}

// Claims returns what the Services of the batch claim, as an audit takes it for theirs: in the order of Services, the
// addresses of each first, in their order there. A value comes twice if a Service has it twice; a number that is no
// port does not come.
func (s *Services) Claims() ([]Claim, error) {
	if s.err != nil {
		return nil, s.err
	}
	perPage := uint(min(8192, 1+len(s.words))) // a claim has a word at least
	batch, page := s.toC(), make([]rk.Claim, perPage)
	all := make([]Claim, 0, s.Len())
	for {
		var n uint
		var details rk.Error
		if code := rk.ServicesClaims(&batch, uint(len(all)), page, &n, &details); code != rk.ResultOK {
			return nil, detailedError(code, &details)
		}
		for i := range page[:n] {
			claim := Claim{Text: string(s.text[page[i].Text:][:page[i].TextLen]), Service: int(page[i].Service)}
			if page[i].Value.Kind != rk.ValueKindNone {
				claim.Value = valueFromC(&page[i].Value)
			}
			all = append(all, claim)
		}
		if n < perPage {
			return all, nil
		}
	}
}
