package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// maxIgnoreList is the most bytes of a list of known faults.
const maxIgnoreList = 16 << 20

// readIgnoreList reads a list of known faults, in YAML or JSON.
func readIgnoreList(path string) (*audit.IgnoreList, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxIgnoreList+1))
	if err == nil && len(content) > maxIgnoreList {
		err = fmt.Errorf("is larger than %d MiB", maxIgnoreList>>20)
	}
	var list *audit.IgnoreList
	if err == nil {
		list, err = parseIgnoreList(content)
	}
	if err != nil {
		return nil, fmt.Errorf("--ignore %s: %w", path, err)
	}
	list.File = path
	return list, nil
}

// parseIgnoreList accepts no field that it does not know: an entry with a misspelled one could ignore too much.
func parseIgnoreList(content []byte) (*audit.IgnoreList, error) {
	list := new(audit.IgnoreList)
	if err := yaml.UnmarshalStrict(content, list); err != nil {
		return nil, inOneLine(err)
	}
	if list.APIVersion != audit.APIVersion || list.Kind != audit.KindIgnoreList {
		return nil, fmt.Errorf("is %q of %q, not %s of %s", list.Kind, list.APIVersion, audit.KindIgnoreList, audit.APIVersion)
	}
	for i := range list.Entries {
		if err := checkEntry(&list.Entries[i]); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return list, nil
}

// inOneLine returns an error of YAML's decoder, whose text has several lines.
func inOneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }

// checkEntry refuses an entry that could never match, and one that would ignore all findings of a reason.
func checkEntry(e *audit.IgnoreEntry) error {
	known, ok := runbook.Named(e.Reason)
	switch {
	case e.Reason == "":
		return errors.New("reason is missing")
	case !ok:
		return fmt.Errorf("there is no reason %q; the runbook has all of them", e.Reason)
	case e.Value == "" && e.Object == "":
		return errors.New("value or object is missing")
	case known.Name == runbook.Leak && e.Object != "":
		return errors.New("a leak has a value and no object")
	}
	e.Reason = known.Name
	if _, err := time.Parse(time.DateOnly, e.Expires); e.Expires != "" && err != nil {
		return fmt.Errorf("expires is a day such as 2026-12-31, not %q", e.Expires)
	}
	return nil
}

// today is the day of documents, in UTC.
func today() string { return source.Now().UTC().Format(time.DateOnly) }
