package allocator

import (
	"math/big"
	"math/bits"
)

// countBits is how many bits of n are set.
func countBits(n *big.Int) int {
	count := 0
	for _, word := range n.Bits() {
		count += bits.OnesCount(uint(word))
	}
	return count
}
