// Package plugin is the program kubectl-rangekeeper, kubectl's plugin: rangekeeper without the commands and the store
// that run servers.
package plugin

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli"
)

// Program is the program kubectl-rangekeeper.
var Program = cli.Program{
	Name: "kubectl rangekeeper",
	About: `. The program rangekeeper has the same commands, and those
that run control planes`,
	StoreHelp: `; the program rangekeeper can keep it in a directory as well`,
}

// Arguments returns those of a command from the words that the process was started with. kubectl completes the words of
// a plugin by a program kubectl_complete-NAME, which is a symbolic link to this one.
func Arguments(words []string) []string {
	if strings.HasPrefix(filepath.Base(words[0]), "kubectl_complete-") {
		return append([]string{cobra.ShellCompRequestCmd}, words[1:]...)
	}
	return words[1:]
}
