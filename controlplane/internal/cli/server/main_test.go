package server

import (
	"os"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/clitest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// The exit codes, as docs/commands.md lists them.
const (
	exitOK          = 0
	exitFound       = 1
	exitInput       = 2
	exitUnreachable = 3
	exitInterrupted = 130
)

var command = clitest.Command(Program.Run)

// rangekeeperRole is the command as a process.
const rangekeeperRole = "rangekeeper"

func TestMain(m *testing.M) {
	etcdtest.Main(m, map[string]etcdtest.Role{rangekeeperRole: func([]string) error {
		os.Stderr = os.Stdout // where the test reads it
		Program.Main(os.Args[1:])
		return nil
	}})
}
