package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/newfile"
	"github.com/rangekeeper/rangekeeper/controlplane/picture"
	driver "github.com/rangekeeper/rangekeeper/controlplane/repair"
)

// auditFlags are those of one run of the command.
type auditFlags struct {
	format               string
	namespace            string
	allNamespaces        bool
	probe, strict, watch bool
	failOn, warnFree     string
	ignoreFile, bundle   string
	ignored              *audit.IgnoreList
	// stored are the ranges of the state that was read last.
	stored         map[string]clusterstate.StoredRange
	interval       time.Duration
	severity       audit.Severity
	percent        uint8
	stdout, stderr io.Writer
	source         *source.Source
}

// minWatchInterval is the least time between two audits of a watch.
const minWatchInterval = time.Second

func newAudit(p *Program) *cobra.Command {
	o := new(auditFlags)
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show the faults in the ranges and Services of a cluster",
		Long: `Shows the faults in the ranges and Services of a cluster, and in the leases and
endpoints of its API servers: of an etcd snapshot, of a running etcd, or else over the
Kubernetes API, of the cluster that kubectl works with. docs/sources.md says what each of
them can see.

What the source does not show stands below each severity. In JSON and YAML a count is
null if there may be more than was found, and "unknown" says why. The exit code is 1 if something was found, or with
--fail-on if something of that severity or a worse one was found. With --strict it is 4
if nothing was found, but the source does not show all.

--ignore names a file with faults that are known. They are counted, but neither shown nor
part of the exit code. An entry has a reason, or "Leak", and a value, an object or both.
Entries that have expired or match nothing are named.

A list of known faults:
  apiVersion: rangekeeper/v1
  kind: IgnoreList
  entries:
  - reason: PortAlreadyAllocated
    value: 31069
    object: shop/dup-2
    expires: 2026-12-31
    comment: goes with release 4

--bundle also writes a file for a bug report: the whole report, explanations of what was
found, versions, flags without credentials, and the sizes of the stored ranges. It has
names and addresses of Services, but no Secret, annotation or label.

With --watch the first report is followed by lines about what is new and what is gone;
-o json and -o yaml write each report as a whole.`,
		Example: `  rangekeeper audit
  rangekeeper audit --context production -n web -o json
  rangekeeper audit --fail-on breaksTraffic --strict \
    --endpoints http://127.0.0.1:2379
  rangekeeper audit --etcd-snapshot backup.db.gz
  rangekeeper audit --ignore known.yaml -o junit
  rangekeeper audit --bundle audit.tar.gz
  rangekeeper audit --endpoints https://10.0.0.1:2379 -o prometheus \
    --cacert ca.crt --cert client.crt --key client.key`,
		Args:              usage.Arguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := screen.AddFormat(c, screen.FormatTable, screen.FormatWide, screen.FormatJSON, screen.FormatYAML, screen.FormatHTML, screen.FormatPrometheus, screen.FormatJUnit)
	f := c.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "show the findings about Services of this namespace only; all Services are audited")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "show the findings of all namespaces, which is the default")
	f.BoolVar(&o.probe, "probe", false, "over the Kubernetes API: find leaked node ports by dry runs, which write nothing; takes up to 4 minutes (docs/sources.md)")
	f.StringVar(&o.failOn, "fail-on", string(audit.Wasted), "exit code 1 only for faults of this severity or a worse one: "+strings.Join(severityNames(), ", "))
	f.BoolVar(&o.strict, "strict", false, "exit code 4 if nothing was found, but the source does not show all")
	f.StringVar(&o.warnFree, "warn-free", fmt.Sprintf("%d%%", driver.WarnFree), "report a range of which less than this is free; with 0% only a full one")
	f.BoolVarP(&o.watch, "watch", "w", false, "audit again and again until interrupted, and show what has changed")
	f.StringVar(&o.ignoreFile, "ignore", "", "leave out the known faults that this file lists")
	f.StringVar(&o.bundle, "bundle", "", "write what a bug report needs, without secrets, to this new .tar.gz file")
	f.DurationVar(&o.interval, "interval", time.Minute, "with --watch: time between two audits")
	c.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(severityNames(), cobra.ShellCompDirectiveNoFileComp))
	usage.CompleteNothing(c, "warn-free", "interval")
	for _, file := range []string{"ignore", "bundle"} {
		usage.NotEmpty(c, file)
		c.MarkFlagFilename(file)
	}
	completeNamespaces(c, &o.source)
	o.source = source.AddWithAPI(c, p.Linked, func(c *cobra.Command, _ []string, _ *source.Source) error {
		o.format, o.stdout, o.stderr = *format, c.OutOrStdout(), c.ErrOrStderr()
		if o.ignoreFile != "" {
			var err error
			if o.ignored, err = readIgnoreList(o.ignoreFile); err != nil {
				return err
			}
		}
		if o.bundle != "" { // not after minutes of work
			if err := (newfile.Target{Path: o.bundle}).Check(); err != nil {
				return err
			}
		}
		if o.watch {
			return o.follow(c.Context())
		}
		a, report, err := o.audit(c.Context())
		if err != nil {
			return err
		}
		if o.bundle != "" {
			if err := o.writeBundle(c, a); err != nil {
				return err
			}
		}
		return o.end(report, o.write(a, report))
	})
	o.source.ForServers = true
	usage.AddRule(c, func([]string) error { return o.check(c, *format) })
	return c
}

func severityNames() (names []string) {
	for _, severity := range audit.Severities {
		names = append(names, string(severity))
	}
	return names
}

