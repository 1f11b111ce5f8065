package newfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPublish publishes a file, with and without a name of its own, at a free name and at one that another process has
// taken, with and without hard links.
func TestPublish(t *testing.T) {
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	for name, c := range map[string]struct {
		link    func(string, string) error
		isNamed bool
	}{"links": {link, true}, "no links": {noLinks, true}, "no name": {link, false}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			src, taken, free := filepath.Join(dir, "src"), filepath.Join(dir, "taken"), filepath.Join(dir, "free")
			for _, path := range []string{src, taken} {
				if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			publish := func(target Target) error {
				t.Helper()
				written := temporary(t, dir, c.isNamed)
				defer written.Remove()
				return target.publish(c.link, written)
			}
			if err := publish(Target{Path: taken, Source: src}); !errors.Is(err, fs.ErrExist) {
				t.Errorf("taken: %v", err)
			}
			if err := publish(Target{Path: free, Source: src}); err != nil {
				t.Errorf("free: %v", err)
			}
			for path, want := range map[string]string{taken: "taken", free: "written"} {
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
			if err := publish(Target{Path: taken, Overwrite: true, Source: src}); err != nil {
				t.Errorf("overwrite: %v", err)
			}
			if err := publish(Target{Path: src, Overwrite: true, Source: src}); err == nil {
				t.Error("the snapshot that is read was overwritten")
			}
			for path, want := range map[string]string{taken: "written", src: "src"} {
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
				t.Errorf("left behind: %v, %v", all, err)
			}
		})
	}

	// The name is taken at the moment of the link: only the link itself can find that out.
	dir := t.TempDir()
	dst := filepath.Join(dir, "dst")
	late := func(file, name string) error {
		if err := os.WriteFile(name, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		return link(file, name)
	}
	written := temporary(t, dir, false)
	defer written.Remove()
	if err := (Target{Path: dst}).publish(late, written); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if got, err := os.ReadFile(dst); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}

// temporary returns a file with the content "written". One without a name leaves nothing when the process is killed.
func temporary(t *testing.T, dir string, isNamed bool) *Temporary {
	t.Helper()
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	written, err := Create(dir)
	if isNamed && err == nil {
		written.Remove()
		var file *os.File
		if file, err = os.CreateTemp(dir, "named"); err == nil {
			written = &Temporary{file, true}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := written.WriteString("written"); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadDir(dir); err != nil || !isNamed && len(after) != len(before) {
		t.Errorf("a process that is killed leaves %v, %v", after, err)
	}
	return written
}

// TestWrite writes files where nothing is, and where something is already.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file, link, full := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "none", "file")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		Target
		want string
	}{
		{"new", Target{Path: file}, ""},
		{"again", Target{Path: file}, "file already exists"},
		{"overwritten", Target{Path: file, Overwrite: true}, ""},
		{"symbolic link", Target{Path: link, Overwrite: true}, "is not a regular file"},
		{"directory", Target{Path: dir, Overwrite: true}, "is not a regular file"},
		{"no directory", Target{Path: full}, "write " + full},
	} {
		before, _ := os.ReadFile(file)
		err := c.Write([]byte(c.name))
		after, _ := os.ReadFile(file)
		switch {
		case c.want == "" && (err != nil || string(after) != c.name):
			t.Errorf("%s: %v, %q", c.name, err, after)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || string(after) != string(before)):
			t.Errorf("%s: %v, %q", c.name, err, after)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestWriteNothing writes to a directory that takes no byte more: what is there stays.
func TestWriteNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := (Target{Path: file}).Write([]byte("precious")); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	forced, other := Target{Path: file, Overwrite: true}.Write([]byte("new")), Target{Path: filepath.Join(dir, "other")}.Write([]byte("new"))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(file); forced == nil || other == nil || err != nil || string(content) != "precious" {
		t.Errorf("%v, %v, %q, %v", forced, other, content, err)
	}
	if want := "write " + filepath.Join(dir, "other") + ": file too large"; other == nil || other.Error() != want {
		t.Errorf("%v, want %s", other, want)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
