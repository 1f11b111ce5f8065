//go:build linux && amd64 && !race

package leaf

import (
	"testing"
	"unsafe"
)

// A busy stack is left alone: the function, here one that is none, is not called.
func TestBusy(t *testing.T) {
	s := Pick()
	if s == nil {
		t.Fatal("no stack")
	}
	word := (*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&s.top)))
	*word = 1
	for name, stack := range map[string]*Stack{"in use": s, "nil": nil} {
		if result := stack.CallWith(nil, 1, 2, 3, 4); result != Busy {
			t.Errorf("%s: %x", name, result)
		}
		if high, low, kind, result := stack.CallFor(nil, 1); high|low|uint64(kind) != 0 || result != Busy {
			t.Errorf("%s: %x %x %x %x", name, high, low, kind, result)
		}
	}
	if *word != 1 {
		t.Error("a stack in use was given back")
	}
	*word = 0
}

// However many allocators there are, the process maps no more stacks.
func TestPick(t *testing.T) {
	tops := map[uintptr]bool{}
	for range 10 * count {
		tops[Pick().top] = true
	}
	if len(tops) != count {
		t.Errorf("%d stacks", len(tops))
	}
}

func TestResult(t *testing.T) {
	if r := Result(1<<32 | 17); r.Code() != 17 || !r.Flag() {
		t.Error(r.Code(), r.Flag())
	}
	if r := Result(17); r.Flag() {
		t.Error("a flag from nowhere")
	}
}
