package clusterstate

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
)

// The readers in this file take what an audit needs from protobuf as API servers write it, without an object of
// package k8s.io/api: 100,000 of those take half a gigabyte. They read only values of which they are sure. All others
// they leave to the decoder of the type, whose verdict counts: a value that is no protobuf, or damaged, or of another
// kind, a wire type that a field has not, a message that comes twice. So they refuse nothing themselves, and the
// decoder accepts what they accept, with the same fields: they also walk through messages of which nothing is needed.
//
// They check no more than that decoder. It takes any bytes for a text; those that go into the core are checked here.

// message is what a message of Kubernetes may have: of each field whether it is a number or bytes, and which bytes are
// a message again. Other fields are skipped, as the decoder skips them.
type message struct {
	numbers, bytes uint32
	of             [32]*message
}

// newMessage describes a message by the numbers of its fields.
func newMessage(numbers, texts []int, messages map[int]*message) *message {
	m := new(message)
	for _, field := range numbers {
		m.numbers |= 1 << field
	}
	for _, field := range texts {
		m.bytes |= 1 << field
	}
	for field, of := range messages {
		m.bytes |= 1 << field
		m.of[field] = of
	}
	return m
}

// The messages of the decoders' types, with the fields of k8s.io/api; a test compares them with those types.
var (
	timeMessage  = newMessage([]int{1, 2}, nil, nil)
	entryMessage = newMessage(nil, []int{1, 2}, nil) // of a map of texts

	typeMetaMessage = newMessage(nil, []int{1, 2}, nil)
	unknownMessage  = newMessage(nil, []int{2, 3, 4}, map[int]*message{1: typeMetaMessage})

	fieldsV1Message      = newMessage(nil, []int{1}, nil)
	managedFieldsMessage = newMessage(nil, []int{1, 2, 3, 6, 8}, map[int]*message{4: timeMessage, 7: fieldsV1Message})
	ownerMessage         = newMessage([]int{6, 7}, []int{1, 3, 4, 5}, nil)
	objectMetaMessage    = newMessage([]int{7, 10}, []int{1, 2, 3, 4, 5, 6, 14}, map[int]*message{
		8: timeMessage, 9: timeMessage, 11: entryMessage, 12: entryMessage, 13: ownerMessage, 17: managedFieldsMessage,
	})

	intOrStringMessage = newMessage([]int{1, 2}, []int{3}, nil)
	portMessage        = newMessage([]int{3, 5}, []int{1, 2, 6}, map[int]*message{4: intOrStringMessage})
	clientIPMessage    = newMessage([]int{1}, nil, nil)
	affinityMessage    = newMessage(nil, nil, map[int]*message{1: clientIPMessage})
	specMessage        = newMessage([]int{12, 13, 20}, []int{3, 4, 5, 7, 8, 9, 10, 11, 17, 18, 19, 21, 22, 23}, map[int]*message{
		1: portMessage, 2: entryMessage, 14: affinityMessage,
	})
	portStatusMessage   = newMessage([]int{1}, []int{2, 3}, nil)
	ingressMessage      = newMessage(nil, []int{1, 2, 3}, map[int]*message{4: portStatusMessage})
	loadBalancerMessage = newMessage(nil, nil, map[int]*message{1: ingressMessage})
	conditionMessage    = newMessage([]int{3}, []int{1, 2, 5, 6}, map[int]*message{4: timeMessage})
	statusMessage       = newMessage(nil, nil, map[int]*message{1: loadBalancerMessage, 2: conditionMessage})
	serviceMessage      = newMessage(nil, nil, map[int]*message{1: objectMetaMessage, 2: specMessage, 3: statusMessage})

	parentMessage    = newMessage(nil, []int{1, 2, 3, 4}, nil)
	addressSpec      = newMessage(nil, nil, map[int]*message{1: parentMessage})
	ipAddressMessage = newMessage(nil, nil, map[int]*message{1: objectMetaMessage, 2: addressSpec})
)

