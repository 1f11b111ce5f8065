package rangekeeper

// #include <rangekeeper.h>
import "C"

import "fmt"

// compiledABI is the version of the C ABI that the header describes.
const compiledABI = C.RK_ABI_VERSION

// A program that is linked to another library than the package was compiled for would misread memory, so it does not start.
func init() {
	if err := checkABI(uint32(C.rk_abi_version())); err != nil {
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
