package cli

import (
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestWrongSource has sources that cannot be read, each with an error that names the reason.
func TestWrongSource(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	config := func(text string) string { return etcdtest.Write(t, []byte("apiVersion: v1\nkind: Config\n"+text)) }
	cluster := "clusters:\n- {name: a, cluster: {server: 'https://127.0.0.1:1'}}\n"
	plugin := cluster + "contexts:\n- {name: a, context: {cluster: a, user: a}}\ncurrent-context: a\n" +
		"users:\n- {name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /none/plugin, interactiveMode: Never}}}\n"
	for _, c := range []struct{ want, flag, file string }{
		{`kubeconfig: there is no cluster of context "nope"`, "--kubeconfig", config("current-context: nope\n")},
		{"kubeconfig: there is no current context; name one with --context", "--kubeconfig", config(cluster)},
		{"~/.kube/config names one; name a kubeconfig", "--kubeconfig", config("")},
		{"the credential plugin of the kubeconfig failed: ", "--kubeconfig", config(plugin)},
		{"is a SQLite database, not an etcd snapshot; commands that only read take the one of k3s with --sqlite", "--etcd-snapshot", etcdtest.Write(t, []byte("SQLite format 3\x00 and more"))},
		{"is not a database of SQLite; unpack one that is compressed, and read an etcd snapshot with --etcd-snapshot", "--sqlite", kineFixture},
	} {
		runFails(t, exitInput, []string{c.want}, "audit", c.flag, c.file)
	}
}

// TestNoServiceInNamespace mistypes a namespace.
func TestNoServiceInNamespace(t *testing.T) {
	snapshot := etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")
	code, _, stderr := run(t, "audit", "--etcd-snapshot", snapshot, "-n", "typo")
	if code != exitOK || stderr != "rangekeeper: no Service is in namespace typo\n" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	code, stdout, stderr := run(t, "audit", "--etcd-snapshot", snapshot, "-n", "default")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "ok: nothing found about Services of namespace default\n") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	runFails(t, exitInput, []string{"-o prometheus is about the whole cluster, not about --namespace default"}, "audit", "--etcd-snapshot", snapshot, "-n", "default", "-o", "prometheus")
}

// TestRepairStep compares what an audit of an etcd says about the repair with the repair.
func TestRepairStep(t *testing.T) {
	leaky := changed(t, etcdtest.SingleStack, "clean.db.gz", map[string][]byte{nodePortsKey: stored(t, "30000-32767", []byte{0xff, 0xff})})
	etcd := etcdtest.Start(t, leaky)
	source := []string{"--endpoints", strings.Join(etcd.Endpoints(), ",")}
	words := func(args ...string) string {
		_, stdout, _ := run(t, append(args, source...)...)
		return strings.Join(strings.Fields(strings.ReplaceAll(stdout, "\n  # ", "\n")), " ")
	}
	shown := words("audit")
	before, _, _ := strings.Cut(words("repair"), " set, 0 cleared")
	set := before[strings.LastIndex(before, " ")+1:]
	if set == "0" || !strings.Contains(shown, "show the repair of "+set+" of ") || !strings.Contains(shown, "; add --apply to write it, and --clean-leaks to clean ") {
		t.Errorf("%q set: %s", set, shown)
	}
	runJSON[any](t, exitFound, append([]string{"repair", "--apply"}, source...)...)
	if shown := words("audit"); !strings.Contains(shown, "show the repair; add --apply --clean-leaks to clean ") {
		t.Error(shown)
	}
}
