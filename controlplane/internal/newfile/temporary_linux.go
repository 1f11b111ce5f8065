package newfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func createNameless(dir string) (*Temporary, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if _, err := os.Stat(path); err != nil { // without /proc it cannot get a name
		unix.Close(fd)
		return nil, err
	}
	return &Temporary{os.NewFile(uintptr(fd), path), false}, nil
}

// link gives a file one more name, also one that has none.
func link(file, name string) error {
	return unix.Linkat(unix.AT_FDCWD, file, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}