// Wire types of protobuf.
const (
	wireNumber  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// field is one of a message: its number as it is encoded, or its bytes.
type field struct {
	num    int
	number uint64
	bytes  []byte
}

// next returns the first field of an encoded message that the message may have, and the rest. It has number 0 at the
// end. It is false where the decoder has to be asked.
func (m *message) next(b []byte) (f field, rest []byte, ok bool) {
	for len(b) > 0 {
		tag, n := varint(b)
		if n == 0 || tag < 1<<3 || tag > 1<<31 {
			return f, nil, false
		}
		b = b[n:]
		num, isKnown := int(min(tag>>3, 31)), false
		switch tag & 7 {
		case wireNumber:
			if f.number, n = varint(b); n == 0 || m.bytes&(1<<num) != 0 {
				return f, nil, false
			}
			b, isKnown = b[n:], m.numbers&(1<<num) != 0
		case wireBytes:
			size, n := varint(b)
			if n == 0 || size > uint64(len(b)-n) || m.numbers&(1<<num) != 0 {
				return f, nil, false
			}
			f.bytes, b, isKnown = b[n:n+int(size)], b[n+int(size):], m.bytes&(1<<num) != 0
		case wireFixed64, wireFixed32:
			size := 8
			if tag&7 == wireFixed32 {
				size = 4
			}
			if len(b) < size || (m.numbers|m.bytes)&(1<<num) != 0 {
				return f, nil, false
			}
			b = b[size:]
		default:
			return f, nil, false
		}
		if isKnown {
			f.num = num
			return f, b, true
		}
	}
	return field{}, nil, true
}

// isSound reports whether the decoder accepts an encoded message.
func (m *message) isSound(b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := m.next(b)
		if !ok {
			return false
		}
		if of := m.of[f.num]; of != nil && !of.isSound(f.bytes) {
			return false
		}
		b = rest
	}
	return true
}

