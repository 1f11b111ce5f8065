package rangekeeper

// #include <rangekeeper.h>
import "C"

import "runtime"

// RangeAllocation is the stored object: a range, its bitmap, and all around them (metadata, unknown fields), which
// survives a rewrite. It may be used from several goroutines at once.
type RangeAllocation struct {
	inner *owned[*C.rk_range_allocation]
}

// DecodeRangeAllocation decodes a stored value; its first bytes identify the form. The error is a *DecodeError; for a value
// that is encrypted at rest errors.Is finds ErrEncrypted in it.
func DecodeRangeAllocation(stored []byte) (*RangeAllocation, error) {
	var handle *C.rk_range_allocation
	var details C.rk_error
	code := C.rk_range_allocation_decode(cBytes(stored), C.size_t(len(stored)), &handle, &details)
	switch code {
	case C.RK_RESULT_OK:
		return &RangeAllocation{own(handle, func(c *C.rk_range_allocation) { C.rk_range_allocation_free(c) })}, nil
	case C.RK_RESULT_INVALID_OBJECT:
		return nil, &DecodeError{Offset: detailByte(&details), Message: errorMessage(&details)}
	case C.RK_RESULT_ENCRYPTED:
		return nil, &DecodeError{Offset: detailByte(&details), Message: errorMessage(&details), Err: ErrEncrypted}
	default:
		return nil, resultError(code)
	}
}

func (o *RangeAllocation) pointer() *C.rk_range_allocation {
	if o == nil {
		return nil
	}
	return o.inner.pointer()
}

// Close drops the object. It may be called again and beside other calls.
func (o *RangeAllocation) Close() error {
	C.rk_range_allocation_close(o.pointer())
	runtime.KeepAlive(o)
	return nil
}

// Range returns the range as text; empty if the object is not initialised yet.
func (o *RangeAllocation) Range() (string, error) {
	defer runtime.KeepAlive(o)
	return readText(func(buffer *C.char, capacity C.size_t, length *C.size_t) C.rk_result {
		return C.rk_range_allocation_range(o.pointer(), buffer, capacity, length)
	})
}

// Data returns the bitmap, as Allocator.Snapshot does. It replaces the content of dst and reuses its capacity.
func (o *RangeAllocation) Data(dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(o)
	return readBytes(dst, func(buffer *C.uint8_t, capacity C.size_t, length *C.size_t) C.rk_result {
		return C.rk_range_allocation_data(o.pointer(), buffer, capacity, length)
	})
}

// Set replaces range and bitmap; both are copied. The error of a range that is not UTF-8 is ErrInvalidUTF8.
func (o *RangeAllocation) Set(rangeText string, data []byte) error {
	var details C.rk_error
	code := C.rk_range_allocation_set(o.pointer(), cText(rangeText), C.size_t(len(rangeText)), cBytes(data), C.size_t(len(data)), &details)
	runtime.KeepAlive(o)
	return detailedError(code, &details)
}

// Encode returns the value to be stored. It replaces the content of dst and reuses its capacity.
func (o *RangeAllocation) Encode(dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(o)
	return readBytes(dst, func(buffer *C.uint8_t, capacity C.size_t, length *C.size_t) C.rk_result {
		return C.rk_range_allocation_encode(o.pointer(), buffer, capacity, length)
	})
}
