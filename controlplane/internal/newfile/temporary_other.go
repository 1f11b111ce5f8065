//go:build !linux

package newfile

import (
	"errors"
	"os"
)

func createNameless(string) (*Temporary, error) { return nil, errors.ErrUnsupported }

// link gives a file one more name.
func link(file, name string) error { return os.Link(file, name) }
