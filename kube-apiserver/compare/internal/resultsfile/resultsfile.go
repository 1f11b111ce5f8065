// Package resultsfile writes the results of the comparisons.
package resultsfile

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Write writes results to a JSON file, and creates its folder.
func Write(path string, results any) error {
	encoded, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o644)
}
