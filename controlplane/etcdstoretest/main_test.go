package etcdstoretest_test

import (
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

func TestMain(m *testing.M) {
	etcdtest.Main(m, map[string]etcdtest.Role{loadRole: runLoad})
}
