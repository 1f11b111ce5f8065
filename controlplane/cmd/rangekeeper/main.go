// Command rangekeeper finds and mends leaked, lost and duplicate ClusterIPs and
// node ports.
package main

import "github.com/rangekeeper/rangekeeper/controlplane/internal/cli"

func main() { cli.Main() }
