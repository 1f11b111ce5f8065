//go:build !(linux && amd64)

package clockskew

import (
	"errors"
	"time"
)

// Set fails: it replaces machine code, which it only has for Linux on amd64.
func Set(int, time.Duration) error { return errors.ErrUnsupported }
