package rangekeeper

// The writers of the tagged unions that a committer reads; see outcome.go.

// #include <rangekeeper.h>
import "C"

import (
	"runtime"
	"strings"
	"unsafe"
)

// alignedEvent is an event as C aligns it.
type alignedEvent struct {
	_ [0]C.uint64_t
	c C.rk_event
}

// eventOf is an event of a kind that nothing belongs to.
func eventOf(kind C.uint32_t) alignedEvent {
	var event alignedEvent
	event.c.kind = kind
	return event
}

func (a *Answer) event(pinner *runtime.Pinner) alignedEvent {
	header := C.rk_header{
		cluster_id: C.uint64_t(a.ClusterID), revision: C.uint64_t(a.Revision), raft_term: C.uint64_t(a.RaftTerm),
	}
	if a.Held {
		event := eventOf(C.RK_EVENT_HELD)
		*(*C.rk_header)(unsafe.Pointer(&event.c.data)) = header
		return event
	}
	event := eventOf(C.RK_EVENT_CURRENT)
	*(*C.rk_current)(unsafe.Pointer(&event.c.data)) = C.rk_current{header: header, key: keyToC(pinner, a.Key, a.Value)}
	return event
}

func refusal(pinner *runtime.Pinner, reason string) alignedEvent {
	event := eventOf(C.RK_EVENT_REFUSED)
	// The reason is a store's, for people: bytes that are not UTF-8 must not leave the request without an end.
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) > 0 {
		pinner.Pin(unsafe.StringData(reason))
		*(*C.rk_refused)(unsafe.Pointer(&event.c.data)) = C.rk_refused{reason: cText(reason), reason_len: C.size_t(len(reason))}
	}
	return event
}

func changed(pinner *runtime.Pinner, changes []Change) alignedEvent {
	event := eventOf(C.RK_EVENT_WATCHED)
	if len(changes) > 0 {
		keys := make([]C.rk_key, len(changes))
		for i, change := range changes {
			keys[i] = keyToC(pinner, change.Key, change.Value)
		}
		pinner.Pin(unsafe.SliceData(keys))
		*(*C.rk_watched)(unsafe.Pointer(&event.c.data)) = C.rk_watched{changes: unsafe.SliceData(keys), n: C.size_t(len(keys))}
	}
	return event
}

// keyToC lets a C struct in Go memory point to the value.
func keyToC(pinner *runtime.Pinner, state KeyState, value []byte) C.rk_key {
	key := C.rk_key{state: state.toC()}
	if len(value) > 0 {
		pinner.Pin(unsafe.SliceData(value))
		key.value, key.value_len = cBytes(value), C.size_t(len(value))
	}
	return key
}

// toC writes an operation, and adds its requests to those of others.
func (o *Operation) toC(to *C.rk_operation, requests []C.rk_value) []C.rk_value {
	to.kind, to.deadline = o.kind, deadlineToC(o.deadline)
	switch o.kind {
	case C.RK_OPERATION_ALLOCATE:
		*(*C.rk_allocate)(unsafe.Pointer(&to.data)) = C.rk_allocate{requests: C.size_t(len(o.values))}
		return append(requests, o.values...)
	case C.RK_OPERATION_RELEASE:
		*(*C.rk_release)(unsafe.Pointer(&to.data)) = C.rk_release{
			value: o.values[0], as_of: C.uint64_t(o.owner.AsOf), oldest: C.uint64_t(max(o.owner.Oldest, 0)),
		}
	}
	return requests
}
