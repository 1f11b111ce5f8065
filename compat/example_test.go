package compat_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/net"

	"github.com/rangekeeper/rangekeeper/compat/allocator"
	"github.com/rangekeeper/rangekeeper/compat/portallocator"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The program of a project that imports the allocators of k8s.io/kubernetes, with two other import lines.
func Example() {
	ports, err := net.ParsePortRange("20000-20002")
	if err != nil {
		panic(err)
	}
	all, err := portallocator.New(*ports, func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
		return allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(all.Allocate(20001), all.Allocate(20001))
	for range 2 {
		if _, err := all.AllocateNext(); err != nil {
			panic(err)
		}
	}
	_, err = all.AllocateNext()
	fmt.Println(err, all.Free())
	// Output:
	// <nil> provided port is already allocated
	// range is full 0
}

// A project with a bitmap of its own: the same bytes, found in any fill.
func Example_ownBitmap() {
	stored := []byte{0b101} // big-endian, bit n is number n
	numbers, err := rangekeeper.Numbers(4096, 0)
	if err != nil {
		panic(err)
	}
	ids, err := rangekeeper.NewAllocator(numbers, rangekeeper.Contiguous, 0)
	if err != nil {
		panic(err)
	}
	defer ids.Close()
	if err := ids.Restore(numbers.String(), stored); err != nil {
		panic(err)
	}
	next, err := ids.AllocateNext()
	if err != nil {
		panic(err)
	}
	data, err := ids.Snapshot(nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d %b %d free\n", next.Number(), data, ids.Free())
	// Output: 1 [111] 4093 free
}
