package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	corev1 "k8s.io/api/core/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// schemaFolder does not depend on the folder that a test works in.
var schemaFolder, _ = filepath.Abs("../../../docs/schema")

// schemas are the JSON Schemas of docs/schema by the kinds of documents.
var schemas = sync.OnceValue(func() map[string]*jsonschema.Schema {
	files, err := filepath.Glob(filepath.Join(schemaFolder, "*.json"))
	if err != nil {
		panic(err)
	}
	all := map[string]*jsonschema.Schema{}
	compiler := jsonschema.NewCompiler()
	for _, file := range files {
		if kind := strings.TrimSuffix(filepath.Base(file), ".json"); kind != "common" {
			all[kind] = compiler.MustCompile(file)
		}
	}
	return all
})

// validate returns the kind of a document, and what its schema finds wrong.
func validate(t *testing.T, document string) (kind string, err error) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	object, _ := value.(map[string]any)
	kind, _ = object["kind"].(string)
	if schemas()[kind] == nil {
		t.Fatalf("no schema of kind %q: %.200s", kind, document)
	}
	return kind, schemas()[kind].Validate(value)
}

// validateAll holds documents to their schemas, and returns the kind of the last one.
func validateAll(t *testing.T, documents string) (kind string) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(documents))
	for decoder.More() {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if err == nil {
			kind, err = validate(t, string(document))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return kind
}

// TestDocumentsFollowSchemas makes a document of each kind, which run validates as in all tests, and some with mistakes
// that a schema has to find.
func TestDocumentsFollowSchemas(t *testing.T) {
	t.Parallel() // beside those that wait
	seen := map[string]int{}
	check := func(documents string) { seen[validateAll(t, documents)]++ }
	for cluster := range bitmaps {
		for _, name := range []string{"clean.db.gz", "drift.db.gz"} {
			file := etcdtest.Fixture(cluster, name)
			for _, args := range [][]string{
				{"audit"}, {"audit", "--mode", "bitmap"}, {"audit", "-n", "team-a"}, {"repair"},
				{"repair", "--to-file", filepath.Join(t.TempDir(), "repaired.db")}, {"free", "servicenodeports"}, {"preflight", "--to", "1.34"},
				{"show", "servicenodeports"}, {"explain", "30001"}, {"explain", "default/kubernetes"}, {"explain", "1.2.3.4"},
			} {
				if slices.Contains(args, "bitmap") && !slices.Contains(bitmaps[cluster], "serviceips") {
					continue
				}
				args = append(args, "--etcd-snapshot", file)
				_, stdout, _ := run(t, append(args, "-o", "json")...)
				check(stdout)
			}
		}
	}
	known, err := json.Marshal(audit.IgnoreList{APIVersion: audit.APIVersion, Kind: audit.KindIgnoreList, Entries: []audit.IgnoreEntry{
		{Reason: "Leak", Value: "30001"}, {Reason: "ClusterIPOutOfRange", Object: "default/web", Expires: "2026-12-31", Comment: "known"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	check(string(known))
	_, reason, _ := run(t, "explain", "RangeFull", "-o", "json")
	check(reason)
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	for _, args := range [][]string{{"audit"}, {"repair"}, {"repair", "--apply"}} {
		args = append(args, "--endpoints", strings.Join(e.Endpoints(), ","))
		_, stdout, _ := run(t, append(args, "-o", "json")...)
		check(stdout)
	}
	// As over the Kubernetes API.
	unseen, err := audit.New(&clusterstate.State{Unseen: &clusterstate.Unseen{NodePortRange: audit.DefaultNodePortRange}, Services: etcdtest.List(corev1.Service{})}, audit.Options{
		Source: &audit.Source{Type: audit.FromAPI, Name: "https://127.0.0.1:6443", Context: "admin", Revision: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	free, err := unseen.Free(clusterstate.ServiceNodePorts, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []any{unseen.Report(), free} {
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		if check(string(text)); !strings.Contains(string(text), `"unknown"`) {
			t.Errorf("nothing is unknown in %s", text)
		}
	}
	reviewed := edit.Changes{APIVersion: audit.APIVersion, Kind: edit.KindReviewedPlan, Cluster: clusterstate.Identity{Prefix: "/registry"}, Revision: 7, Ranges: []edit.RangeChanges{
		{Name: "servicenodeports", Range: "30000-32767", Set: []edit.UsedValue{{Value: "30001", Services: []string{"default/web"}}}, Clear: []string{"30002"}},
	}}
	unknown, written := withOutcome(reviewed, edit.OutcomeUnknown, 0), withOutcome(reviewed, edit.OutcomeWritten, 8)
	for _, c := range []edit.Changes{reviewed, unknown, written} {
		document, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		check(string(document))
	}
	kept := edit.UndoneValue{Range: "servicenodeports", Value: "30001"}
	kept.Result, kept.Reason = edit.ValueKept, "used by default/web"
	undo, err := json.Marshal(undoReport{APIVersion: audit.APIVersion, Kind: kindUndo, Source: source.About(audit.FromEtcd, "http://127.0.0.1:2379", &clusterstate.State{Revision: 6}), WrittenRevision: 7, Values: []edit.UndoneValue{kept}})
	if err != nil {
		t.Fatal(err)
	}
	check(string(undo))
	for _, kind := range []string{changeAllocated, changeReleased, changeCreated, changeDeleted} {
		line, err := json.Marshal(newChange(kind, "10.0.0.1", 7))
		if err != nil {
			t.Fatal(err)
		}
		check(string(line))
	}
	for kind := range schemas() {
		if seen[kind] == 0 {
			t.Errorf("no document of kind %s was validated", kind)
		}
	}

	_, document, _ := run(t, "audit", "-o", "json", "--etcd-snapshot", etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	for _, mistake := range [][2]string{
		{`"rangekeeper/v1"`, `"rangekeeper/v2"`}, {`"severity": "breaksTraffic"`, `"severity": "bad"`}, {`"size":`, `"extent":`},
		{`"services":`, `"more": 1, "services":`}, {`"mode": "bitmap"`, `"mode": "list"`}, {`"value": "`, `"value": 1, "was": "`},
	} {
		wrong := strings.Replace(document, mistake[0], mistake[1], 1)
		if _, err := validate(t, wrong); wrong == document || err == nil {
			t.Errorf("%q instead of %q is valid", mistake[1], mistake[0])
		}
	}
}

// TestSchemasAreDocumented looks for each schema in docs/json.md.
func TestSchemasAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind := range schemas() {
		if !strings.Contains(string(text), "| "+kind+" | `") || !strings.Contains(string(text), "(schema/"+kind+".json)") {
			t.Errorf("docs/json.md lacks %s", kind)
		}
	}
}
