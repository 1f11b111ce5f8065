package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// The formats of output.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
	FormatHTML  = "html"
	FormatName  = "name"
	// FormatJUnit is that of the results of tests, for gates (github.com/testmoapp/junitxml).
	FormatJUnit = "junit"
	// FormatPrometheus is the text format of Prometheus, for the textfile collector of its node exporter.
	FormatPrometheus = "prometheus"
)

// AddFormat adds the flag --output with the formats that a command knows, the default
// first.
func AddFormat(c *cobra.Command, allowed ...string) *string {
	format := c.Flags().StringP("output", "o", allowed[0], "output format: "+strings.Join(allowed, ", "))
	usage.AddRule(c, func([]string) error {
		if !slices.Contains(allowed, *format) {
			return usage.Error(c, "unknown output format %q: expected %s", *format, strings.Join(allowed, ", "))
		}
		return nil
	})
	c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return format
}

// WriteDocument writes a document as JSON or YAML.
func WriteDocument(w io.Writer, document any, format string) error {
	return write(w, document, format, "  ")
}

// WriteOneOf writes one of many documents: as a line of JSON, or as YAML after a line of three hyphens.
func WriteOneOf(w io.Writer, document any, format string) error {
	if format == FormatYAML {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
	}
	return write(w, document, format, "")
}

func write(w io.Writer, document any, format, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	out := b.Bytes()
	if format == FormatYAML {
		var err error
		if out, err = yaml.JSONToYAML(escapedForYAML(out)); err != nil {
			return err
		}
	}
	_, err := w.Write(out)
	return err
}

// escapedForYAML escapes the characters that JSON allows in a string and YAML only escaped
// (https://yaml.org/spec/1.2.2/#51-character-set).
func escapedForYAML(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || r >= 0xfeff && r <= 0xffff && !unicode.IsPrint(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
