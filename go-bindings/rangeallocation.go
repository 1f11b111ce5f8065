package rangekeeper

import (
	"runtime"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// RangeAllocation is the stored object: a range, its bitmap, and all around them (metadata, unknown fields), which
// survives a rewrite. It may be used from several goroutines at once.
type RangeAllocation struct {
	inner *object[*rk.RangeAllocation]
}

// DecodeRangeAllocation decodes a stored value; its first bytes identify the form. The error is a *DecodeError; for a
// value that is encrypted at rest errors.Is finds ErrEncrypted in it.
func DecodeRangeAllocation(stored []byte) (*RangeAllocation, error) {
	var handle *rk.RangeAllocation
	var details rk.Error
	code := rk.RangeAllocationDecode(stored, &handle, &details)
	switch code {
	case rk.ResultOK:
		return &RangeAllocation{own(handle, rk.RangeAllocationFree)}, nil
	case rk.ResultInvalidObject:
		return nil, &DecodeError{Offset: details.Detail.Byte, Message: errorMessage(&details)}
	case rk.ResultEncrypted:
		return nil, &DecodeError{Offset: details.Detail.Byte, Message: errorMessage(&details), Err: ErrEncrypted}
	default:
		return nil, resultError(code)
	}
}

func (o *RangeAllocation) pointer() *rk.RangeAllocation {
	if o == nil {
		return nil
	}
	return o.inner.pointer()
}

// Close drops the object. It may be called again and beside other calls.
func (o *RangeAllocation) Close() error {
	rk.RangeAllocationFree(o.pointer())
	runtime.KeepAlive(o)
	return nil
}

// Range returns the range as text; empty if the object is not initialised yet.
func (o *RangeAllocation) Range() (string, error) {
	defer runtime.KeepAlive(o)
	return readText(func(buffer []byte, length *uint) rk.Result {
		return rk.RangeAllocationRange(o.pointer(), buffer, length)
	})
}

// Data returns the bitmap, as Allocator.Snapshot does. It replaces the content of dst and reuses its capacity.
func (o *RangeAllocation) Data(dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(o)
	return readBytes(dst, func(buffer []byte, length *uint) rk.Result {
		return rk.RangeAllocationData(o.pointer(), buffer, length)
	})
}

// Values replaces range and bitmap; both are copied. The error of a range that is not UTF-8 is ErrInvalidUTF8.
func (o *RangeAllocation) Set(rangeText string, data []byte) error {
	var details rk.Error
	code := rk.RangeAllocationSet(o.pointer(), rangeText, data, &details)
	runtime.KeepAlive(o)
	return detailedError(code, &details)
}

// Encode returns the value to be stored. It replaces the content of dst and reuses its capacity.
func (o *RangeAllocation) Encode(dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(o)
	return readBytes(dst, func(buffer []byte, length *uint) rk.Result {
		return rk.RangeAllocationEncode(o.pointer(), buffer, length)
	})
}
