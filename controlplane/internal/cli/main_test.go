package cli

import (
	"testing"

	_ "modernc.org/sqlite" // for ReadSQLite

	"github.com/rangekeeper/rangekeeper/controlplane/bootstrap"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/clitest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func TestMain(m *testing.M) { etcdtest.Main(m, map[string]etcdtest.Role{fullDiskRole: runOnFullDisk}) }

// program has what all programs have, and command runs its commands.
var (
	program = Program{Name: "rangekeeper", Linked: source.Linked{ReadSQLite: clusterstate.ReadSQLite, Judge: rangekeeper.BootstrapPlan, WriteKey: bootstrap.WriteKey}}
	command = clitest.Command(program.Run)
)