// check refuses flags that cannot be.
func (o *auditFlags) check(c *cobra.Command, format string) error {
	o.severity = audit.Severity(o.failOn)
	percent, err := strconv.ParseUint(strings.TrimSuffix(o.warnFree, "%"), 10, 8)
	o.percent = uint8(percent)
	switch {
	case o.probe && !o.source.OverAPI():
		return usage.Error(c, "--probe is for the Kubernetes API: etcd has the bitmap of node ports")
	case !slices.Contains(audit.Severities, o.severity):
		return usage.Error(c, "--fail-on is %s, not %q", strings.Join(severityNames(), ", "), o.failOn)
	case err != nil || percent > 100:
		return usage.Error(c, "--warn-free is a whole percentage from 0%% to 100%%, not %q", o.warnFree)
	case format == screen.FormatPrometheus && o.namespace != "" && !o.allNamespaces:
		return usage.Error(c, "-o prometheus is about the whole cluster, not about --namespace %s", o.namespace)
	case o.watch && !o.source.Online():
		return usage.Error(c, "--watch is for a running cluster")
	case o.watch && o.bundle != "":
		return usage.Error(c, "--watch and --bundle exclude each other")
	case o.watch && (format == screen.FormatHTML || format == screen.FormatPrometheus || format == screen.FormatJUnit):
		return usage.Error(c, "--watch is for other formats than %s", format)
	case !o.watch && c.Flags().Changed("interval"):
		return usage.Error(c, "--interval is for --watch")
	case o.interval < minWatchInterval:
		return usage.Error(c, "--interval is at least %s, not %s", minWatchInterval, o.interval)
	}
	return nil
}

// audit reads and audits the cluster. The report is the audit's, or that of a namespace.
func (o *auditFlags) audit(ctx context.Context) (*audit.Audit, *audit.Report, error) {
	s := o.source
	var state *clusterstate.State
	var err error
	if o.probe {
		state, err = s.Probe(ctx, cmp.Or(o.namespace, metav1.NamespaceDefault))
	} else {
		state, err = s.Read(ctx, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	o.stored = state.Ranges
	options := s.AuditOptions(state)
	options.FindsFullRanges, options.WarnFree = true, o.percent
	a, err := s.AuditWith(state, options)
	if err != nil {
		return nil, nil, err
	}
	report := a.Report()
	if o.ignored != nil {
		report = report.Ignoring(o.ignored, today())
	}
	if o.namespace != "" && !o.allNamespaces {
		report = report.InNamespace(o.namespace)
		if !state.Services.HasNamespace(o.namespace) {
			fmt.Fprintf(o.stderr, "rangekeeper: no Service is in namespace %s\n", screen.Printable(o.namespace))
		}
	}
	return a, report, nil
}

// end is the end of the command after a report was written.
func (o *auditFlags) end(report *audit.Report, err error) error {
	return foundOrUnseen(report.Has(o.severity), o.strict && report.Hides(o.severity), err)
}

// follow writes a report, and what has changed each time that the result changes, until it is interrupted. Programs get
// whole documents.
func (o *auditFlags) follow(ctx context.Context) error {
	o.source.Follow()
	var last []byte
	var before *audit.Report
	reached := int64(0)
	for {
		a, report, err := o.audit(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintf(o.stderr, "rangekeeper: %v; trying again in %s\n", err, o.interval)
		default:
			if now := report.Source.Revision; now < reached {
				fmt.Fprintln(o.stderr, "rangekeeper:", wentBack(reached, now))
			}
			reached = report.Source.Revision
			undated := *report
			undated.Source, undated.Servers = nil, nil // servers write their leases all the time
			now, err := json.Marshal(undated)
			if err == nil && !bytes.Equal(now, last) {
				switch {
				case o.format == screen.FormatJSON || o.format == screen.FormatYAML:
					err = screen.WriteOneOf(o.stdout, report, o.format)
				case before == nil:
					err = o.write(a, report)
				default:
					shown := screen.New(o.stdout, true)
					shown.Changes(before, report)
					err = shown.Print(o.stdout)
				}
				last, before = now, report
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.interval):
		}
	}
}

// write writes a report, which is the audit's or a part of it.
func (o *auditFlags) write(a *audit.Audit, report *audit.Report) error {
	if o.format == screen.FormatJUnit {
		return screen.WriteJUnit(o.stdout, report, o.severity, o.strict)
	}
	return writeAudit(o.stdout, a, report, o.format, o.source.ReportSteps(report), o.source.Program)
}

// writeAudit writes a report with the commands that follow.
func writeAudit(w io.Writer, a *audit.Audit, report *audit.Report, format string, steps []screen.Step, program string) error {
	switch format {
	case screen.FormatJSON, screen.FormatYAML:
		return screen.WriteDocument(w, report, format)
	case screen.FormatPrometheus:
		return screen.WritePrometheus(w, report)
	case screen.FormatTable:
		shown := screen.New(w, false)
		shown.Report(report, "", steps, program)
		return shown.Print(w)
	}
	maps, err := a.Maps()
	if err != nil {
		return err
	}
	if format == screen.FormatHTML {
		if err := a.NameValues(maps); err != nil {
			return err
		}
		return picture.HTML(w, screen.PageOf(report, maps, steps, program))
	}
	var drawn strings.Builder
	if err := picture.Text(&drawn, maps); err != nil {
		return err
	}
	shown := screen.New(w, true)
	shown.Report(report, drawn.String(), steps, program)
	return shown.Print(w)
}
