package allocator

import (
	"time"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Owner is the Service on whose behalf values are released, and since when it had them.
type Owner struct {
	Namespace, Name string
	rangekeeper.Ownership
}

// Request follows what one request to the API server does with a range: what it allocates, and what its Service gives up.
// Release only records a value; it is freed by Commit, once it is known what became of the Service. A Request is for one
// goroutine.
type Request interface {
	// UseUntil is when the Service must be written at the latest, or else lose what was allocated; zero for no limit.
	UseUntil() time.Time
	// Undo releases what was allocated, as the Service was certainly not written.
	Undo() error
	// Commit releases what the Service gave up, as it was written without that, or deleted.
	Commit(owner Owner) error
}

// PerRequest is an allocator whose values a Request can follow.
type PerRequest interface {
	// ForRequest returns an allocator of the same offsets for one request.
	ForRequest() (Interface, Request)
}

// Then returns a Request that calls done after values were released.
func Then(request Request, done func()) Request { return then{request, done} }

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
