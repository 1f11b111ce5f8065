// Package newfile makes files appear complete or not at all.
package newfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Target is where a file is to appear.
type Target struct {
	Path string
	// Overwrite replaces a regular file there.
	Overwrite bool
	// Source is a file that is never replaced; empty for none.
	Source string
}

// Check refuses to write where something is already, be it a symbolic link to nothing. With Overwrite it accepts a
// regular file that is not the source.
func (t Target) Check() error {
	there, err := os.Lstat(t.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if t.Source != "" {
		from, err := os.Stat(t.Source)
		if err != nil {
			return err
		}
		if to, err := os.Stat(t.Path); err == nil && os.SameFile(from, to) {
			return fmt.Errorf("%s: is the snapshot that is read; write to another file", t.Path)
		}
	}
	switch {
	case !there.Mode().IsRegular():
		return fmt.Errorf("%s: exists and is not a regular file, so it is not replaced; write to another file", t.Path)
	case t.Overwrite:
		return nil
	}
	return fmt.Errorf("%s: %w", t.Path, fs.ErrExist)
}

// Publish makes the file written, which was created in the same directory, appear at the target, where another process
// may have made something meanwhile. A hard link never replaces that; only with Overwrite a rename does. A file system
// without hard links leaves a moment between the check and the rename.
func (t Target) Publish(written *Temporary) error { return t.publish(link, written) }

func (t Target) publish(link func(file, name string) error, written *Temporary) error {
	if link(written.Name(), t.Path) != nil {
		if err := t.Check(); err != nil {
			return err
		}
		name := written.Name()
		if !written.isNamed {
			name = filepath.Join(filepath.Dir(t.Path), ".rangekeeper-"+rand.Text())
			if err := link(written.Name(), name); err != nil {
				return fmt.Errorf("write %s: %w", t.Path, err)
			}
		}
		if err := os.Rename(name, t.Path); err != nil {
			if !written.isNamed {
				os.Remove(name)
			}
			return fmt.Errorf("write %s: %w", t.Path, err)
		}
	}
	return syncDir(filepath.Dir(t.Path))
}

// Write writes a file that only its owner can read.
func (t Target) Write(content []byte) error {
	if err := t.Check(); err != nil {
		return err
	}
	out, err := Create(filepath.Dir(t.Path))
	if err != nil {
		return t.Failed(err)
	}
	defer out.Remove()
	if _, err = out.Write(content); err == nil {
		err = out.Sync()
	}
	if err != nil {
		return t.Failed(err)
	}
	return t.Publish(out)
}

// Failed is the error of a target whose temporary file could not be written. It has the name that the user has given,
// and not that of the temporary file.
func (t Target) Failed(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Op != "read" {
		err = path.Err
	}
	return fmt.Errorf("write %s: %w", t.Path, err)
}

// syncDir makes a new name within dir survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
