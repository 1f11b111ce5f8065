// Package project finds the project's own files: fixtures, and the programs that make builds into bin.
//
// The paths start at the working directory, which go test sets to the package's folder. The place of a source file,
// as [runtime.Caller] returns it, is of no use: with -trimpath, which the Makefile sets, it names the module instead of
// a folder.
package project

import (
	"os"
	"path/filepath"
)

// root is read when the process starts, as a test may change the working directory.
var root = find()

// find returns the nearest folder at or above the working directory that holds testing/testdata/reference. Without
// one it returns the working directory: the error of a missing file names the path then.
func find() string {
	start, err := os.Getwd()
	if err != nil {
		return "."
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "testing", "testdata", "reference")); err == nil {
			return folder
		}
		if folder == filepath.Dir(folder) {
			return start
		}
	}
}

// Path returns the path of a file or folder, named from the project's root.
func Path(elements ...string) string {
	return filepath.Join(append([]string{root}, elements...)...)
}
