// Package version knows the version of the program.
package version

import "runtime/debug"

// Number is the version without the commit.
const Number = "0.1.0"

// Commit is set by the linker: -X .../internal/cli/version.Commit=...
var Commit string

// Text has the commit where it is known: `go install MODULE@VERSION` does not record one.
func Text() string {
	revision := Commit
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if revision == "" {
		return Number
	}
	return Number + " (commit " + revision + ")"
}
