// Command rangekeeper finds and repairs leaked, lost and duplicate ClusterIPs and
// node ports.
package main

import "github.com/rangekeeper/rangekeeper/controlplane/internal/cli"

func main() { cli.Main() }
