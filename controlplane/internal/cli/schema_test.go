package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// schemas are the JSON Schemas of docs/schema by the kinds of documents.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := filepath.Glob("../../../docs/schema/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*jsonschema.Schema{}
	compiler := jsonschema.NewCompiler()
	for _, file := range files {
		if kind := strings.TrimSuffix(filepath.Base(file), ".json"); kind != "common" {
			if all[kind], err = compiler.Compile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestDocumentsFollowSchemas validates a document of each command, and one with each mistake that a schema is to find.
func TestDocumentsFollowSchemas(t *testing.T) {
	all, seen := schemas(t), map[string]int{}
	validate := func(document string) error {
		t.Helper()
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := value.(map[string]any)["kind"].(string)
		schema := all[kind]
		if schema == nil {
			t.Fatalf("no schema of kind %q: %.200s", kind, document)
		}
		seen[kind]++
		return schema.Validate(value)
	}
	check := func(documents string, args ...string) {
		t.Helper()
		if documents == "" {
			t.Errorf("%v wrote nothing", args)
		}
		decoder := json.NewDecoder(strings.NewReader(documents))
		for decoder.More() {
			var document json.RawMessage
			if err := decoder.Decode(&document); err != nil {
				t.Fatal(err)
			}
			if err := validate(string(document)); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
	}
	for cluster := range bitmaps {
		for _, name := range []string{"clean.db.gz", "drift.db.gz"} {
			file := etcdtest.Fixture(cluster, name)
			for _, args := range [][]string{
				{"audit"}, {"audit", "--mode", "bitmap"}, {"audit", "-n", "team-a"}, {"repair"},
				{"repair", "--to-file", filepath.Join(t.TempDir(), "repaired.db")}, {"free", "servicenodeports"},
				{"show", "servicenodeports"}, {"explain", "30001"}, {"explain", "default/kubernetes"}, {"explain", "1.2.3.4"},
			} {
				if slices.Contains(args, "bitmap") && !slices.Contains(bitmaps[cluster], "serviceips") {
					continue
				}
				args = append(args, "--etcd-snapshot", file)
				_, stdout, _ := run(t, append(args, "-o", "json")...)
				check(stdout, args...)
			}
		}
	}
	e := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "drift.db.gz"))
	for _, args := range [][]string{{"audit"}, {"repair"}, {"repair", "--apply"}} {
		args = append(args, "--endpoints", strings.Join(e.Endpoints(), ","))
		_, stdout, _ := run(t, append(args, "-o", "json")...)
		check(stdout, args...)
	}
	reviewed := changes{APIVersion: audit.APIVersion, Kind: kindReviewedPlan, Prefix: "/registry", Revision: 7, Ranges: []rangeChanges{
		{Name: "servicenodeports", Range: "30000-32767", Set: []usedValue{{"30001", []string{"default/web"}}}, Clear: []string{"30002"}},
	}}
	for _, kind := range []string{kindReviewedPlan, kindJournal} {
		reviewed.Kind = kind
		document, err := json.Marshal(reviewed)
		if err != nil {
			t.Fatal(err)
		}
		check(string(document), kind)
	}
	for _, kind := range []string{changeAllocated, changeReleased, changeCreated, changeDeleted} {
		line, err := json.Marshal(newChange(kind, "10.0.0.1", 7))
		if err != nil {
			t.Fatal(err)
		}
		check(string(line), "watch")
	}
	for kind := range all {
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
		if err := validate(wrong); wrong == document || err == nil {
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
	for kind := range schemas(t) {
		if !strings.Contains(string(text), "| "+kind+" | `") || !strings.Contains(string(text), "(schema/"+kind+".json)") {
			t.Errorf("docs/json.md lacks %s", kind)
		}
	}
}
