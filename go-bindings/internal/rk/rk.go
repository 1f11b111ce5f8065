// Package rk is the C ABI as Go sees it, with two back ends that have the same functions: native calls the library
// through cgo, pure the same library as Go source, which wasm2go makes from its WebAssembly.
//
// Types, constants and functions are generated from include/rangekeeper.h, whose conventions hold here, too. A pointer
// and its length are a slice or a string, and the pointer to a handle is nil where that of C is NULL.
package rk

// Result is rk_result.
type Result uint32

// ResultNoMemory is what pure Go returns instead of a call that might need more memory than an object can have. In C
// the process ends where there is no memory.
const ResultNoMemory Result = 1 << 16

// ResultClosed is what a call with a handle returns that was freed. XFree may be called again, and beside other calls,
// as it may not in C.
const ResultClosed Result = 1<<16 + 1