// varint returns the first number of b, and how many bytes it has; 0 if there is none.
func varint(b []byte) (n uint64, size int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	for i := 0; i < len(b) && i < 10; i++ {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// walk calls see with the fields of an encoded message of which something is needed, and checks the others. It is false
// where the decoder has to be asked, as see is.
func (m *message) walk(b []byte, needed uint32, see func(f field) bool) bool {
	for {
		f, rest, ok := m.next(b)
		switch {
		case !ok:
			return false
		case f.num == 0:
			return true
		case needed&(1<<f.num) != 0:
			ok = see(f)
		case m.of[f.num] != nil:
			ok = m.of[f.num].isSound(f.bytes)
		}
		if !ok {
			return false
		}
		b = rest
	}
}

// walkOnce is walk for fields of which there is at most one: the decoder merges others.
func (m *message) walkOnce(b []byte, see func(f field) bool) bool {
	seen := uint32(0)
	return m.walk(b, m.bytes, func(f field) bool {
		isFirst := seen&(1<<f.num) == 0
		seen |= 1 << f.num
		return isFirst && see(f)
	})
}

// readRaw returns the object in a value that is stored as protobuf of one of the versions of a kind.
func (k *kind) readRaw(value []byte) (raw []byte, ok bool) {
	encoded, isProtobuf := bytes.CutPrefix(value, protobufMagic)
	if !isProtobuf {
		return nil, false
	}
	var version, name []byte
	ok = unknownMessage.walkOnce(encoded, func(f field) bool {
		switch f.num {
		case 1:
			return typeMetaMessage.walkOnce(f.bytes, func(f field) bool {
				if f.num == 1 {
					version = f.bytes
				} else {
					name = f.bytes
				}
				return true
			})
		case 2:
			raw = f.bytes
		case 3:
			return len(f.bytes) == 0
		}
		return true
	})
	isVersion := func(one string) bool { return one == string(version) }
	return raw, ok && string(name) == k.name && slices.ContainsFunc(k.versions, isVersion)
}

// zeroTime is time.Time{}.Unix().
const zeroTime = -62135596800

// meta has the fields of metadata that an audit needs.
type meta struct {
	namespace, name, version, managedBy []byte
	created                             int64
}

func (o *meta) read(b []byte) bool {
	o.created = zeroTime
	return objectMetaMessage.walk(b, 1<<1|1<<3|1<<6|1<<8|1<<11, func(f field) bool {
		switch f.num {
		case 1:
			o.name = f.bytes
		case 3:
			o.namespace = f.bytes
		case 6:
			o.version = f.bytes
		case 8:
			return o.readCreated(f.bytes)
		case 11:
			return o.readLabel(f.bytes)
		}
		return true
	})
}

// readCreated reads a time as [metav1.Time] does: no bytes are no time, and fractions of a second are dropped.
func (o *meta) readCreated(b []byte) bool {
	if o.created = 0; len(b) == 0 {
		o.created = zeroTime
	}
	return timeMessage.walk(b, timeMessage.numbers, func(f field) bool {
		if f.num == 1 {
			o.created = int64(f.number)
		}
		return true
	})
}

func (o *meta) readLabel(b []byte) bool {
	var key, value []byte
	ok := entryMessage.walk(b, entryMessage.bytes, func(f field) bool {
		if f.num == 1 {
			key = f.bytes
		} else {
			value = f.bytes
		}
		return true
	})
	if string(key) == networkingv1.LabelManagedBy {
		o.managedBy = value
	}
	return ok
}

// isNamed reports whether the name is one that [check] accepts.
func (o *meta) isNamed() bool {
	return len(o.name) > 0 && string(o.name) != "." && string(o.name) != ".." && !bytes.ContainsAny(o.name, "/%") && utf8.Valid(o.name) && utf8.Valid(o.namespace)
}

// readService reads the fields of a Service; see the top of this file.
func readService(fields *servicebatch.Fields, raw []byte) bool {
	var o meta
	fields.Reset()
	ok := serviceMessage.walkOnce(raw, func(f field) bool {
		switch f.num {
		case 1:
			return o.read(f.bytes)
		case 2:
			return readSpec(fields, f.bytes)
		default:
			return statusMessage.isSound(f.bytes)
		}
	})
	fields.Namespace, fields.Name, fields.Created = o.namespace, o.name, o.created
	if o.created == zeroTime {
		fields.Created = 0
	}
	return ok && len(o.namespace) > 0 && o.isNamed()
}

func readSpec(fields *servicebatch.Fields, b []byte) bool {
	return specMessage.walk(b, 1<<1|1<<3|1<<4|1<<11|1<<12|1<<17|1<<18|1<<20, func(f field) bool {
		switch f.num {
		case 1:
			return readPort(fields, f.bytes)
		case 3:
			fields.ClusterIP = f.bytes
		case 4:
			fields.Type = f.bytes
		case 11:
			fields.Local = string(f.bytes) == "Local"
		case 12:
			fields.HealthCheckNodePort = int32(f.number)
		case 17:
			fields.RequiresDualStack = string(f.bytes) == "RequireDualStack"
		case 18:
			fields.ClusterIPs = append(fields.ClusterIPs, f.bytes)
		case 20:
			fields.WithoutNodePorts = f.number == 0
		}
		return f.num == 4 || utf8.Valid(f.bytes)
	})
}

func readPort(fields *servicebatch.Fields, b []byte) bool {
	var protocol []byte
	var nodePort int32
	ok := portMessage.walk(b, 1<<2|1<<5, func(f field) bool {
		if f.num == 2 {
			protocol = f.bytes
		} else {
			nodePort = int32(f.number)
		}
		return true
	})
	fields.AddPort(protocol, nodePort)
	return ok && utf8.Valid(protocol)
}

// readIPAddress reads the fields of an IPAddress object; see the top of this file.
func readIPAddress(fields *servicebatch.AddressFields, raw []byte) bool {
	var o meta
	*fields = servicebatch.AddressFields{WithoutParent: true}
	ok := ipAddressMessage.walkOnce(raw, func(f field) bool {
		if f.num == 1 {
			return o.read(f.bytes)
		}
		return addressSpec.walkOnce(f.bytes, func(f field) bool {
			fields.WithoutParent = false
			return parentMessage.walk(f.bytes, parentMessage.bytes, func(f field) bool {
				switch f.num {
				case 1:
					fields.ParentGroup = f.bytes
				case 2:
					fields.ParentResource = f.bytes
				case 3:
					fields.ParentNamespace = f.bytes
				case 4:
					fields.ParentName = f.bytes
				}
				return utf8.Valid(f.bytes)
			})
		})
	})
	fields.Name, fields.ManagedBy, fields.Created = o.name, o.managedBy, o.created
	fields.Revision, _ = strconv.ParseUint(string(o.version), 10, 64)
	return ok && o.isNamed() && len(o.namespace) == 0 && utf8.Valid(o.managedBy)
}
