// Command modules fills OUT/proxy, a module proxy in a folder, with the project's Go modules as programs outside of the
// checkout use them: at one version, without replace directives, with the code that `make purego` writes and the
// libraries that release/native.sh has put into OUT/lib. The same checkout has the same bytes.
//
//	modules CHECKOUT OUT
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing/fstest"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: modules CHECKOUT OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "modules:", err)
		os.Exit(1)
	}
}

func run(checkout, out string) error {
	proxy, err := newProxy(checkout, filepath.Join(out, "proxy"))
	if err != nil {
		return err
	}
	for _, p := range platforms {
		files, err := p.files(filepath.Join(out, "lib"))
		if err != nil {
			return err
		}
		if err := proxy.add(nativeModule+"/"+p.name(), files); err != nil {
			return err
		}
	}
	if err := proxy.add(nativeModule, nativeFiles()); err != nil {
		return err
	}
	binding, err := bindingFiles(checkout)
	if err != nil {
		return err
	}
	// It contains the same crates, translated.
	if err := read(binding, filepath.Join(out, "lib", platforms[0].name(), noticesName), noticesName); err != nil {
		return err
	}
	if err := proxy.add("go-bindings", binding); err != nil {
		return err
	}
	for _, folder := range []string{"go-bindings/etcdstore", "controlplane", "compat"} {
		files, err := trackedFiles(checkout, folder)
		if err != nil {
			return err
		}
		if err := proxy.add(folder, files); err != nil {
			return err
		}
	}
	return nil
}

// bindingFiles adds to the binding's sources what lies elsewhere in a checkout.
func bindingFiles(checkout string) (fstest.MapFS, error) {
	files, err := trackedFiles(checkout, "go-bindings")
	if err != nil {
		return nil, err
	}
	// Another module, commands that work on a checkout, and where that has its library.
	other := regexp.MustCompile(`^(etcdstore/|internal/sequences/|internal/rk/generate/|internal/rk/checkout\.go$)`)
	for name := range files {
		if other.MatchString(name) {
			delete(files, name)
		}
	}
	// The pattern, and the part of the names that stays out of the module.
	for _, add := range [][2]string{
		{"go-bindings/internal/wasm/*/*.go", "go-bindings"},
		{"go-bindings/internal/wasm/LICENSE.*", "go-bindings"},
		{"include/rangekeeper.h", "include"},
		// The files that tests read.
		{"go-bindings/testdata/commit/*.txt", "go-bindings"},
		{"go-bindings/testdata/kube-*/*.bin.gz", "go-bindings"},
		{"go-bindings/testdata/bootstrap-json.md", "go-bindings"},
	} {
		names, err := filepath.Glob(filepath.Join(checkout, add[0]))
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no file %s in the checkout (was `make purego` run?): %w", add[0], err)
		}
		for _, name := range names {
			inside, err := filepath.Rel(filepath.Join(checkout, add[1]), name)
			if err != nil {
				return nil, err
			}
			if inside == "rangekeeper.h" {
				inside = "internal/rk/rangekeeper.h"
			}
			if err := read(files, name, inside); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// trackedFiles reads the files below a folder of the checkout that git tracks.
func trackedFiles(checkout, folder string) (fstest.MapFS, error) {
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = filepath.Join(checkout, folder)
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w", list.Dir, err)
	}
	files := fstest.MapFS{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(list.Dir, name))
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if err := read(files, filepath.Join(list.Dir, name), name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func read(files fstest.MapFS, from, name string) error {
	content, err := os.ReadFile(from)
	files[name] = &fstest.MapFile{Data: content, Mode: 0o644}
	return err
}
