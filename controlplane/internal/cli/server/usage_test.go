package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

// TestUsageErrors makes each kind of wrong usage of what only this program has.
func TestUsageErrors(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir()) // where a command that accepts its input would keep data
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	etcd := []string{"--endpoints", "http://127.0.0.1:1"} // nothing is there: usage is checked before any I/O
	for want, args := range map[string][]string{
		`unexpected argument "extra"; see rangekeeper up --help`:                                                   {"up", "extra", "--", "--v=2"},
		`--endpoints is missing; see rangekeeper controller --help`:                                                {"controller"},
		`--endpoints is empty; see rangekeeper controller --help`:                                                  {"controller", "--endpoints", ""},
		`--data-dir is empty; see rangekeeper up --help`:                                                           {"up", "--data-dir", ""},
		`--servers is 1 to 3, not 0; see rangekeeper up --help`:                                                    {"up", "--servers", "0"},
		`--secure-port is 1 to 65535, not 0; see rangekeeper up --help`:                                            {"up", "--secure-port", "0"},
		`--kubernetes-version is one of ` + strings.Join(upVersions, ", ") + `, not ""; see rangekeeper up --help`: {"up", "--kubernetes-version", ""},
		`--endpoint-reconciler-type is lease, master-count or none, not ""; see rangekeeper up --help`:             {"up", "--endpoint-reconciler-type", ""},
		`--endpoint-reconciler-type is lease, master-count or none, not "x"; see rangekeeper controller --help`:    append(etcd, "controller", "--service-cluster-ip-range", "10.0.0.0/24", "--service-node-port-range", "30000-30009", "--endpoint-reconciler-type", "x"),
		`--logging-format is text or json, not "x"; see rangekeeper controller --help`:                             append(etcd, "controller", "--service-cluster-ip-range", "10.0.0.0/24", "--service-node-port-range", "30000-30009", "--logging-format", "x"),
		`10.0.0.0/24 and 10.1.0.0/24 are ranges of ClusterIPs of one IP family; see rangekeeper controller --help`: append(etcd, "controller", "--service-cluster-ip-range", "10.0.0.0/24,10.1.0.0/24", "--service-node-port-range", "30000-30009"),
		`--endpoints and --data-dir exclude each other; see rangekeeper watch --help`:                              {"watch", "serviceips", "--data-dir", "x", "--endpoints", "http://127.0.0.1:1"},
		`--data-dir is empty; see rangekeeper watch --help`:                                                        {"watch", "serviceips", "--data-dir", ""},
		`--kubernetes-version and --kube-apiserver exclude each other; see rangekeeper up --help`:                  {"up", "--kubernetes-version", "1.36.3", "--kube-apiserver", "x"},
		`no ranges are kept in DIR yet: run rangekeeper init first, or name an etcd with --endpoints`:              {"allocate", "serviceips", "--data-dir", "DIR"},
	} {
		command.Fails(t, exitInput, []string{"rangekeeper: " + want + "\n"}, args...)
	}
	t.Setenv("ETCDCTL_ENDPOINTS", etcd[1]) // another store was named
	command.Fails(t, exitInput, []string{"no ranges are kept"}, "allocate", "serviceips", "--data-dir", t.TempDir())
}

// TestCompletion completes the words of what only this program has.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ line, want []string }{
		{[]string{"controller", "--endpoint-reconciler-type", ""}, []string{"lease", "master-count", "none"}},
		{[]string{"up", ""}, nil},
		{[]string{"up", "--kubernetes-version", ""}, releases.All()},
		{[]string{"up", "--endpoint-reconciler-type", ""}, []string{"lease", "master-count", "none"}},
		{[]string{"up", "--servers", ""}, nil},
	} {
		if got := command.Completions(t, c.line...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.line, got, c.want)
		}
	}
}

// TestHelp has what only this program does, and keeps to the width of a terminal.
func TestHelp(t *testing.T) {
	for name, want := range map[string]string{"up": "--kube-apiserver", "controller": "--healthz-bind-address", "init": "--data-dir"} {
		if help := strings.Join(command.OK(t, name, "--help"), "\n"); !strings.Contains(help, want) {
			t.Errorf("%s: no %s in %s", name, want, help)
		}
	}
	if help := strings.Join(command.OK(t, "--help"), " "); !strings.Contains(help, "runs whole control planes") {
		t.Error(help)
	}
	if names := command.FitsTerminal(t, 80); len(names) != 14 {
		t.Errorf("%d commands: %s", len(names), names)
	}
}
