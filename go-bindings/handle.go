package rangekeeper

import (
	"runtime"
	"unsafe"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// A handle is a Go struct with an object of the library in it.
//
//   - Close frees the object; a call that runs beside it comes before or finds a closed object. One that was forgotten
//     is freed by a cleanup once nothing in Go refers to it, or, in pure Go, is collected with it.
//   - Each call is followed by runtime.KeepAlive, or else the cleanup might run before the call.
//   - A nil pointer (of a zero value or a nil receiver) is passed as NULL, and the library's answer becomes ErrClosed.

// BackEnd names the back end with which the program is built: "pure Go" or "native".
const BackEnd = rk.BackEnd

// object is an object of the library that is freed once the garbage collector finds nothing that refers to it.
// Handles hold a pointer to it, so that a handle may be copied. P is a pointer to the object.
type object[P any] struct {
	c P
	// One without a field that Go scans would share its memory with other small objects, and its cleanup would wait
	// for all of those.
	_ [2]uintptr
}

func own[P interface{ IsAlone() bool }](c P, free func(P)) *object[P] {
	o := &object[P]{c: c}
	if !c.IsAlone() {
		runtime.AddCleanup(o, free, c)
	}
	return o
}

// pointer returns the object; NULL if there is none.
func (o *object[P]) pointer() (c P) {
	if o != nil {
		c = o.c
	}
	return c
}

// readList calls read until the buffer is large enough: it replaces the content of dst and reuses its capacity. The
// list is nil if the result is not OK.
func readList[T any](dst []T, read func(buffer []T, length *uint) rk.Result) ([]T, rk.Result) {
	var length uint
	for {
		code := read(dst[:cap(dst)], &length)
		switch code {
		case rk.ResultOK:
			return dst[:length], code
		case rk.ResultBufferTooSmall:
			dst = make([]T, length)
		default:
			return nil, code
		}
	}
}

// readBytes is readList for bytes, of a function without details.
func readBytes(dst []byte, read func(buffer []byte, length *uint) rk.Result) ([]byte, error) {
	b, code := readList(dst, read)
	return b, resultError(code)
}

// readText is readBytes for texts, which are short.
func readText(read func(buffer []byte, length *uint) rk.Result) (string, error) {
	b, err := readBytes(make([]byte, 0, 256), read)
	return string(b), err
}

// textOf returns bytes as a text for one call.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
