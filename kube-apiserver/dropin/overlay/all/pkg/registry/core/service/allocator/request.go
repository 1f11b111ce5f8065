package allocator

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Owner is the Service on whose behalf values are released, and the revisions between which it had them.
type Owner struct {
	Namespace, Name string
	// Ownership has no store: it is the one that was known when the Request began.
	rangekeeper.Ownership
	// Late: the Request began after the Service gave the values up, so that the store is unknown.
	Late bool
}

// Request records the effects of one API request on a range: the values it allocates, and those that its Service gives
// up. Release only records a value; Commit frees it, once the outcome of the Service's write is known. A Request is for
// one goroutine.
type Request interface {
	// UseUntil is the time by which the Service must be written, or it may lose the allocated values; zero for no
	// limit.
	UseUntil() time.Time
	// Conditions hold as long as no other Service can have got the allocated values. The transaction that writes the
	// Service has them, so that a write that reaches etcd late does nothing. There are none for values in another etcd
	// than Services.
	Conditions() []clientv3.Cmp
	// Written records that the Service was written with the allocated values.
	Written()
	// Failure is the error of the last allocation that failed because of the store, not because of the request; nil if
	// none did.
	Failure() error
	// Undo releases the allocated values: the Service was certainly not written.
	Undo() error
	// Commit releases the values that the Service gave up: it was written without them, or deleted.
	Commit(owner Owner) error
}

// PerRequest is an allocator that supports Requests.
type PerRequest interface {
	// ForRequest returns an allocator of the same offsets for one request.
	ForRequest() (Interface, Request)
}

// ForRequest returns an allocator of the same offsets for one request, and the request, which calls done after values
// were released. In memory there is no request: it is nil, and the allocator is the given one.
func ForRequest(alloc Interface, done func()) (Interface, Request) {
	source, ok := alloc.(PerRequest)
	if !ok {
		return alloc, nil
	}
	own, request := source.ForRequest()
	return own, then{request, done}
}

// SetServices sets the list of Services for repair passes, before the first one. In memory there are none.
func SetServices(alloc Interface, list repaircontroller.ListStored) {
	if repaired, ok := alloc.(interface {
		SetServices(repaircontroller.ListStored)
	}); ok {
		repaired.SetServices(list)
	}
}

// then is a Request that calls done after values were released.
type then struct {
	Request
	done func()
}

func (t then) Undo() error {
	defer t.done()
	return t.Request.Undo()
}

func (t then) Commit(owner Owner) error {
	defer t.done()
	return t.Request.Commit(owner)
}
