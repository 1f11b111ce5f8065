//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rk

// The static library is linked from a folder that another file names to the linker: checkout.go, or outside of a
// checkout, where rangekeeper.h lies beside this file, the module of the platform, which a program imports through
// go-bindings/native. With the build tag rangekeeper_dynamic an installed shared library is linked.
//
// The library unwinds at a panic. Of libgcc only the static part is linked, as small images have no libgcc_s; the
// library for musl has an unwinder of its own.
//
// No function of the library calls back into Go or keeps a pointer to an argument. native_generated.go declares so for
// each, which keeps its parameters off the heap and takes a third of the time of a short call.

/*
#cgo !rangekeeper_dynamic LDFLAGS: -l:librangekeeper.a
#cgo !rangekeeper_dynamic,!musl LDFLAGS: -lgcc_eh
#cgo !rangekeeper_dynamic LDFLAGS: -lutil -lrt -lpthread -lm -ldl
#cgo rangekeeper_dynamic pkg-config: rangekeeper
*/
import "C"

// BackEnd names the back end.
const BackEnd = "native"
