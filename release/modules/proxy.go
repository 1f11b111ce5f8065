package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

const repository = "github.com/rangekeeper/rangekeeper/"

// proxy is a folder as GOPROXY=file://... reads it.
type proxy struct {
	folder, version string
	time            time.Time
	license         []byte
	// sums has the lines of go.sum for each module that was added.
	sums map[string][]string
}

func newProxy(checkout, folder string) (*proxy, error) {
	p := &proxy{folder: folder, sums: map[string][]string{}}
	workspace, err := os.ReadFile(filepath.Join(checkout, "Cargo.toml"))
	if err != nil {
		return nil, err
	}
	version := regexp.MustCompile(`(?m)^\[workspace\.package\]\nversion = "(.*)"$`).FindSubmatch(workspace)
	if version == nil {
		return nil, fmt.Errorf("%s has no version of the workspace", filepath.Join(checkout, "Cargo.toml"))
	}
	p.version = "v" + string(version[1])
	commit := exec.Command("git", "log", "-1", "--format=%cI")
	commit.Dir = checkout
	date, err := commit.Output()
	if err != nil {
		return nil, fmt.Errorf("git log: %w", err)
	}
	if p.time, err = time.Parse(time.RFC3339, strings.TrimSpace(string(date))); err != nil {
		return nil, err
	}
	if p.license, err = os.ReadFile(filepath.Join(checkout, "LICENSE")); err != nil {
		return nil, err
	}
	return p, os.RemoveAll(folder)
}

// add publishes a module, whose requirements among the project's modules were added before.
func (p *proxy) add(folder string, files fstest.MapFS) error {
	if err := p.addFiles(folder, files); err != nil {
		return fmt.Errorf("module %s: %w", folder, err)
	}
	return nil
}

func (p *proxy) addFiles(folder string, files fstest.MapFS) error {
	mod, err := p.published(files["go.mod"], files["go.sum"])
	if err != nil {
		return err
	}
	if files["LICENSE"] == nil {
		files["LICENSE"] = &fstest.MapFile{Data: p.license, Mode: 0o644}
	}
	at := module.Version{Path: repository + folder, Version: p.version}
	escaped, err := module.EscapePath(at.Path)
	if err != nil {
		return err
	}
	into := filepath.Join(p.folder, escaped, "@v")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	var entries []zip.File
	for name := range files {
		entries = append(entries, entry{files, name})
	}
	slices.SortFunc(entries, func(a, b zip.File) int { return strings.Compare(a.Path(), b.Path()) })
	var packed bytes.Buffer
	if err := zip.Create(&packed, at, entries); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{p.version, p.time.UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		p.version + ".zip": packed.Bytes(), p.version + ".mod": mod, p.version + ".info": info, "list": []byte(p.version + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(into, name), content, 0o644); err != nil {
			return err
		}
	}
	return p.sum(at, filepath.Join(into, p.version+".zip"), mod)
}

// published rewrites go.mod and go.sum: the project's own modules are required at the version, and not replaced.
func (p *proxy) published(mod, sum *fstest.MapFile) ([]byte, error) {
	file, err := modfile.Parse("go.mod", mod.Data, nil)
	if err != nil {
		return nil, err
	}
	for _, replace := range slices.Clone(file.Replace) {
		if !strings.HasPrefix(replace.Old.Path, repository) {
			return nil, fmt.Errorf("go.mod replaces %s, which does not hold for a program that requires the module", replace.Old.Path)
		}
		if err := file.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return nil, err
		}
	}
	var sums []string
	for _, require := range slices.Clone(file.Require) {
		if !strings.HasPrefix(require.Mod.Path, repository) {
			continue
		}
		if p.sums[require.Mod.Path] == nil {
			return nil, fmt.Errorf("go.mod requires %s, which is not published", require.Mod.Path)
		}
		if err := file.AddRequire(require.Mod.Path, p.version); err != nil {
			return nil, err
		}
		sums = append(sums, p.sums[require.Mod.Path]...)
	}
	file.Cleanup()
	if mod.Data, err = file.Format(); err != nil {
		return nil, err
	}
	if sum != nil {
		for line := range strings.Lines(string(sum.Data)) {
			sums = append(sums, strings.TrimSpace(line))
		}
		slices.Sort(sums)
		sum.Data = []byte(strings.Join(sums, "\n") + "\n")
	}
	return mod.Data, nil
}

func (p *proxy) sum(at module.Version, zip string, mod []byte) error {
	content, err := dirhash.HashZip(zip, dirhash.DefaultHash)
	if err != nil {
		return err
	}
	alone, err := dirhash.DefaultHash([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(mod)), nil })
	if err != nil {
		return err
	}
	p.sums[at.Path] = []string{
		fmt.Sprintf("%s %s %s", at.Path, at.Version, content),
		fmt.Sprintf("%s %s/go.mod %s", at.Path, at.Version, alone),
	}
	return nil
}

// entry is a file of a module's zip.
type entry struct {
	files fstest.MapFS
	name  string
}

func (e entry) Path() string                 { return e.name }
func (e entry) Lstat() (fs.FileInfo, error)  { return e.files.Stat(e.name) }
func (e entry) Open() (io.ReadCloser, error) { return e.files.Open(e.name) }
