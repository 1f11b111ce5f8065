package screen

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
)

// metrics are texts in the format of Prometheus (github.com/prometheus/docs, exposition_formats.md). The library for it
// is too large for the plugin.
type metrics struct{ strings.Builder }

// family begins a gauge.
func (m *metrics) family(name, help string) {
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

// sample adds a value; labels are names and values in turn.
func (m *metrics) sample(name string, value uint64, labels ...string) {
	m.WriteString(name)
	separator := "{"
	for i := 0; i < len(labels); i += 2 {
		escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(labels[i+1])
		fmt.Fprintf(m, `%s%s="%s"`, separator, labels[i], escaped)
		separator = ","
	}
	if len(labels) > 0 {
		m.WriteByte('}')
	}
	fmt.Fprintf(m, " %d\n", value)
}

// WritePrometheus writes a report as gauges. A count of which the source shows nothing has no sample.
func WritePrometheus(w io.Writer, r *audit.Report) error {
	var m metrics
	for _, family := range []struct {
		name, help string
		of         func(audit.Range) audit.Amount
	}{
		{"rangekeeper_range_size", "Values that a range can allocate.", func(r audit.Range) audit.Amount { return r.Size }},
		{"rangekeeper_range_used", "Values of a range that are recorded as allocated.", func(r audit.Range) audit.Amount { return r.Used }},
		{"rangekeeper_range_free", "Values of a range that are not recorded as allocated.", func(r audit.Range) audit.Amount { return r.Free }},
		{"rangekeeper_range_in_use", "Values of a range that Services use.", func(r audit.Range) audit.Amount { return audit.Amount{N: r.InUse} }},
	} {
		m.family(family.name, family.help)
		for _, one := range r.Ranges {
			if amount := family.of(one); !amount.Unseen && one.Mode != audit.ModeUninitialized {
				m.sample(family.name, amount.N, "range", one.Name, "values", one.Range, "mode", string(one.Mode))
			}
		}
	}
	m.family("rangekeeper_faults", "Findings and leaks of a severity.")
	for _, severity := range audit.Severities {
		if n := r.Summary.BySeverity.Of(severity); n.Found > 0 || !n.IsAtLeast {
			m.sample("rangekeeper_faults", uint64(n.Found), "severity", string(severity))
		}
	}
	m.family("rangekeeper_findings", "Findings with a reason, without leaks, by the range that they are about.")
	found := map[string]map[string]uint64{}
	for _, f := range r.Findings {
		if found[f.Reason] == nil {
			found[f.Reason] = map[string]uint64{}
		}
		found[f.Reason][f.Range]++
	}
	for _, reason := range runbook.Names() {
		for _, name := range slices.Sorted(maps.Keys(found[reason])) {
			labels := []string{"reason", reason}
			if name != "" {
				labels = append(labels, "range", name)
			}
			m.sample("rangekeeper_findings", found[reason][name], labels...)
		}
	}
	m.family("rangekeeper_leaks", "Values that are recorded as allocated though no Service uses them.")
	if n := r.Summary.Leaks; n.Found > 0 || !n.IsAtLeast {
		m.sample("rangekeeper_leaks", uint64(n.Found))
	}
	if i := r.Ignored; i != nil {
		m.family("rangekeeper_ignored", "Findings and leaks that a list of known faults leaves out of the other gauges.")
		m.sample("rangekeeper_ignored", uint64(i.Findings+i.Leaks))
	}
	m.family("rangekeeper_unreadable_objects", "Objects that cannot be decoded.")
	m.sample("rangekeeper_unreadable_objects", uint64(len(r.Unreadable)))
	m.family("rangekeeper_unknown", "Parts of the cluster that the source of the audit does not show.")
	m.sample("rangekeeper_unknown", uint64(len(r.Unknown)))
	m.family("rangekeeper_services", "Services that were audited.")
	m.sample("rangekeeper_services", r.Summary.Services)
	m.family("rangekeeper_audit_timestamp_seconds", "When the cluster was read, in seconds since 1970.")
	m.sample("rangekeeper_audit_timestamp_seconds", uint64(r.Source.Time.Unix()))
	m.family("rangekeeper_audit_info", "What was audited: type and name of the source, the UID of the cluster's Namespace kube-system, and the version of rangekeeper.")
	version, _, _ := strings.Cut(r.Source.Version, " ")
	m.sample("rangekeeper_audit_info", 1, "type", r.Source.Type, "source", r.Source.Name, "cluster", string(r.Source.Cluster.UID), "version", version)
	_, err := io.WriteString(w, m.String())
	return err
}
