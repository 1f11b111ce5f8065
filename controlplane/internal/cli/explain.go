package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newExplain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain IP|PORT",
		Short: "Explain the state of one ClusterIP or node port",
		Long:  "Shows the range and band of an address or port, whether it is allocated, the Services\nthat use it, and its repair.",
		Example: `  rangekeeper explain 10.96.0.10 --etcd-snapshot backup.db.gz
  rangekeeper explain 30080 --endpoints http://127.0.0.1:2379`,
		Args:              arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	withAPISource(c, func(c *cobra.Command, args []string, s *source) error {
		value, err := rangekeeper.ParseValue(args[0])
		if err != nil {
			return usageError(c, "%v", err)
		}
		a, err := s.audit(c.Context())
		if err != nil {
			return err
		}
		e, err := a.Explain(value)
		if err != nil {
			return s.explain(err)
		}
		if err := writeExplanation(c.OutOrStdout(), e); err != nil {
			return err
		}
		if e.Leaked || len(e.Findings) > 0 {
			return errFound
		}
		return nil
	})
	return c
}

func writeExplanation(w io.Writer, e *audit.Explanation) error {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%-11s %s\n", label+":", text) }
	line("Value", e.Value)
	if len(e.Places) == 0 {
		text := "none hands it out"
		if len(e.Around) > 0 {
			text += ", though it lies in " + strings.Join(e.Around, " and ") +
				" (a network or broadcast address, or past the last one that a bitmap of IPv6 tracks)"
		}
		line("Range", text)
		repair := "changes nothing"
		if len(e.Services) > 0 {
			repair += "; the owner of the Service must recreate it"
		}
		line("Repair", repair)
	}
	for _, p := range e.Places {
		line("Range", fmt.Sprintf("%s %s (%s)", p.Name, p.Range, p.Mode))
		band, allocated := "dynamic", "no"
		if p.State.StaticBand {
			band = "static"
		}
		switch {
		case p.State.Stored:
			allocated = "yes"
		case p.Mode == audit.ModeUnseen:
			allocated = "unknown: no Service uses it, and the bitmap cannot be read over the Kubernetes API"
		}
		line("Band", band)
		line("Allocated", allocated)
		line("Repair", repairOf(p, e.Findings))
	}
	services := "none"
	if len(e.Services) > 0 {
		services = strings.Join(e.Services, ", ")
	}
	line("Services", services)
	if e.Leaked {
		line("Finding", "leak: recorded as allocated, but no Service uses it")
	}
	for _, f := range e.Findings {
		line("Finding", f.Reason+": "+f.Message)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// repairOf describes the repair of a value.
func repairOf(p audit.Place, findings []audit.Finding) string {
	objects := p.Mode == audit.ModeIPAddress
	byServer := slices.ContainsFunc(findings, func(f audit.Finding) bool {
		return f.Remedy == rangekeeper.RemedyAPIServer && f.Range == p.Name
	})
	var text string
	switch s := p.State; {
	case s.Stored && s.Next && byServer:
		text = "kube-apiserver recreates its IPAddress object"
	case s.Stored == s.Next:
		text = "changes nothing"
	case s.Next && objects:
		text = "kube-apiserver makes its IPAddress object"
	case s.Next:
		text = "records it as allocated"
	case objects:
		text = "kube-apiserver removes its IPAddress object"
	default:
		text = "clears it; in a running cluster only if it stays leaked"
	}
	if p.State.Duplicate {
		text += "; all but one of the Services must be recreated by their owners"
	}
	return text
}
