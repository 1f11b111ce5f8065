// Package server is the program rangekeeper: the commands of package cli, and those that run servers in or below its
// process.
package server

import (
	"github.com/spf13/cobra"
	_ "modernc.org/sqlite" // for ReadSQLite

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/localcluster"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Program is the program rangekeeper.
var Program = cli.Program{
	Name:        "rangekeeper",
	About:       ", and runs whole control planes that do it",
	Commands:    func() []*cobra.Command { return []*cobra.Command{newController(), newUp()} },
	Unreachable: []error{embedded.ErrInUse},
	Failed:      []error{localcluster.ErrServer},
	Linked:      source.Linked{ReadSQLite: clusterstate.ReadSQLite, Judge: rangekeeper.BootstrapPlan, WriteKey: bootstrap.WriteKey},
	AddLocal:    addDataDir,
	LocalHint:   dataDirHint,
	StoreHelp: `, or else in one that runs in this process and keeps its data in
--data-dir; watch prints a URL at which other commands reach that one`,
}
