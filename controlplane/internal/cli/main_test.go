package cli

import (
	"testing"

	_ "modernc.org/sqlite" // for ReadSQLite

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/clitest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

// program has what all programs have, and command runs its commands.
var (
	program = Program{Name: "rangekeeper", ReadSQLite: clusterstate.ReadSQLite}
	command = clitest.Command(program.Run)
)
