//go:build (rangekeeper_native || rangekeeper_dynamic) && !cgo

package rk

// Without this file the program would get the other back end without a word.
const needsCgo int = "the build tags rangekeeper_native and rangekeeper_dynamic need cgo: set CGO_ENABLED=1 and install a C compiler, or leave the tag out for pure Go"
