package snapshotfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestPublish publishes a file at a free name and at one that another process has taken, with and without hard links.
func TestPublish(t *testing.T) {
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	for name, link := range map[string]func(string, string) error{"links": os.Link, "no links": noLinks} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			src, written, taken, free := filepath.Join(dir, "src"), filepath.Join(dir, "written"), filepath.Join(dir, "taken"), filepath.Join(dir, "free")
			for _, path := range []string{src, written, taken} {
				if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := publish(link, written, src, taken, false); !errors.Is(err, fs.ErrExist) {
				t.Errorf("taken: %v", err)
			}
			if err := publish(link, written, src, free, false); err != nil {
				t.Errorf("free: %v", err)
			}
			for path, want := range map[string]string{taken: "taken", free: "written"} {
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
			if err := publish(link, free, src, taken, true); err != nil {
				t.Errorf("overwrite: %v", err)
			}
			if err := publish(link, written, src, src, true); err == nil {
				t.Error("the snapshot that is read was overwritten")
			}
			for path, want := range map[string]string{taken: "written", src: "src"} {
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
		})
	}

	// The name is taken at the moment of the link: only the link itself can find that out.
	dir := t.TempDir()
	written, dst := filepath.Join(dir, "written"), filepath.Join(dir, "dst")
	if err := os.WriteFile(written, []byte("written"), 0o600); err != nil {
		t.Fatal(err)
	}
	late := func(written, dst string) error {
		if err := os.WriteFile(dst, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		return os.Link(written, dst)
	}
	if err := publish(late, written, written, dst, false); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if got, err := os.ReadFile(dst); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}
