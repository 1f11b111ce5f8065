package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"errors"
	"fmt"
	"slices"
)

// Errors without details, for errors.Is.
var (
	// ErrFull: no value of the range is free.
	ErrFull = errors.New("the range is full")
	// ErrAlreadyAllocated: the requested value is in use.
	ErrAlreadyAllocated = errors.New("the value is already allocated")
	// ErrNotInRange: the range does not have the value. It lies outside, or is a network or broadcast address.
	ErrNotInRange = errors.New("the value is not in the range")
	// ErrClosed: an object was used after Close, or is a zero value.
	ErrClosed = errors.New("use of a closed or zero object")
	// ErrPoisoned: the library caught a fault in itself, in this call or an earlier one, and the object cannot be used any
	// more. Please report it.
	ErrPoisoned = errors.New("the library caught a fault in itself; the object cannot be used any more")
	// ErrEncrypted: a stored object is encrypted at rest; the *DecodeError around it names the provider.
	ErrEncrypted = errors.New("the stored object is encrypted at rest")
	// ErrSameKind: the audit or pass has a range of this kind (IPv4, IPv6, ports) already.
	ErrSameKind = errors.New("there is a range of this kind already")
	// ErrInvalidArgument: an argument makes no sense; the error around it names it.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrInvalidUTF8: a text is not UTF-8. In a batch that is ErrInvalidBatch.
	ErrInvalidUTF8 = errors.New("text is not UTF-8")
	// ErrInvalidBatch: an object of a batch is too large or has text that is not UTF-8; the error around it names the object.
	ErrInvalidBatch = errors.New("invalid batch")
)

// ValueError is the error of a call about one value. errors.Is finds its reason: ErrFull, ErrAlreadyAllocated or
// ErrNotInRange.
type ValueError struct {
	// Value is the value asked for; none if it was any free value.
	Value Value
	// Range is the range of the call.
	Range Range
	// Err is the reason.
	Err error
}

func (e *ValueError) Error() string {
	switch e.Err {
	case ErrFull:
		return fmt.Sprintf("the range %s is full", e.Range)
	case ErrNotInRange:
		if e.Value == (Value{}) {
			return fmt.Sprintf("no value was given for the range %s", e.Range)
		}
		return fmt.Sprintf("%s is not in the range %s of allocatable values", e.Value, e.Range)
	default:
		return fmt.Sprintf("%s in the range %s: %v", e.Value, e.Range, e.Err)
	}
}

func (e *ValueError) Unwrap() error { return e.Err }

// MismatchedRangeError: a snapshot was made for another range.
type MismatchedRangeError struct {
	// Expected is the range at hand, Found the one that the snapshot names.
	Expected, Found string
	// Message is the library's message.
	Message string
}

func (e *MismatchedRangeError) Error() string { return e.Message }

// BitsPastRangeError: a snapshot has bits set past the end of its range.
type BitsPastRangeError struct {
	// Range is the range.
	Range string
	// Offset is the highest offset that is set.
	Offset uint64
	// Byte is its place in the data.
	Byte uint64
	// Message is the library's message.
	Message string
}

func (e *BitsPastRangeError) Error() string { return e.Message }

// ParseError: a text is not a range, an address or a port.
type ParseError struct {
	// Text is the input.
	Text string
	// Message describes the fault in it.
	Message string
}

func (e *ParseError) Error() string { return e.Message }

// DecodeError: a stored object is not a RangeAllocation that can be decoded.
type DecodeError struct {
	// Offset is the byte offset of the fault in the stored value.
	Offset uint64
	// Message describes the fault.
	Message string
	// Err is ErrEncrypted for an object that is encrypted at rest, else nil.
	Err error
}

func (e *DecodeError) Error() string { return e.Message }
func (e *DecodeError) Unwrap() error { return e.Err }

// BatchError names the request for which an all-or-nothing batch failed.
type BatchError struct {
	// Index is the request's place in the batch, counted from 0.
	Index int
	// Err is the reason.
	Err error
}

func (e *BatchError) Error() string { return fmt.Sprintf("request %d: %v", e.Index, e.Err) }
func (e *BatchError) Unwrap() error { return e.Err }

