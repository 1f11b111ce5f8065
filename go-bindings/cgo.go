package rangekeeper

// The static library of this checkout is linked, or with the build tag rangekeeper_dynamic an installed shared one.
//
// No function calls back into Go or keeps a pointer to an argument. Declaring so for a function keeps its parameters off the
// heap, which takes a third of the time of the calls below (go test -bench .). The time of all others does not depend on it.

/*
#cgo !rangekeeper_dynamic CFLAGS: -I${SRCDIR}/../include
#cgo !rangekeeper_dynamic LDFLAGS: ${SRCDIR}/../target/release/librangekeeper.a -lgcc_s -lutil -lrt -lpthread -lm -ldl
#cgo rangekeeper_dynamic pkg-config: rangekeeper

#cgo noescape rk_range_offset_of
#cgo nocallback rk_range_offset_of
#cgo noescape rk_range_value_at
#cgo nocallback rk_range_value_at
#cgo noescape rk_index_reserve
#cgo nocallback rk_index_reserve
#cgo noescape rk_index_confirm
#cgo nocallback rk_index_confirm
#cgo noescape rk_index_removed
#cgo nocallback rk_index_removed
#cgo noescape rk_index_usage
#cgo nocallback rk_index_usage
#cgo noescape rk_allocator_allocate
#cgo nocallback rk_allocator_allocate
#cgo noescape rk_allocator_allocate_next
#cgo nocallback rk_allocator_allocate_next
#cgo noescape rk_allocator_release
#cgo nocallback rk_allocator_release
#cgo noescape rk_allocator_has
#cgo nocallback rk_allocator_has
#cgo noescape rk_allocator_used
#cgo nocallback rk_allocator_used
#cgo noescape rk_allocator_snapshot
#cgo nocallback rk_allocator_snapshot

#include <rangekeeper.h>
*/
import "C"
