// Takes the value of /registry/ranges/serviceips on stdin, allocates a ClusterIP, and writes the value to put back.
package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	stored := must(io.ReadAll(os.Stdin))
	object := must(rangekeeper.DecodeRangeAllocation(stored))
	text, data := must(object.Range()), must(object.Data(nil))

	cidr := must(rangekeeper.ParseCIDR(text))
	allocator := must(rangekeeper.NewAllocator(cidr, rangekeeper.DynamicBandFirst, rand.Uint64()))
	if err := allocator.Restore(text, data); err != nil {
		log.Fatal(err)
	}
	address := must(allocator.AllocateNext())
	fmt.Fprintln(os.Stderr, address)

	if err := object.Set(text, must(allocator.Snapshot(data))); err != nil {
		log.Fatal(err)
	}
	must(os.Stdout.Write(must(object.Encode(nil))))
}
