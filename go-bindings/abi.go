//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rangekeeper

import (
	"fmt"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// compiledABI is the version of the C ABI that the header describes.
const compiledABI = rk.HeaderABIVersion

// A program that is linked to another library than the package was compiled for would misread memory, so it does not
// start.
func init() {
	if err := checkABI(rk.ABIVersion()); err != nil {
		panic(err)
	}
}

func checkABI(linked uint32) error {
	if linked == compiledABI {
		return nil
	}
	return fmt.Errorf("rangekeeper: the linked library has C ABI version %d, but this program was compiled for version %d: build or install the library of the same release",
		linked, compiledABI)
}
