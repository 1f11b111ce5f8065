package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/newfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// mostExplained is the number of values that a bundle explains.
const mostExplained = 100

// bundleInfo is what a bundle says besides reports. It has no text of a user but names and flags.
type bundleInfo struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Flags are those of the command line, without those that have credentials.
	Flags []string `json:"flags"`
	// Servers are the versions of the API server or of the etcd members that were read, by address; what does not
	// answer has its error.
	Servers map[string]string `json:"servers"`
	// Ranges are the stored objects of ranges, without their content.
	Ranges []bundleRange `json:"ranges"`
}

type bundleRange struct {
	Key         string `json:"key"`
	Bytes       int    `json:"bytes"`
	ModRevision int64  `json:"modRevision"`
	Version     int64  `json:"version"`
}

// writeBundle writes what somebody needs who is to find the cause of a report. All of it is made of documents that the
// commands show, never of stored objects, so that nothing gets in that only its owner may know.
func (o *auditFlags) writeBundle(c *cobra.Command, a *audit.Audit) error {
	info := bundleInfo{
		Program: o.source.Program, Version: c.Root().Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Flags: o.source.Command()[1:], Servers: o.source.ServerVersions(c.Context()), Ranges: []bundleRange{},
	}
	for _, name := range slices.Sorted(maps.Keys(o.stored)) {
		stored := o.stored[name]
		info.Ranges = append(info.Ranges, bundleRange{stored.Key, len(stored.Value), stored.ModRevision, stored.Version})
	}
	if o.ignoreFile != "" {
		info.Flags = append(info.Flags, "--ignore "+o.ignoreFile)
	}
	report := withoutQuotes(a.Report())
	var reported, explained bytes.Buffer
	if err := writeAudit(&reported, a, report, screen.FormatWide, nil, o.source.Program); err != nil {
		return err
	}
	shown := screen.New(&explained, true)
	for _, value := range explainedValues(report) {
		e, err := a.Explain(value)
		if err != nil {
			return err
		}
		e.Unknown, e.Unreadable = unquoted(e.Unknown, unknownMessage), unquoted(e.Unreadable, unreadableMessage)
		shown.Blank()
		shown.Explanation(e, o.source.Program)
	}
	if err := shown.Print(&explained); err != nil {
		return err
	}
	files := map[string][]byte{"audit.txt": reported.Bytes(), "explain.txt": explained.Bytes()}
	for name, document := range map[string]any{"audit.json": report, "about.json": info} {
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		files[name] = append(text, '\n')
	}
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) { // a bytes.Buffer takes all
		archive.WriteHeader(&tar.Header{Name: "rangekeeper-bundle/" + name, Mode: 0o600, Size: int64(len(files[name])), ModTime: report.Source.Time})
		archive.Write(files[name])
	}
	archive.Close()
	compressed.Close()
	if err := (newfile.Target{Path: o.bundle}).Write(packed.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(o.stderr, "rangekeeper: wrote %s; it has names and addresses of Services, so look at it before you pass it on\n", o.bundle)
	return nil
}

// quoted is text of a stored object in a message of a decoder.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|` + "`[^`]*`")

// withoutQuotes returns a report whose messages about what cannot be read quote nothing of it.
func withoutQuotes(r *audit.Report) *audit.Report {
	without := *r
	without.Unreadable, without.Unknown = unquoted(r.Unreadable, unreadableMessage), unquoted(r.Unknown, unknownMessage)
	return &without
}

func unreadableMessage(u *audit.Unreadable) *string { return &u.Message }

func unknownMessage(u *audit.Unknown) *string { return &u.Message }

// unquoted returns copies whose messages quote nothing.
func unquoted[T any](all []T, message func(*T) *string) []T {
	all = slices.Clone(all)
	for i := range all {
		text := message(&all[i])
		*text = quoted.ReplaceAllString(*text, "...")
	}
	return all
}

// explainedValues returns the first values of the worst findings and leaks.
func explainedValues(r *audit.Report) (values []rangekeeper.Value) {
	var texts []string
	for _, severity := range audit.Severities {
		for _, f := range r.Findings {
			if f.Severity == severity {
				texts = append(texts, f.Value)
			}
		}
		for _, l := range r.Leaks {
			if l.Severity == severity {
				texts = append(texts, l.Value)
			}
		}
	}
	for _, text := range texts {
		value, err := rangekeeper.ParseValue(strings.TrimSpace(text))
		if err == nil && len(values) < mostExplained && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}
