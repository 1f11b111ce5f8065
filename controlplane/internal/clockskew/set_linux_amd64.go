package clockskew

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// auxvVDSO is AT_SYSINFO_EHDR, the entry of the auxiliary vector with the address of the vDSO.
const auxvVDSO = 33

// maxVDSO is more than any vDSO has.
const maxVDSO = 16 << 10

// Set makes the wall clock of a process that runs Go ahead by whole seconds, or behind if the offset is negative. Its
// monotonic clock stays. The caller is the thread that traces the process, which has not run its first instruction yet.
//
// A program in Go reads the clocks with the functions of the vDSO, code that the kernel maps into each process. Set
// replaces these in the copy of this process by code that asks the kernel and adds the offset.
func Set(pid int, offset time.Duration) error {
	seconds := int64(offset / time.Second)
	if time.Duration(seconds)*time.Second != offset || seconds != int64(int32(seconds)) {
		return fmt.Errorf("clock offset %v is not a number of seconds below 2^31", offset)
	}
	base, err := vdsoAddress(pid)
	if err != nil {
		return err
	}
	image := make([]byte, maxVDSO)
	n, err := unix.PtracePeekData(pid, base, image)
	if n == 0 {
		return fmt.Errorf("read the vDSO of process %d: %w", pid, err)
	}
	file, err := elf.NewFile(bytes.NewReader(image[:n]))
	if err != nil {
		return fmt.Errorf("the vDSO of process %d: %w", pid, err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("the vDSO of process %d: %w", pid, err)
	}
	for name, code := range map[string][]byte{
		"__vdso_clock_gettime": code(unix.SYS_CLOCK_GETTIME, true, int32(seconds)),
		"__vdso_gettimeofday":  code(unix.SYS_GETTIMEOFDAY, false, int32(seconds)),
	} {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
		if i < 0 || symbols[i].Size < uint64(len(code)) {
			return fmt.Errorf("the vDSO of process %d has no function %s of %d bytes", pid, name, len(code))
		}
		if _, err := unix.PtracePokeData(pid, base+uintptr(symbols[i].Value), code); err != nil {
			return fmt.Errorf("replace %s of process %d: %w", name, pid, err)
		}
	}
	return nil
}

// code is a function that performs a system call and adds seconds to the result. With clocks, its first argument
// selects a clock, of which only CLOCK_REALTIME changes, and its second one points to the result; otherwise the first
// one points to it.
func code(call uint32, clocks bool, seconds int32) []byte {
	c := binary.LittleEndian.AppendUint32([]byte{0xb8}, call) // mov eax, call
	c = append(c, 0x0f, 0x05)                                 // syscall
	pointer := byte(0x07)                                     // [rdi]
	if clocks {
		pointer = 0x06            // [rsi]
		c = append(c, 0x85, 0xff) // test edi, edi: CLOCK_REALTIME is 0
		c = append(c, 0x75, 3+4)  // jne to ret
	}
	c = append(c, 0x48, 0x81, pointer) // add qword [pointer], seconds
	c = binary.LittleEndian.AppendUint32(c, uint32(seconds))
	return append(c, 0xc3) // ret
}

func vdsoAddress(pid int) (uintptr, error) {
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for entry := range slices.Chunk(auxv, 16) {
		if len(entry) == 16 && binary.LittleEndian.Uint64(entry) == auxvVDSO {
			if address := binary.LittleEndian.Uint64(entry[8:]); address < math.MaxInt64 {
				return uintptr(address), nil
			}
		}
	}
	return 0, fmt.Errorf("process %d has no vDSO", pid)
}
