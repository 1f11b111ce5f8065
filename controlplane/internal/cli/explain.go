package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newExplain(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain IP|PORT|NAME|NAMESPACE/NAME|REASON",
		Short: "Explain a ClusterIP, node port, Service or reason of findings",
		Long: `Shows the range and band of an address or port, whether it is allocated, the Services
that use it, and its repair. For a Service shows this for each of its values: it is named
as NAMESPACE/NAME, or as NAME, service/NAME or svc/NAME in --namespace, which is that of the
kubeconfig's context if it is not given. For the reason of a finding, or for "leak", shows
its meaning, risk and remedy, as docs/runbook.md does; this reads no cluster.`,
		Example: `  rangekeeper explain 10.96.0.10 --etcd-snapshot backup.db.gz
  rangekeeper explain 30080 --endpoints http://127.0.0.1:2379
  rangekeeper explain default/web --etcd-snapshot backup.db.gz
  rangekeeper explain web -n default
  rangekeeper explain PortAlreadyAllocated`,
		Args: usage.Arguments,
	}
	format := addFormat(c, formatTable, formatJSON, formatYAML)
	inNamespace := c.Flags().StringP("namespace", "n", "", "namespace of a Service that is named without one")
	c.Flags().BoolP("all-namespaces", "A", false, "without effect: the Services of all namespaces are read")
	var from *source
	completeNamespaces(c, &from)
	c.ValidArgsFunction = completeValues(&from, inNamespace)
	from = withAPISource(c, p, func(c *cobra.Command, args []string, s *source) error {
		screen := newScreen(c.OutOrStdout(), true)
		if entry, ok := runbook.Named(args[0]); ok {
			if *format != formatTable {
				return usage.Error(c, "--output is for a value or a Service, not for a reason")
			}
			screen.entry(entry, s.program)
			return screen.writeTo(c.OutOrStdout())
		}
		value, err := rangekeeper.ParseValue(args[0])
		isService := err != nil
		if isService && isRanges(args[0]) {
			return usage.Error(c, "%s is a range, not one value; `%s show NAME` shows a range", args[0], s.program)
		}
		var namespace, name string
		if isService {
			if namespace, name, err = s.serviceOf(c, args[0], *inNamespace); err != nil {
				return err
			}
		}
		a, err := s.audit(c.Context())
		if err != nil {
			return err
		}
		screen.source(a.Report().Source)
		var all []*audit.Explanation
		if isService {
			all, err = a.ExplainService(namespace, name)
			screen.text(0, bold, fmt.Sprintf("Service %s, %s", printable(namespace+"/"+name), count(len(all), "value")))
		} else {
			all = make([]*audit.Explanation, 1)
			all[0], err = a.Explain(value)
		}
		if err != nil {
			return s.explain(err)
		}
		faulty := false
		for _, e := range all {
			screen.blank()
			screen.explanation(e, s.program)
			faulty = faulty || e.IsLeaked() || len(e.Findings)+len(e.Unreadable) > 0
		}
		if *format == formatTable {
			err = screen.writeTo(c.OutOrStdout())
		} else {
			err = writeDocument(c.OutOrStdout(), audit.Explanations{APIVersion: audit.APIVersion, Kind: audit.KindExplanation, Source: a.Report().Source, Values: all}, *format)
		}
		return foundIf(faulty, err)
	})
	return c
}

// isRanges reports whether a text has the form of a range, or of the ranges of a finding.
func isRanges(text string) bool {
	for _, part := range strings.Split(text, ", ") {
		_, notCIDR := rangekeeper.ParseCIDR(part)
		_, notPorts := rangekeeper.ParsePortRange(part)
		if notCIDR != nil && notPorts != nil {
			return false
		}
	}
	return true
}

// serviceOf returns the namespace and name of a Service that a user names.
func (s *source) serviceOf(c *cobra.Command, text, inNamespace string) (namespace, name string, err error) {
	before, name, hasSlash := strings.Cut(text, "/")
	switch {
	case !hasSlash:
		name = text
	case isServiceKind(before):
	case inNamespace != "" && inNamespace != before:
		return "", "", usage.Error(c, "%s is in another namespace than --namespace %s", text, inNamespace)
	default:
		return before, name, nil
	}
	if namespace = s.serviceNamespace(inNamespace); namespace == "" {
		return "", "", usage.Error(c, "%q is no address, port, NAMESPACE/NAME or reason; a Service without a namespace needs --namespace", text)
	}
	return namespace, name, nil
}

// isServiceKind reports whether a text before a slash is a name of the kind instead of a namespace.
func isServiceKind(text string) bool {
	return slices.Contains([]string{"service", "services", "svc"}, text)
}

// serviceNamespace is that of a Service that is named without one; empty if none is known.
func (s *source) serviceNamespace(given string) string {
	if given == "" && s.overAPI() {
		return s.namespace()
	}
	return given
}

// entry writes an entry of the runbook, for the user of a program.
func (s *screen) entry(e runbook.Entry, program string) {
	s.text(0, bold, e.Name+": "+e.Title)
	for _, part := range []struct{ title, text string }{{"Meaning", e.Meaning}, {"Risk", e.Risk}, {"Remedy", e.Remedy}} {
		s.b.WriteByte('\n')
		s.text(0, bold, part.title)
		s.text(2, "", called(program, part.text))
	}
	s.b.WriteString("\nRunbook: " + e.Page() + "\n")
}

