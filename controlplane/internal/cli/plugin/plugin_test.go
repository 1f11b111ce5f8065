package plugin

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/clitest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// large are packages that would add megabytes: servers, all API groups, a second SQLite.
var large = []string{
	"go.etcd.io/etcd/server/", "k8s.io/client-go/kubernetes", "k8s.io/client-go/gentype", "k8s.io/cli-runtime/", "k8s.io/kubernetes/", "modernc.org/",
	"github.com/prometheus/",
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../../cmd/kubectl-rangekeeper").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(out))
	if !slices.Contains(all, "k8s.io/client-go/rest") {
		t.Fatalf("not a list of packages: %q", all)
	}
	for _, name := range all {
		for _, prefix := range large {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("the plugin links %s", name)
			}
		}
	}
}

// TestSize builds the programs as they are released, which fails if the plugin is too large.
func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs")
	}
	platform, err := exec.Command("go", "env", "GOOS", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("../../../programs.sh", append(strings.Fields(string(platform)), t.TempDir())...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHelp has the name that kubectl runs the program by, and nothing of what it lacks.
func TestHelp(t *testing.T) {
	command := clitest.Command(Program.Run)
	commands := []string{"audit", "repair", "undo", "show", "explain", "free", "preflight", "init", "allocate", "release", "watch", "version", "completion"}
	root := strings.Join(command.OK(t, "--help"), "\n")
	for _, name := range commands {
		if !strings.Contains(root, "\n  "+name+" ") {
			t.Errorf("no command %s in %s", name, root)
		}
		help := strings.Join(command.OK(t, name, "--help"), "\n")
		if !strings.Contains(help, "\n  kubectl rangekeeper "+name) {
			t.Errorf("%s", help)
		}
		for _, lacking := range []string{"\n  rangekeeper ", "--data-dir", "--sqlite", "controller", "rangekeeper up", "data directory"} {
			if strings.Contains(help, lacking) {
				t.Errorf("%s: %q in %s", name, lacking, help)
			}
		}
	}
	if names := command.FitsTerminal(t, 80); len(names) != len(commands)-1 { // without completion
		t.Errorf("%d commands: %s", len(names), names)
	}
	for _, lacking := range []string{"\n  up ", "\n  controller ", "(up", "data directory"} {
		if strings.Contains(root, lacking) {
			t.Errorf("%q in %s", lacking, root)
		}
	}
}

func TestErrors(t *testing.T) {
	command := clitest.Command(Program.Run)
	command.Fails(t, 2, []string{`there is no command "up"; see kubectl rangekeeper --help`}, "up")
	command.Fails(t, 2, []string{"--endpoints is missing; see kubectl rangekeeper allocate --help"}, "allocate", "serviceips")
	command.Fails(t, 2, []string{"there is no flag --data-dir; see kubectl rangekeeper init --help"}, "init", "serviceips", "10.0.0.0/24", "--data-dir", "x")
	command.Fails(t, 2, []string{"--sqlite is a flag of the program rangekeeper"}, "audit", "--sqlite", "x")
}

// TestArguments has the names that kubectl runs the program by.
func TestArguments(t *testing.T) {
	for _, c := range []struct{ words, want []string }{
		{[]string{"/usr/bin/kubectl-rangekeeper", "audit"}, []string{"audit"}},
		{[]string{"/usr/bin/kubectl_complete-rangekeeper", "audit", "-o", ""}, []string{cobra.ShellCompRequestCmd, "audit", "-o", ""}},
	} {
		if got := Arguments(c.words); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}

// TestTexts names commands by the plugin's name in the runbook's texts and in messages.
func TestTexts(t *testing.T) {
	command := clitest.Command(Program.Run)
	broken := filepath.Join(t.TempDir(), "broken.db")
	state, err := clusterstate.ReadSnapshotFile(t.Context(), etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"), clusterstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{"/registry/services/specs/default/broken": []byte("broken")}
	if _, err := snapshotfile.WriteRepaired(t.Context(), etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"), broken, values,
		snapshotfile.WriteOptions{Revision: state.Revision}); err != nil {
		t.Fatal(err)
	}
	from := "--etcd-snapshot=" + broken
	for _, args := range [][]string{
		{"explain", "ClusterIPNotAllocated"}, {"explain", "30001", from}, {"repair", from}, {"preflight", "--to", "1.33", from}, {"audit", "-o", "html", from},
	} {
		_, stdout, stderr := command.Output(t, args...)
		text := strings.Join(strings.Fields(stdout+stderr), " ")
		all := strings.Count(text, "rangekeeper repair") + strings.Count(text, "rangekeeper audit") + strings.Count(text, "rangekeeper explain")
		ours := strings.Count(text, "kubectl rangekeeper repair") + strings.Count(text, "kubectl rangekeeper audit") + strings.Count(text, "kubectl rangekeeper explain")
		if all == 0 || all != ours || strings.Contains(text, "kubectl kubectl") {
			t.Errorf("%q: %d of %d commands have the name:\n%s", args, ours, all, text)
		}
	}
}
