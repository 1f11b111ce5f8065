package rangekeeper

import (
	"fmt"
	"runtime"
	"time"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// Bootstrap is the bootstrap controller of one server: the system namespaces, the Service "kubernetes" and its
// endpoints, and when they and the repairs of ranges are due. It does no I/O: Poll returns orders, and Answered takes
// how they ended, both as JSON in the form that docs/bootstrap-json.md describes. Package controlplane/bootstrap
// carries them out.
//
// It may be used from several goroutines at once.
type Bootstrap struct {
	inner *object[*rk.Bootstrap]
}

// JSONError: a text is no JSON, or not of the form that is documented for it.
type JSONError struct {
	// Offset is the byte at which it went wrong.
	Offset  uint64
	Message string
}

func (e *JSONError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Message) }

// ConfigError says why a configuration cannot be used, or a question to BootstrapPlan not be answered.
type ConfigError struct{ Message string }

func (e *ConfigError) Error() string { return e.Message }

// NewBootstrap makes a controller that has not begun. The error may be a *JSONError or a *ConfigError.
func NewBootstrap(config []byte) (*Bootstrap, error) {
	var handle *rk.Bootstrap
	var details rk.Error
	code := rk.BootstrapNew(textOf(config), &handle, &details)
	if code != rk.ResultOK {
		return nil, jsonError(code, &details)
	}
	return &Bootstrap{own(handle, rk.BootstrapFree)}, nil
}

func jsonError(code rk.Result, details *rk.Error) error {
	switch code {
	case rk.ResultInvalidJSON:
		return &JSONError{Offset: details.Detail.Byte, Message: errorMessage(details)}
	case rk.ResultInvalidConfig:
		return &ConfigError{Message: errorMessage(details)}
	default:
		return detailedError(code, details)
	}
}

func (b *Bootstrap) pointer() *rk.Bootstrap {
	if b == nil {
		return nil
	}
	return b.inner.pointer()
}

// Close drops the state. It may be called again and beside other calls.
func (b *Bootstrap) Close() error {
	rk.BootstrapFree(b.pointer())
	runtime.KeepAlive(b)
	return nil
}

// Poll returns a step: what to do now, and when to poll again. It replaces the content of dst and reuses its
// capacity.
func (b *Bootstrap) Poll(now time.Duration, dst []byte) ([]byte, error) {
	defer runtime.KeepAlive(b)
	return readBytes(dst, func(buffer []byte, length *uint) rk.Result {
		return rk.BootstrapPoll(b.pointer(), timeToC(now), buffer, length)
	})
}

// Answered reports how the order of this id ended. An answer to an order that was given up is ignored. The error may be
// a *JSONError: the order is still under way then.
func (b *Bootstrap) Answered(now time.Duration, id uint64, answer []byte) error {
	var details rk.Error
	code := rk.BootstrapAnswered(b.pointer(), timeToC(now), id, textOf(answer), &details)
	runtime.KeepAlive(b)
	return jsonError(code, &details)
}

// Watched takes what a watch has seen, as JSON: a change of what the controller keeps makes its next turn due. Poll
// after it. The error may be a *JSONError.
func (b *Bootstrap) Watched(now time.Duration, event []byte) error {
	var details rk.Error
	code := rk.BootstrapWatched(b.pointer(), timeToC(now), textOf(event), &details)
	runtime.KeepAlive(b)
	return jsonError(code, &details)
}

// Stop begins to stop in order: the loops end, own lease and endpoint are removed. Poll and Answered go on until a step
// reports that it has stopped, at most two intervals of the endpoints later.
func (b *Bootstrap) Stop(now time.Duration) error {
	code := rk.BootstrapStop(b.pointer(), timeToC(now))
	runtime.KeepAlive(b)
	return resultError(code)
}

// BootstrapPlan decides one thing without a controller: which namespaces are missing, what is to be done about the
// Service "kubernetes", the own lease, Endpoints and EndpointSlice, or the slice alone. It is for a control plane that
// has loops of its own. Question and answer are JSON in the form that docs/bootstrap-json.md describes; the same
// question has the same answer.
//
// It replaces the content of dst and reuses its capacity. The error may be a *JSONError, also for an object of another
// kind, or a *ConfigError.
func BootstrapPlan(question, dst []byte) ([]byte, error) {
	var details rk.Error
	answer, code := readList(dst, func(buffer []byte, length *uint) rk.Result {
		return rk.BootstrapPlan(textOf(question), buffer, length, &details)
	})
	return answer, jsonError(code, &details)
}
