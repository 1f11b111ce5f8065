// Command kubectl-rangekeeper is kubectl's plugin.
package main

import (
	"os"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/plugin"
)

func main() { plugin.Program.Main(plugin.Arguments(os.Args)) }
