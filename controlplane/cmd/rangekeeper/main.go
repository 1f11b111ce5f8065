// Command rangekeeper finds and repairs leaked, lost and duplicate ClusterIPs and
// node ports.
package main

import (
	"os"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/server"
)

func main() { server.Program.Main(os.Args[1:]) }
