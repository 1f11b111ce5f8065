package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestFreeOfFullRange has no value to list: a script must not take nothing for a value.
func TestFreeOfFullRange(t *testing.T) {
	_, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30001")...)
	runOK(t, with("allocate", "servicenodeports", "30000")...)
	free := with("free", "servicenodeports", "-o", "name")
	if got := runOK(t, free...); !slices.Equal(got, []string{"30001"}) {
		t.Errorf("%q", got)
	}
	runOK(t, with("allocate", "servicenodeports", "30001")...)
	code, stdout, stderr := run(t, free...)
	if code != exitFound || stdout != "" || !strings.Contains(stderr, "no value of servicenodeports is free") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}
