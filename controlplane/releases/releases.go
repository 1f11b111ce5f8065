// Package releases lists the releases of Kubernetes that Rangekeeper is put into and tested with.
package releases

import (
	_ "embed"
	"strings"
)

// The Makefile and scripts read the file as well.
//
//go:embed releases.txt
var listed string

// All returns them, such as "1.36.3", the newest one first.
func All() []string {
	return strings.Fields(listed)
}

// Of returns the one of a minor version, such as "1.36.3" of "1.36". It panics if there is none: the caller names
// one that is in the list.
func Of(minor string) string {
	for _, release := range All() {
		if strings.HasPrefix(release, minor+".") {
			return release
		}
	}
	panic("no release of Kubernetes " + minor + " is listed")
}
