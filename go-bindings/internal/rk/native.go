//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rk

// In a checkout this links the static library of target/release. Elsewhere that folder does not exist: the module of a platform,
// which the program imports through go-bindings/native, names its own folder to the linker, and rangekeeper.h lies beside this
// file. With the build tag rangekeeper_dynamic an installed shared library is linked.
//
// The library unwinds at a panic. Of libgcc only the static part is linked, as small images have no libgcc_s; the library for
// musl has an unwinder of its own.
//
// No function of the library calls back into Go or keeps a pointer to an argument. native_generated.go declares so for each,
// which keeps its parameters off the heap and takes a third of the time of a short call.

/*
#cgo !rangekeeper_dynamic CFLAGS: -I${SRCDIR}/../../../include
#cgo !rangekeeper_dynamic LDFLAGS: -L${SRCDIR}/../../../target/release -l:librangekeeper.a
#cgo !rangekeeper_dynamic,!musl LDFLAGS: -lgcc_eh
#cgo !rangekeeper_dynamic LDFLAGS: -lutil -lrt -lpthread -lm -ldl
#cgo rangekeeper_dynamic pkg-config: rangekeeper
*/
import "C"
