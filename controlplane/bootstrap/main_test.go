package bootstrap_test

import (
	"flag"
	"os"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/server"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// rangekeeperRole is the command rangekeeper.
const rangekeeperRole = "rangekeeper"

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8") // those that run in parallel mostly wait
	etcdtest.Main(m, map[string]etcdtest.Role{rangekeeperRole: func([]string) error {
		os.Stderr = os.Stdout // where the test reads it
		server.Program.Main(os.Args[1:])
		return nil
	}})
}
