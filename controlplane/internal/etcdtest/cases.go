package etcdtest

import "os"

// Cases is how many cases a random test plays: count, or five times as many with RANGEKEEPER_NIGHTLY set, as
// `make nightly` does. Floors count with it.
func Cases(count int) int {
	if os.Getenv("RANGEKEEPER_NIGHTLY") != "" {
		return 5 * count
	}
	return count
}
