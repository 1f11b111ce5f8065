package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func newExplain(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain [IP|PORT|NAME|NAMESPACE/NAME|REASON]",
		Short: "Explain a ClusterIP, node port, Service or reason of findings",
		Long: `Shows the range and band of an address or port, whether it is allocated, the Services
that use it, and its repair. For a Service shows this for each of its values: it is named
as NAMESPACE/NAME, or as NAME, service/NAME or svc/NAME in --namespace, which is that of the
kubeconfig's context if it is not given. For default/kubernetes, the Service of the API
servers, also shows their addresses and leases. For the reason of a finding, or for "leak", shows
its meaning, risk and remedy; this reads no cluster.

--filename explains the values of all Services in a manifest or in a list from kubectl:
the values that the file names, and those that these Services have in the cluster. A value
that another Service uses is a conflict, and the exit code is 1.`,
		Example: `  rangekeeper explain 10.96.0.10 --etcd-snapshot backup.db.gz
  rangekeeper explain 30080 --endpoints http://127.0.0.1:2379
  rangekeeper explain default/web --etcd-snapshot backup.db.gz
  rangekeeper explain web -n default
  rangekeeper explain PortAlreadyAllocated
  rangekeeper explain -f services.yaml`,
		Args: usage.Arguments,
	}
	format := screen.AddFormat(c, screen.FormatTable, screen.FormatJSON, screen.FormatYAML)
	inNamespace := c.Flags().StringP("namespace", "n", "", "namespace of a Service that is named without one")
	c.Flags().BoolP("all-namespaces", "A", false, "without effect: the Services of all namespaces are read")
	file := c.Flags().StringP("filename", "f", "", "explain the Services of this manifest or list, in YAML or JSON; - for the standard input")
	usage.NotEmpty(c, "filename")
	c.MarkFlagFilename("filename", "yaml", "yml", "json")
	var from *source.Source
	completeNamespaces(c, &from)
	c.ValidArgsFunction = completeValues(&from, inNamespace)
	from = source.AddWithAPI(c, p.Linked, func(c *cobra.Command, args []string, s *source.Source) error {
		shown := screen.New(c.OutOrStdout(), true)
		if *file != "" {
			return explainFile(c, s, *file, *inNamespace, *format)
		}
		if entry, ok := runbook.Named(args[0]); ok {
			if *format != screen.FormatTable {
				return screen.WriteDocument(c.OutOrStdout(), newReason(entry, s.Program), *format)
			}
			shown.Entry(entry, s.Program)
			return shown.Print(c.OutOrStdout())
		}
		value, err := rangekeeper.ParseValue(args[0])
		isService := err != nil
		if isService && isRanges(args[0]) {
			return usage.Error(c, "%s is a range, not one value; `%s show NAME` shows a range", args[0], s.Program)
		}
		var namespace, name string
		if isService {
			if namespace, name, err = serviceOf(s, c, args[0], *inNamespace); err != nil {
				return err
			}
		}
		a, err := s.Audit(c.Context())
		if err != nil {
			return err
		}
		shown.Source(a.Report().Source)
		var all []*audit.Explanation
		isServers := namespace == metav1.NamespaceDefault && name == clusterstate.KubernetesService
		if isService {
			all, err = a.ExplainService(namespace, name)
			servers, findings, _ := a.KubernetesService()
			if isServers && errors.Is(err, audit.ErrNone) && len(servers)+len(findings) > 0 {
				all, err = []*audit.Explanation{}, nil // that it is missing is a finding
			}
			shown.Title(fmt.Sprintf("Service %s, %s", screen.Printable(namespace+"/"+name), screen.Count(len(all), "value")))
		} else {
			all = make([]*audit.Explanation, 1)
			all[0], err = a.Explain(value)
		}
		if err != nil {
			return s.Explain(err)
		}
		document := audit.Explanations{APIVersion: audit.APIVersion, Kind: audit.KindExplanation, Source: a.Report().Source, Values: all}
		faulty := false
		for _, e := range all {
			shown.Blank()
			shown.Explanation(e, s.Program)
			faulty = faulty || e.IsLeaked() || len(e.Findings)+len(e.Unreadable) > 0
		}
		if isServers {
			document.Servers, document.Findings, document.Unknown = a.KubernetesService()
			shown.Servers(document.Servers, document.Findings, document.Unknown, s.Program)
			faulty = faulty || len(document.Findings) > 0
		}
		if *format == screen.FormatTable {
			err = shown.Print(c.OutOrStdout())
		} else {
			err = screen.WriteDocument(c.OutOrStdout(), document, *format)
		}
		return foundIf(faulty, err)
	})
	from.ForServers = true
	usage.AddRule(c, func(args []string) error {
		switch {
		case *file == "" && len(args) == 0:
			return usage.Error(c, "IP|PORT|NAME|NAMESPACE/NAME|REASON or --filename is missing")
		case *file != "" && len(args) > 0:
			return usage.Error(c, "%q and --filename exclude each other", args[0])
		case *file == snapshotfile.Stdin && from.File() == snapshotfile.Stdin:
			return usage.Error(c, "--filename and --etcd-snapshot cannot both be the standard input")
		}
		return nil
	})
	return c
}

// reason is an entry of the runbook as a document.
type reason struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Reason     string `json:"reason"`
	Title      string `json:"title"`
	Meaning    string `json:"meaning"`
	Risk       string `json:"risk"`
	Remedy     string `json:"remedy"`
	Page       string `json:"page"`
}

func newReason(e runbook.Entry, program string) *reason {
	return &reason{
		audit.APIVersion, audit.KindReason, e.Name, e.Title,
		screen.Called(program, e.Meaning), screen.Called(program, e.Risk), screen.Called(program, e.Remedy), e.Page(),
	}
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
func serviceOf(s *source.Source, c *cobra.Command, text, inNamespace string) (namespace, name string, err error) {
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
	namespace = s.ServiceNamespace(inNamespace)
	if namespace == "" && name == clusterstate.KubernetesService {
		namespace = metav1.NamespaceDefault // the Service of the API servers
	}
	if namespace == "" {
		return "", "", usage.Error(c, "%q is no address, port, NAMESPACE/NAME or reason; a Service without a namespace needs --namespace", text)
	}
	return namespace, name, nil
}

// isServiceKind reports whether a text before a slash is a name of the kind instead of a namespace.
func isServiceKind(text string) bool {
	return slices.Contains([]string{"service", "services", "svc"}, text)
}
