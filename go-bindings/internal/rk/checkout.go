//go:build cgo && rangekeeper_native && !rangekeeper_dynamic

package rk

// The header and the static library of this checkout. The published module does not have this file.

/*
#cgo CFLAGS: -I${SRCDIR}/../../../include
#cgo LDFLAGS: -L${SRCDIR}/../../../target/release
*/
import "C"
