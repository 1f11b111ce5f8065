package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// TestCompletion asks as the scripts for the shells do.
func TestCompletion(t *testing.T) {
	dual, single := etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"), etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	online := strings.Join(etcdtest.Start(t, single).Endpoints(), ",")
	all := []string{"serviceips", "secondaryserviceips", "servicenodeports"}
	for _, c := range []struct{ line, want []string }{
		{[]string{"audit", "-o", ""}, []string{"table", "wide", "json", "yaml", "html", "prometheus", "junit"}},
		{[]string{"repair", "-o", ""}, []string{"table", "wide", "json", "yaml"}},
		{[]string{"audit", "--output="}, []string{"table", "wide", "json", "yaml", "html", "prometheus", "junit"}},
		{[]string{"show", "--mode", ""}, []string{"auto", "bitmap"}},
		{[]string{"audit", "--user", ""}, nil},
		{[]string{"preflight", "--to", ""}, []string{"1.32", "1.33", "1.34", "1.35", "1.36", "1.37"}},
		{[]string{"preflight", "-o", ""}, []string{"table", "wide", "json", "yaml"}},
		{[]string{"show", "s"}, []string{"serviceips", "secondaryserviceips", "servicenodeports"}},
		{[]string{"show", "--etcd-snapshot", dual, ""}, []string{"secondaryserviceips", "serviceips", "servicenodeports"}},
		{[]string{"show", "--etcd-snapshot", single, ""}, []string{"kubernetes", "servicenodeports"}},
		{[]string{"show", "--endpoints", online, ""}, []string{"kubernetes", "servicenodeports"}},
		{[]string{"show", "--etcd-snapshot", single, "kubernetes", ""}, nil},
		{[]string{"show", "--etcd-snapshot", "none.db", ""}, all},
		{[]string{"explain", "--etcd-snapshot", single, ""}, append([]string{"default/", "shop/", "team-a/", "team-b/"}, runbook.Names()...)},
		{[]string{"explain", "--etcd-snapshot", single, "default/kub"}, []string{"default/kubernetes"}},
		{[]string{"explain", "--etcd-snapshot", single, "-n", "default", "kub"}, []string{"kubernetes"}},
		{[]string{"audit", "--etcd-snapshot", single, "-n", "team"}, []string{"team-a", "team-b"}},
		{[]string{"audit", "--fail-on", ""}, []string{"breaksTraffic", "duplicateRisk", "exhausted", "wasted"}},
		{[]string{"init", ""}, all},
		{[]string{"init", "serviceips", ""}, nil},
		{[]string{"allocate", "--endpoints", online, ""}, all},
		{[]string{"allocate", "serviceips", ""}, nil},
		{[]string{"allocate", "serviceips", "-n", ""}, nil},
		{[]string{"release", ""}, all},
		{[]string{"release", "serviceips", "10.96.0.1", ""}, nil},
		{[]string{"watch", ""}, all},
		{[]string{"watch", "serviceips", "-o", ""}, []string{"text", "json"}},
	} {
		if got := command.Completions(t, c.line...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.line, got, c.want)
		}
	}
}

// TestCompletionScripts lets each shell that is there read its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			code, script, stderr := run(t, "completion", shell)
			if code != exitOK || stderr != "" || !strings.Contains(script, "__complete") {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed, so its script is not read: %v", shell, err)
			}
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if code, stdout, stderr := run(t, "completion", "csh"); code != exitInput || stdout != "" || !strings.Contains(stderr, "csh") {
		t.Errorf("csh: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
