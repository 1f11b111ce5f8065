package rangekeeper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
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
	// ErrPoisoned: the library caught a fault in itself, in this call or an earlier one, and the object cannot be used
	// any more. Please report it.
	ErrPoisoned = errors.New("the library caught a fault in itself; the object cannot be used any more")
	// ErrNoMemory: an object has 1 GiB, or an argument more than 128 MiB, and the call, which might have needed more
	// memory than there is for one object, was not made. In pure Go only.
	ErrNoMemory = errors.New("an object can have no more memory")
	// ErrEncrypted: a stored object is encrypted at rest; the *DecodeError around it names the provider.
	ErrEncrypted = errors.New("the stored object is encrypted at rest")
	// ErrSameKind: the audit or pass has a range of this kind (IPv4, IPv6, ports) already.
	ErrSameKind = errors.New("there is a range of this kind already")
	// ErrInvalidArgument: an argument makes no sense; the error around it names it.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrInvalidUTF8: a text is not UTF-8. In a batch that is ErrInvalidBatch.
	ErrInvalidUTF8 = errors.New("text is not UTF-8")
	// ErrInvalidBatch: an object of a batch is too large or has text that is not UTF-8; the error around it names the
	// object.
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
func resultError(code rk.Result) error {
	switch code {
	case rk.ResultOK:
		return nil
	case rk.ResultFull:
		return ErrFull
	case rk.ResultAlreadyAllocated:
		return ErrAlreadyAllocated
	case rk.ResultNotInRange:
		return ErrNotInRange
	case rk.ResultClosed, rk.ResultEnded, rk.ResultNullPointer:
		return ErrClosed
	case rk.ResultPanic, rk.ResultPoisoned:
		if fault := rk.FirstFault(); fault != "" {
			return fmt.Errorf("%w; please report it: %s", ErrPoisoned, fault)
		}
		return ErrPoisoned
	case rk.ResultNoMemory:
		return ErrNoMemory
	case rk.ResultSameKind:
		return ErrSameKind
	case rk.ResultInvalidArgument:
		return ErrInvalidArgument
	case rk.ResultInvalidUTF8:
		return ErrInvalidUTF8
	case rk.ResultInvalidBatch:
		return ErrInvalidBatch
	case rk.ResultNoSwap:
		return ErrNoSwap
	case rk.ResultStaleList:
		return ErrStaleList
	case rk.ResultRangeInUse:
		return ErrRangeInUse
	case rk.ResultInvalidObject:
		return ErrUnreadable
	default:
		return fmt.Errorf("unexpected result %s", rk.ResultName(uint32(code)))
	}
}

// detailedError returns the error of a result with details. The library's message names the argument.
func detailedError(code rk.Result, details *rk.Error) error {
	err := resultError(code)
	switch code {
	case rk.ResultInvalidArgument, rk.ResultInvalidUTF8, rk.ResultInvalidBatch,
		rk.ResultSameKind, rk.ResultNotInRange, rk.ResultRangeInUse, rk.ResultInvalidObject:
		return fmt.Errorf("%w: %s", err, errorMessage(details))
	default:
		return err
	}
}

// valueError returns the error of a call about one value, or about any free one.
func valueError(code rk.Result, value Value, r Range) error {
	switch code {
	case rk.ResultFull:
		return &ValueError{Range: r, Err: ErrFull}
	case rk.ResultAlreadyAllocated, rk.ResultNotInRange:
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
func indexError(code rk.Result, index int) error {
	if code == rk.ResultInvalidArgument {
		return fmt.Errorf("%w: there is no range with index %d", ErrInvalidArgument, index)
	}
	return resultError(code)
}

// snapshotError returns the error of a call that reads a stored range and its snapshot.
func snapshotError(code rk.Result, details *rk.Error, expected, found string) error {
	message := errorMessage(details)
	switch code {
	case rk.ResultMismatchedRange:
		return &MismatchedRangeError{Expected: expected, Found: found, Message: message}
	case rk.ResultBitsPastRange:
		bits := details.Detail.Bits
		return &BitsPastRangeError{Range: found, Offset: bits.HighestOffset, Byte: bits.Byte, Message: message}
	default:
		return detailedError(code, details)
	}
}

// parseError returns the error of a call that parses a text. The library's message about UTF-8 names a parameter of C.
func parseError(code rk.Result, details *rk.Error, text string) error {
	message := errorMessage(details)
	if code == rk.ResultNoMemory {
		return ErrNoMemory
	}
	if code == rk.ResultInvalidUTF8 {
		message = fmt.Sprintf("%q is not UTF-8 at byte %d", text, details.Detail.Byte)
	}
	return &ParseError{Text: text, Message: message}
}

func errorMessage(details *rk.Error) string {
	return details.Message
}
