package screen

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

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
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	out := b.Bytes()
	if format == FormatYAML {
		var err error
		if out, err = yaml.JSONToYAML(out); err != nil {
			return err
		}
	}
	_, err := w.Write(out)
	return err
}
