// Command kubectl-rangekeeper is kubectl's plugin: rangekeeper without the commands and the store that run servers.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli"
)

var program = cli.Program{
	Name: "kubectl rangekeeper",
	About: `. The program rangekeeper has the same commands, and those
that run control planes`,
	StoreHelp: `; the program rangekeeper can keep it in a directory as well`,
}

func main() { program.Main(arguments(os.Args)) }

// arguments returns those of a command. kubectl completes the words of a plugin by a program kubectl_complete-NAME, which is a
// symbolic link to this one.
func arguments(words []string) []string {
	if strings.HasPrefix(filepath.Base(words[0]), "kubectl_complete-") {
		return append([]string{cobra.ShellCompRequestCmd}, words[1:]...)
	}
	return words[1:]
}
