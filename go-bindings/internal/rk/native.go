//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rk

// The static library of this checkout is linked, or with the build tag rangekeeper_dynamic an installed shared one.
//
// No function of the library calls back into Go or keeps a pointer to an argument. native_generated.go declares so for each,
// which keeps its parameters off the heap and takes a third of the time of a short call.

/*
#cgo !rangekeeper_dynamic CFLAGS: -I${SRCDIR}/../../../include
#cgo !rangekeeper_dynamic LDFLAGS: ${SRCDIR}/../../../target/release/librangekeeper.a -lgcc_s -lutil -lrt -lpthread -lm -ldl
#cgo rangekeeper_dynamic pkg-config: rangekeeper
*/
import "C"
