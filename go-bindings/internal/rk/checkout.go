//go:build cgo && rangekeeper_native && !rangekeeper_dynamic

package rk

// The header of this checkout, whose Makefile names the folder of the static library to the linker, in LIBRARY_PATH.
// The published module does not have this file.

/*
#cgo CFLAGS: -I${SRCDIR}/../../../include
*/
import "C"
