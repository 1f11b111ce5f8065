// Command goldens writes tables of the results that the reference, k8s.io/kubernetes at the version in go.mod, returns
// for chosen inputs. Every value is computed by the reference's packages; tests in other languages take their expected
// values from the tables.
//
// The output depends only on this source and the module versions: each run writes the same bytes.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("goldens: ")
	dir := flag.String("dir", "../../testing/testdata/reference", "folder to write the tables to")
	flag.Parse()

	tables := []struct {
		file string
		rows func() ([]any, error)
	}{
		{"cidrs.json", cidrRows},
		{"ips.json", ipRows},
		{"ports.json", portRows},
		{"nodeports.json", nodePortRows},
		{"envelopes.json", envelopeRows},
	}
	for _, table := range tables {
		rows, err := table.rows()
		if err != nil {
			log.Fatalf("%s: %v", table.file, err)
		}
		if err := writeTable(filepath.Join(*dir, table.file), rows); err != nil {
			log.Fatal(err)
		}
	}
}

// writeTable writes one JSON object with a row per line, so that a change shows as a diff of rows.
func writeTable(path string, rows []any) error {
	version, err := referenceVersion()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"reference\":%q,\"rows\":[\n", version)
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for i, row := range rows {
		if err := encoder.Encode(row); err != nil {
			return fmt.Errorf("%s: row %d: %w", path, i, err)
		}
		if i < len(rows)-1 {
			out.Truncate(out.Len() - 1)
			out.WriteString(",\n")
		}
	}
	out.WriteString("]}\n")
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// referenceVersion returns the version of k8s.io/kubernetes in this program.
func referenceVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("this program has no build information")
	}
	for _, dependency := range info.Deps {
		if dependency.Path == "k8s.io/kubernetes" {
			return dependency.Path + " " + dependency.Version, nil
		}
	}
	return "", fmt.Errorf("this program is not linked with k8s.io/kubernetes")
}
