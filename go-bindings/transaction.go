package rangekeeper

// #include <rangekeeper.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// Transaction is a number of allocations and releases that come to pass together or not at all. Allocations happen at
// once, so that nobody else gets the value meanwhile; releases wait for Commit; Rollback gives the allocations back.
//
// Several may be under way on one allocator. After Commit, Rollback and Close every method but Close gives ErrClosed.
type Transaction[V Value] struct {
	inner *owned[*C.rk_transaction]
	r     Range[V]
}

// Begin starts a transaction. One that becomes unreachable without Commit is rolled back by the garbage collector, at
// some time: better end it by Rollback or Close.
func (a *Allocator[V]) Begin() (*Transaction[V], error) {
	var handle *C.rk_transaction
	code := C.rk_transaction_new(a.pointer(), &handle)
	runtime.KeepAlive(a)
	if code != C.RK_RESULT_OK {
		return nil, resultError(code)
	}
	return &Transaction[V]{own(handle, func(c *C.rk_transaction) { C.rk_transaction_free(c) }), a.r}, nil
}

func (t *Transaction[V]) pointer() *C.rk_transaction {
	if t == nil {
		return nil
	}
	return t.inner.pointer()
}

func (t *Transaction[V]) valueRange() Range[V] {
	if t == nil {
		return Range[V]{}
	}
	return t.r
}

// Allocate takes value at once. Errors as of Allocator.Allocate; the transaction may go on.
func (t *Transaction[V]) Allocate(value V) error {
	code := C.rk_transaction_allocate(t.pointer(), toC(value))
	runtime.KeepAlive(t)
	if code != C.RK_RESULT_OK {
		return valueError(code, value, t.valueRange())
	}
	return nil
}

// AllocateNext takes a free value at once. Errors as of Allocator.AllocateNext; the transaction may go on.
func (t *Transaction[V]) AllocateNext() (V, error) {
	var value C.rk_value
	code := C.rk_transaction_allocate_next(t.pointer(), &value)
	runtime.KeepAlive(t)
	if code != C.RK_RESULT_OK {
		var none V
		return none, resultError(code)
	}
	return fromC[V](&value), nil
}

// AllocateBatch serves all requests at once, or none. Errors as of Allocator.AllocateBatch; the transaction may go on.
func (t *Transaction[V]) AllocateBatch(requests []Request[V]) ([]V, error) {
	asked, got := requestsToC(requests), make([]C.rk_value, len(requests))
	var details C.rk_error
	code := C.rk_transaction_allocate_batch(t.pointer(), unsafe.SliceData(asked), C.size_t(len(asked)), unsafe.SliceData(got), &details)
	runtime.KeepAlive(t)
	if code != C.RK_RESULT_OK {
		return nil, batchError(code, requests, &details, t.valueRange())
	}
	return allFromC[V](got), nil
}

// Release gives value back at Commit; what is not in range is ignored.
func (t *Transaction[V]) Release(value V) error {
	code := C.rk_transaction_release(t.pointer(), toC(value))
	runtime.KeepAlive(t)
	return resultError(code)
}

// Commit keeps the allocations, carries out the releases and ends the transaction.
func (t *Transaction[V]) Commit() error {
	code := C.rk_transaction_commit(t.pointer())
	runtime.KeepAlive(t)
	return resultError(code)
}

// Rollback gives the allocations back, forgets the releases and ends the transaction.
func (t *Transaction[V]) Rollback() error {
	code := C.rk_transaction_rollback(t.pointer())
	runtime.KeepAlive(t)
	return resultError(code)
}

// Close rolls back what was not committed. It may be called again.
func (t *Transaction[V]) Close() error {
	C.rk_transaction_rollback(t.pointer()) // no-op in a transaction that has ended
	runtime.KeepAlive(t)
	return nil
}
