//go:build linux && amd64 && !race

#include "textflag.h"

// The C functions get by the System V ABI: handle in DI, the address of their result in SI, a value in memory at the end
// of the stack. They keep BX, BP and R12 to R15, so R14 (g) too; the goroutine's stack pointer is kept in R12. R10 is top.

// Takes the stack, or goes to busy.
#define ENTER \
	MOVQ top+0(FP), R10; \
	TESTQ R10, R10; \
	JEQ  busy; \
	XORL AX, AX; \
	MOVL $1, CX; \
	LOCK; \
	CMPXCHGL CX, (R10); \
	JNE  busy; \
	MOVQ function+8(FP), AX; \
	MOVQ handle+16(FP), DI

// Gives the stack back: on this machine a plain store is seen after all that came before it.
#define LEAVE \
	LEAQ 64(SP), R10; \
	MOVQ R12, SP; \
	MOVL $0, (R10)

// func callWith(top uintptr, function unsafe.Pointer, handle uintptr, high, low uint64, kind uint32) (result Result)
TEXT ·callWith(SB), NOSPLIT, $0-56
	ENTER
	MOVQ high+24(FP), R8
	MOVQ low+32(FP), R9
	MOVL kind+40(FP), R11
	MOVQ SP, R12
	LEAQ -64(R10), SP
	MOVQ R8, 0(SP)
	MOVQ R9, 8(SP)
	MOVQ R11, 16(SP)
	LEAQ 32(SP), SI
	MOVB $0, (SI)
	CALL AX
	MOVBLZX 32(SP), CX
	LEAVE
	SHLQ $32, CX
	MOVL AX, AX
	ORQ  CX, AX
	MOVQ AX, result+48(FP)
	RET

busy:
	MOVQ $-1, result+48(FP)
	RET

// func callFor(top uintptr, function unsafe.Pointer, handle uintptr) (high, low uint64, kind uint32, result Result)
TEXT ·callFor(SB), NOSPLIT, $0-56
	ENTER
	MOVQ SP, R12
	LEAQ -64(R10), SP
	LEAQ 32(SP), SI
	CALL AX
	MOVQ 32(SP), R8
	MOVQ 40(SP), R9
	MOVL 48(SP), R11
	LEAVE
	MOVL AX, AX
	MOVQ R8, high+24(FP)
	MOVQ R9, low+32(FP)
	MOVL R11, kind+40(FP)
	MOVQ AX, result+48(FP)
	RET

busy:
	MOVQ $0, high+24(FP)
	MOVQ $0, low+32(FP)
	MOVL $0, kind+40(FP)
	MOVQ $-1, result+48(FP)
	RET