// resultError returns the error of a result that carries no details.
func resultError(code C.rk_result) error {
	switch code {
	case C.RK_RESULT_OK:
		return nil
	case C.RK_RESULT_FULL:
		return ErrFull
	case C.RK_RESULT_ALREADY_ALLOCATED:
		return ErrAlreadyAllocated
	case C.RK_RESULT_NOT_IN_RANGE:
		return ErrNotInRange
	case C.RK_RESULT_CLOSED, C.RK_RESULT_NULL_POINTER:
		return ErrClosed
	case C.RK_RESULT_PANIC, C.RK_RESULT_POISONED:
		return ErrPoisoned
	case C.RK_RESULT_SAME_KIND:
		return ErrSameKind
	case C.RK_RESULT_INVALID_ARGUMENT:
		return ErrInvalidArgument
	case C.RK_RESULT_INVALID_UTF8:
		return ErrInvalidUTF8
	case C.RK_RESULT_INVALID_BATCH:
		return ErrInvalidBatch
	case C.RK_RESULT_NO_SWAP:
		return ErrNoSwap
	case C.RK_RESULT_STALE_LIST:
		return ErrStaleList
	default:
		return fmt.Errorf("unexpected result %s", C.GoString(C.rk_result_name(code)))
	}
}

// detailedError returns the error of a result with details. The library's message names the argument.
func detailedError(code C.rk_result, details *C.rk_error) error {
	err := resultError(code)
	switch code {
	case C.RK_RESULT_INVALID_ARGUMENT, C.RK_RESULT_INVALID_UTF8, C.RK_RESULT_INVALID_BATCH,
		C.RK_RESULT_SAME_KIND, C.RK_RESULT_NOT_IN_RANGE:
		return fmt.Errorf("%w: %s", err, errorMessage(details))
	default:
		return err
	}
}

// valueError returns the error of a call about one value, or about any free one.
func valueError(code C.rk_result, value Value, r Range) error {
	switch code {
	case C.RK_RESULT_FULL:
		return &ValueError{Range: r, Err: ErrFull}
	case C.RK_RESULT_ALREADY_ALLOCATED, C.RK_RESULT_NOT_IN_RANGE:
		return &ValueError{Value: value, Range: r, Err: resultError(code)}
	default:
		return resultError(code)
	}
}

// outsideError returns the error of a call with several values, one of which is not in the range.
func outsideError(r Range, values ...[]Value) error {
	for _, value := range slices.Concat(values...) {
		if _, in := r.OffsetOf(value); !in {
			return &ValueError{Value: value, Range: r, Err: ErrNotInRange}
		}
	}
	return ErrNotInRange
}

// indexError returns the error of a call about one of several ranges.
func indexError(code C.rk_result, index int) error {
	if code == C.RK_RESULT_INVALID_ARGUMENT {
		return fmt.Errorf("%w: there is no range with index %d", ErrInvalidArgument, index)
	}
	return resultError(code)
}

// snapshotError returns the error of a call that reads a stored range and its snapshot.
func snapshotError(code C.rk_result, details *C.rk_error, expected, found string) error {
	message := errorMessage(details)
	switch code {
	case C.RK_RESULT_MISMATCHED_RANGE:
		return &MismatchedRangeError{Expected: expected, Found: found, Message: message}
	case C.RK_RESULT_BITS_PAST_RANGE:
		highest, offset := detailBits(details)
		return &BitsPastRangeError{Range: found, Offset: highest, Byte: offset, Message: message}
	default:
		return detailedError(code, details)
	}
}

// parseError returns the error of a call that parses a text. The library's message about UTF-8 names a parameter of C.
func parseError(code C.rk_result, details *C.rk_error, text string) error {
	message := errorMessage(details)
	if code == C.RK_RESULT_INVALID_UTF8 {
		message = fmt.Sprintf("%q is not UTF-8 at byte %d", text, detailByte(details))
	}
	return &ParseError{Text: text, Message: message}
}

func errorMessage(details *C.rk_error) string {
	return C.GoStringN(&details.message[0], C.int(details.message_len))
}
