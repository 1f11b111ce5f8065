package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/occupancy"
)

func newAudit(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show the faults in the ranges and Services of a cluster",
		Long: `Shows the faults in the ranges and Services of a cluster: of an etcd snapshot, of a
running etcd, or else over the Kubernetes API, of the cluster that kubectl works with.
docs/sources.md says what each of them can see.`,
		Example: `  rangekeeper audit
  rangekeeper audit --context production -n web -o json
  rangekeeper audit --etcd-snapshot backup.db.gz
  rangekeeper audit --endpoints https://10.0.0.1:2379 -o json \
    --cacert ca.crt --cert client.crt --key client.key`,
		Args:              usage.Arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := addFormat(c, formatTable, formatWide, formatJSON, formatYAML, formatHTML)
	namespace := c.Flags().StringP("namespace", "n", "", "show the findings about Services of this namespace only; all Services are audited, and leaks and IPAddress objects are in no namespace")
	allNamespaces := c.Flags().BoolP("all-namespaces", "A", false, "show the findings of all namespaces, which is the default")
	probe := c.Flags().Bool("probe", false, "over the Kubernetes API: find leaked node ports by creating Services as dry runs, in --namespace or else in default; writes nothing, and takes a minute longer if there are any, or 200 s for a stock API server")
	usage.CompleteNothing(c, "namespace")
	s := withAPISource(c, p, func(c *cobra.Command, _ []string, s *source) error {
		s.readMetrics = true
		read := s.read
		if *probe {
			read = func(ctx context.Context) (*clusterstate.State, error) {
				return s.probe(ctx, cmp.Or(*namespace, metav1.NamespaceDefault))
			}
		}
		state, err := read(c.Context())
		a, err := s.auditOf(state, err)
		if err != nil {
			return err
		}
		report := a.Report()
		if *namespace != "" && !*allNamespaces {
			report = report.InNamespace(*namespace)
			if !slices.ContainsFunc(state.Services, func(s corev1.Service) bool { return s.Namespace == *namespace }) {
				fmt.Fprintf(c.ErrOrStderr(), "rangekeeper: no Service is in namespace %s\n", printable(*namespace))
			}
		}
		return foundIf(!report.Clean(), writeAudit(c.OutOrStdout(), a, report, *format, s, time.Now()))
	})
	usage.AddRule(c, func([]string) error {
		if *probe && !s.overAPI() {
			return usage.Error(c, "--probe is for the Kubernetes API: etcd has the bitmap of node ports")
		}
		return nil
	})
	return c
}

// writeAudit writes a report, which is the audit's or a part of it.
func writeAudit(w io.Writer, a *audit.Audit, report *audit.Report, format string, from *source, now time.Time) error {
	switch format {
	case formatJSON, formatYAML:
		return writeDocument(w, report, format)
	case formatTable:
		screen := newScreen(w, false)
		reportScreen(screen, report, "", from)
		return screen.writeTo(w)
	}
	maps, err := a.Maps()
	if err != nil {
		return err
	}
	if format == formatHTML {
		a.NameValues(maps)
		return occupancy.HTML(w, pageOf(a, report, maps, from, now))
	}
	var drawn strings.Builder
	if err := occupancy.Text(&drawn, maps); err != nil {
		return err
	}
	screen := newScreen(w, true)
	reportScreen(screen, report, drawn.String(), from)
	return screen.writeTo(w)
}

// The output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatHTML  = "html"
	formatName  = "name"
)

// addFormat adds the flag --output with the formats that a command knows, the default
// first.
func addFormat(c *cobra.Command, allowed ...string) *string {
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
