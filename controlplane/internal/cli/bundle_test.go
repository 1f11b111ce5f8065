package cli

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// unpack returns the files of a bundle.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// TestBundle looks for secrets in a bundle: of Secrets, annotations and labels, of an object that cannot be read, and
// of flags.
func TestBundle(t *testing.T) {
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	const hidden = "hush"
	for key, value := range map[string]string{
		"/registry/secrets/default/token": `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"default","name":"token"},"stringData":{"token":"` + hidden + `"}}`,
		"/registry/services/specs/default/annotated": `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"annotated","annotations":{"a":"` + hidden + `"},"labels":{"a":"` + hidden + `"}},` +
			`"spec":{"type":"NodePort","clusterIP":"10.96.0.9","externalName":"` + hidden + `","selector":{"a":"` + hidden + `"},"ports":[{"port":80,"nodePort":1}]}}`,
		"/registry/services/specs/default/damaged":        hidden + hidden,
		"/registry/services/specs/default/kind":           `{"apiVersion":"` + hidden + `/v1","kind":"` + hidden + `"}`,
		"/registry/services/specs/default/key":            "apiVersion: v1\nkind: Service\nmetadata:\n  annotations:\n    ? [" + hidden + "]\n    : a\n",
		"/registry/services/specs/default/null":           "apiVersion: v1\nkind: Service\nmetadata:\n  annotations: {~: " + hidden + "}\n",
		"/registry/services/specs/default/number":         "apiVersion: v1\nkind: Service\nmetadata:\n  annotations: {a: !!int " + hidden + "}\n",
		"/registry/services/specs/default/time":           "apiVersion: v1\nkind: Service\nmetadata:\n  creationTimestamp: " + hidden + "\n",
		"/registry/services/endpoints/default/kubernetes": "apiVersion: v1\nkind: Endpoints\nmetadata:\n  annotations: {a: !!int " + hidden + "}\n",
	} {
		if _, err := e.Client().Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ETCDCTL_PASSWORD", hidden)
	endpoint := e.Endpoints()[0]
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	known := etcdtest.Write(t, []byte("apiVersion: rangekeeper/v1\nkind: IgnoreList\nentries: []\n"))
	code, stdout, stderr := run(t, "audit", "--endpoints", endpoint, "--user", "root:"+hidden, "--bundle", path, "--ignore", known)
	if code != exitFound || !strings.Contains(stdout, "break traffic now") || !strings.Contains(stderr, "rangekeeper: wrote "+path+"; it has names and addresses of Services") {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	files := unpack(t, path)
	if want := []string{"rangekeeper-bundle/about.json", "rangekeeper-bundle/audit.json", "rangekeeper-bundle/audit.txt", "rangekeeper-bundle/explain.txt"}; !slices.Equal(slices.Sorted(maps.Keys(files)), want) {
		t.Errorf("%q", slices.Collect(maps.Keys(files)))
	}
	for name, content := range files {
		if strings.Contains(content, hidden) {
			t.Errorf("%s has a secret:\n%s", name, content)
		}
	}
	if !strings.Contains(files["rangekeeper-bundle/audit.json"], `"default/annotated"`) && !strings.Contains(files["rangekeeper-bundle/audit.json"], `"annotated"`) {
		t.Error("the Service with a secret was not audited")
	}
	validateAll(t, files["rangekeeper-bundle/audit.json"])
	var report audit.Report
	if err := json.Unmarshal([]byte(files["rangekeeper-bundle/audit.json"]), &report); err != nil || len(report.Findings) == 0 {
		t.Error(err)
	}
	if !strings.Contains(files["rangekeeper-bundle/explain.txt"], "\nFinding:    "+report.Findings[0].Reason) {
		t.Error("findings are not explained")
	}
	var about bundleInfo
	if err := json.Unmarshal([]byte(files["rangekeeper-bundle/about.json"]), &about); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(about.Flags, []string{"--endpoints " + endpoint, "--user root", "--ignore " + known}) || !strings.HasPrefix(about.Servers[endpoint], "etcd 3.") || len(about.Ranges) != 3 ||
		about.Ranges[0].Bytes == 0 || about.Ranges[0].ModRevision == 0 || !strings.HasPrefix(about.Version, "0.") {
		t.Errorf("%+v", about)
	}
	t.Setenv("ETCDCTL_PASSWORD", "")
	runFails(t, exitInput, []string{path, "file already exists"}, "audit", "--endpoints", endpoint, "--bundle", path)
}