// explanation writes all about one value, for the user of a program.
func (s *screen) explanation(e *audit.Explanation, program string) {
	line := func(label, text string) {
		for i, line := range wrapped(text, max(s.width-12, 20), 0) {
			if i > 0 {
				label = ""
			} else {
				label += ":"
			}
			fmt.Fprintf(&s.b, "%-11s %s\n", label, line)
		}
	}
	unknown := func(kind string) string {
		if keys := e.UnreadableKeys(kind); keys != "" {
			return "unknown: " + printable(keys) + " cannot be read"
		}
		return ""
	}
	line("Value", cmp.Or(printable(e.Value), `""`))
	switch {
	case len(e.Places) > 0:
	case unknown(audit.KindServiceCIDR) != "":
		line("Range", unknown(audit.KindServiceCIDR))
	case e.RangeUnknown:
		flag := "--service-node-port-range"
		if strings.ContainsAny(e.Value, ".:") {
			flag = "--service-cluster-ip-range"
		}
		line("Range", "not known over the Kubernetes API; name it with "+flag)
	default:
		text := "none hands it out"
		if len(e.Around) > 0 {
			text += ", though it lies in " + strings.Join(e.Around, " and ") +
				" (a network or broadcast address, or past the last one that a bitmap of IPv6 tracks)"
		}
		line("Range", text)
		repair := "changes nothing"
		isPort := slices.ContainsFunc(e.Findings, func(f audit.Finding) bool { return f.Reason == rangekeeper.ReasonPortOutOfRange.String() })
		switch {
		case len(e.Services) == 0:
		case isPort:
			repair += "; the owner of the Service must change it"
		default:
			repair += "; the owner of the Service must recreate it"
		}
		line("Repair", repair)
	}
	for _, p := range e.Places {
		mode := string(p.Mode)
		if p.NotReady {
			mode += ", not ready: no new Service gets an address of it"
		}
		line("Range", fmt.Sprintf("%s %s (%s)", p.Name, p.Range, mode))
		allocated := "no"
		switch {
		case p.Allocated == nil && p.State.InUse:
			allocated = "unknown: a Service uses it, but the bitmap cannot be read over the Kubernetes API"
		case p.Allocated == nil:
			allocated = "unknown: no Service uses it, and the bitmap cannot be read over the Kubernetes API"
		case p.State.Stored:
			allocated = "yes"
		case p.Mode == audit.ModeIPAddress:
			allocated = cmp.Or(unknown(audit.KindIPAddress), allocated)
		}
		line("Band", p.Band)
		line("Allocated", allocated)
		line("Repair", repairOf(p, e))
	}
	services := cmp.Or(unknown(audit.KindService), "none")
	if len(e.Services) > 0 {
		services = printable(strings.Join(e.Services, ", "))
		if keys := e.UnreadableKeys(audit.KindService); keys != "" {
			services += ", and perhaps " + printable(keys) + ", which cannot be read"
		}
	}
	line("Services", services)
	for _, u := range e.Unknown {
		line("Unknown", u.Message)
	}
	for _, f := range e.Findings {
		if len(f.Claimants) == 0 {
			continue
		}
		for _, c := range f.Claimants {
			line("Claimant", fmt.Sprintf("%s, created %s, %s", printable(c.Namespace+"/"+c.Name), cmp.Or(c.CreationTimestamp, "at an unknown time"), doesAbout(f, c)))
		}
		break // the same for all findings about the value
	}
	if e.IsLeaked() && unknown(audit.KindService) != "" {
		line("Finding", "perhaps a leak: recorded as allocated, but no Service that can be read uses it")
	} else if e.IsLeaked() {
		line("Finding", "leak: recorded as allocated, but no Service uses it")
	}
	shown := map[string]bool{} // findings about several Services may be the same
	for _, f := range e.Findings {
		if text := f.Reason + ": " + f.Message; !shown[text] {
			line("Finding", text)
			shown[text] = true
		}
		if entry, ok := runbook.Named(f.Reason); ok && !shown[f.Reason] {
			shown[f.Reason] = true
			line("Risk", entry.Risk)
			if len(e.Unreadable) == 0 {
				line("Remedy", called(program, entry.Remedy))
			}
		}
	}
	if len(e.Unreadable) > 0 {
		line("Remedy", "restore or delete in etcd what cannot be read; nothing is repaired before that")
	}
}

// repairOf describes the repair of a value.
func repairOf(p audit.Place, e *audit.Explanation) string {
	if len(e.Unreadable) > 0 {
		return "none beside objects that cannot be read"
	}
	objects := p.Mode == audit.ModeIPAddress
	byServer := slices.ContainsFunc(e.Findings, func(f audit.Finding) bool {
		return f.Remedy == rangekeeper.RemedyAPIServer && f.Range == p.Name && f.Mode == p.Mode
	})
	crashes := slices.ContainsFunc(e.Findings, func(f audit.Finding) bool {
		return f.Reason == rangekeeper.ReasonIPAddressWithoutParent.String()
	})
	var text string
	switch s := p.State; {
	case crashes && objects:
		text = "kube-apiserver crashes at its IPAddress object, which must be deleted first"
	case p.Allocated == nil:
		text = "unknown; audit the etcd or a snapshot of it"
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
	switch {
	case p.State.Duplicate && len(e.Services) == 1:
		text += "; the Service claims it twice, which its owner must change"
	case p.State.Duplicate && isTied(e):
		text += "; one of the Services keeps it, the others must be changed or recreated by their owners"
	case p.State.Duplicate:
		text += "; the oldest Service keeps it, the others must be changed or recreated by their owners"
	}
	return text
}

// isTied reports whether it is not known which of several Services keeps the value.
func isTied(e *audit.Explanation) bool {
	return slices.ContainsFunc(e.Findings, func(f audit.Finding) bool {
		return slices.ContainsFunc(f.Claimants, func(c audit.Claimant) bool { return c.Tied })
	})
}
