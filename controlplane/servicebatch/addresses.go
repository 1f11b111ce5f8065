package servicebatch

import (
	"encoding/binary"
	"iter"
	"strconv"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// AddressFields are those of an IPAddress object that an audit reads, as [Fields] of a Service.
type AddressFields struct {
	Name, ManagedBy []byte
	// Created is metadata.creationTimestamp in seconds since 1970, of a zero time as [time.Time.Unix] has it, and
	// Revision metadata.resourceVersion, 0 if unknown.
	Created  int64
	Revision uint64
	// WithoutParent says that there is no spec.parentRef.
	WithoutParent                                            bool
	ParentGroup, ParentResource, ParentNamespace, ParentName []byte
}

// AddressFieldsOf returns those of an object.
func AddressFieldsOf(o *networkingv1.IPAddress) *AddressFields {
	f := &AddressFields{
		Name: []byte(o.Name), ManagedBy: []byte(o.Labels[networkingv1.LabelManagedBy]), Created: o.CreationTimestamp.Unix(), WithoutParent: o.Spec.ParentRef == nil,
	}
	f.Revision, _ = strconv.ParseUint(o.ResourceVersion, 10, 64)
	if p := o.Spec.ParentRef; p != nil {
		f.ParentGroup, f.ParentResource, f.ParentNamespace, f.ParentName = []byte(p.Group), []byte(p.Resource), []byte(p.Namespace), []byte(p.Name)
	}
	return f
}

// The bits of a record's first byte: texts that nearly all objects have are not repeated.
const (
	withoutParent = 1 << iota
	ofAllocator
	ofService
)

const (
	allocator = "ipallocator.k8s.io"
	services  = "services"
)

// AppendTo appends the record of an object to dst.
func (f *AddressFields) AppendTo(dst []byte) []byte {
	var flags byte
	if f.WithoutParent {
		flags |= withoutParent
	}
	if string(f.ManagedBy) == allocator {
		flags |= ofAllocator
	}
	if len(f.ParentGroup) == 0 && string(f.ParentResource) == services {
		flags |= ofService
	}
	dst = appendText(append(dst, flags), f.Name)
	dst = binary.AppendUvarint(binary.AppendVarint(dst, f.Created), f.Revision)
	if flags&ofAllocator == 0 {
		dst = appendText(dst, f.ManagedBy)
	}
	if flags&ofService == 0 {
		dst = appendText(appendText(dst, f.ParentGroup), f.ParentResource)
	}
	return appendText(appendText(dst, f.ParentNamespace), f.ParentName)
}

// AddressList is IPAddress objects in the order of their keys, of each no more than an audit reads: some 60 bytes.
type AddressList struct{ packed }

// Add adds the record of an object; see [AddressFields.AppendTo].
func (l *AddressList) Add(record []byte) { l.add(record) }

// Len returns the number of objects.
func (l *AddressList) Len() int { return l.len() }

// At returns an object. Its texts are parts of the list.
func (l *AddressList) At(i int) rangekeeper.IPAddress { return ipAddress(l.at(i)) }

// All returns all objects.
func (l *AddressList) All() iter.Seq[rangekeeper.IPAddress] {
	return func(yield func(rangekeeper.IPAddress) bool) {
		for i := range l.Len() {
			if !yield(l.At(i)) {
				return
			}
		}
	}
}

func ipAddress(record string) (o rangekeeper.IPAddress) {
	flags, c := record[0], cut(record[1:])
	o.Name = c.text()
	o.Created, o.Revision = time.Unix(c.signed(), 0), c.number()
	if o.ManagedBy = allocator; flags&ofAllocator == 0 {
		o.ManagedBy = c.text()
	}
	if o.ParentResource = services; flags&ofService == 0 {
		o.ParentGroup, o.ParentResource = c.text(), c.text()
	}
	o.WithoutParent = flags&withoutParent != 0
	o.ParentNamespace, o.ParentName = c.text(), c.text()
	return o
}

// Observe has an audit observe the objects.
func (l *AddressList) Observe(core *rangekeeper.Audit) error {
	var batch rangekeeper.IPAddresses
	for from := 0; from < l.Len(); from += batchSize {
		batch.Reset()
		for i := from; i < min(from+batchSize, l.Len()); i++ {
			o := l.At(i)
			batch.Add(&o)
		}
		if err := core.ObserveIPAddresses(&batch); err != nil {
			return err
		}
	}
	return nil
}
