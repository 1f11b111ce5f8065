package rangekeeper

// #include <rangekeeper.h>
import "C"

import "unsafe"

// Go sees a C union as bytes. These read the member of rk_detail that detail_kind names, for results that always have it;
// only detailRequest reports whether it is there.

func detailByte(details *C.rk_error) uint64 {
	return *(*uint64)(unsafe.Pointer(&details.detail))
}

func detailBits(details *C.rk_error) (highest, offset uint64) {
	bits := (*C.rk_bits_past_range)(unsafe.Pointer(&details.detail))
	return uint64(bits.highest_offset), uint64(bits.byte)
}

func detailRequest(details *C.rk_error) (index int, ok bool) {
	return int(*(*uint64)(unsafe.Pointer(&details.detail))), details.detail_kind == C.RK_DETAIL_REQUEST
}

func detailBitmap(details *C.rk_error) uint32 {
	return *(*uint32)(unsafe.Pointer(&details.detail))
}
