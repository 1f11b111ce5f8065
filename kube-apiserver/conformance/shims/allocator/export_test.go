package allocator

import (
	"math/big"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// countBits returns the number of set bits to the released tests. The core library counts them.
func countBits(n *big.Int) int {
	numbers := must(rangekeeper.Numbers(uint32(n.BitLen())+1, 0))
	used := must(rangekeeper.NewAllocator(numbers, rangekeeper.Contiguous, 0))
	defer used.Close()
	if err := used.Restore(numbers.String(), n.Bytes()); err != nil {
		panic(err)
	}
	return used.Used()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
