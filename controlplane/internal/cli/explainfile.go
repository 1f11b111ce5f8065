package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// explainFile explains the values of the Services in a manifest or a list.
func explainFile(c *cobra.Command, s *source.Source, path, inNamespace, format string) error {
	named, err := readServices(path)
	if err != nil {
		return fmt.Errorf("--filename %s: %w", path, err)
	}
	for i := range named {
		named[i].Name = cmp.Or(named[i].Name, named[i].GenerateName)
		if named[i].Namespace == "" {
			named[i].Namespace = cmp.Or(s.ServiceNamespace(inNamespace), metav1.NamespaceDefault)
		}
	}
	state := &clusterstate.State{}
	for i := range named {
		state.Services.Add(servicebatch.FieldsOf(&named[i]).AppendTo(nil))
	}
	claims, err := state.Claims()
	if err != nil {
		return err
	}
	namedBy, err := audit.Users(state)
	if err != nil {
		return err
	}
	a, err := s.Audit(c.Context())
	if err != nil {
		return err
	}
	document := audit.Explanations{APIVersion: audit.APIVersion, Kind: audit.KindExplanation, Source: a.Report().Source, Values: []*audit.Explanation{}}
	shown := screen.New(c.OutOrStdout(), true)
	shown.Source(a.Report().Source)
	faulty, seen := false, sets.New[string]()
	for i := range named {
		name := named[i].Namespace + "/" + named[i].Name
		for _, fault := range refusals(&named[i]) {
			fmt.Fprintf(c.ErrOrStderr(), "rangekeeper: Service %s of %s %s\n", screen.Printable(name), path, fault)
			faulty = true
		}
		all, err := a.ExplainService(named[i].Namespace, named[i].Name)
		isThere := err == nil
		if err != nil && !errors.Is(err, audit.ErrNone) {
			return s.Explain(err)
		}
		for _, claim := range claims {
			isKnown := func(e *audit.Explanation) bool { return e.Value == claim.Value.String() }
			if claim.Service != i || claim.Value.IsValid() && slices.ContainsFunc(all, isKnown) {
				continue
			}
			if !claim.Value.IsValid() {
				fmt.Fprintf(c.ErrOrStderr(), "rangekeeper: Service %s of %s has %s where an address belongs\n", screen.Printable(name), path, strconv.Quote(claim.Text))
				faulty = true
				continue
			}
			e, err := a.Explain(claim.Value)
			if err != nil {
				return s.Explain(err)
			}
			all = append(all, e)
		}
		there := "is in the cluster"
		if !isThere {
			there = "is not in the cluster"
		}
		shown.Blank()
		shown.Title(fmt.Sprintf("Service %s %s, %s", screen.Printable(name), there, screen.Count(len(all), "value")))
		for _, e := range all {
			e.NamedBy = []string{name}
			if value, err := rangekeeper.ParseValue(e.Value); err == nil && len(namedBy[value]) > 0 {
				e.NamedBy = namedBy[value]
			}
			shown.Blank()
			shown.Explanation(e, s.Program)
			faulty = faulty || e.IsLeaked() || e.Conflict() != "" || len(e.Findings)+len(e.Unreadable) > 0
			if !seen.Has(e.Value) {
				seen.Insert(e.Value)
				document.Values = append(document.Values, e)
			}
		}
	}
	if format == screen.FormatTable {
		err = shown.Print(c.OutOrStdout())
	} else {
		err = screen.WriteDocument(c.OutOrStdout(), document, format)
	}
	return foundIf(faulty, err)
}

// refusals says what no server takes in the fields of a Service that name values, whatever the cluster has
// (pkg/apis/core/validation, ValidateService).
func refusals(s *corev1.Service) (faults []string) {
	if s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) > 0 {
		faults = append(faults, "has clusterIPs and no clusterIP")
	}
	type use struct {
		protocol corev1.Protocol
		port     int32
	}
	seen := sets.New[use]()
	for _, p := range s.Spec.Ports {
		one := use{cmp.Or(p.Protocol, corev1.ProtocolTCP), p.NodePort}
		switch {
		case p.NodePort == 0:
		case p.NodePort < 0 || p.NodePort > 65535:
			faults = append(faults, fmt.Sprintf("has the node port %d, which is no port", p.NodePort))
		case seen.Has(one):
			faults = append(faults, fmt.Sprintf("has the node port %d twice for %s", p.NodePort, one.protocol))
		}
		seen.Insert(one)
	}
	health := s.Spec.HealthCheckNodePort
	if health != 0 && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == health }) {
		faults = append(faults, fmt.Sprintf("has the node port %d for its health check, too", health))
	}
	return faults
}

// readServices reads the Services of a file, in YAML documents or JSON. Objects of other kinds are passed over.
func readServices(path string) (services []corev1.Service, err error) {
	in := io.Reader(os.Stdin)
	if path != snapshotfile.Stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(in))
	others := 0
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = appendServices(document, "", &services, &others)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
	if len(services) == 0 {
		return nil, fmt.Errorf("has no Service (%s of other kinds)", screen.Count(others, "object"))
	}
	return services, nil
}

// appendServices appends the Services of one document, and counts the objects of other kinds. kind is that of an object
// that has none.
func appendServices(document []byte, kind string, services *[]corev1.Service, others *int) error {
	text, err := sigsyaml.YAMLToJSON(document)
	if err != nil {
		return inOneLine(err)
	}
	var object struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	switch cmp.Or(object.Kind, kind) {
	case "Service":
		var service corev1.Service
		if err := json.Unmarshal(text, &service); err != nil {
			return err
		}
		*services = append(*services, service)
	case "List", "ServiceList":
		kind, _ := strings.CutSuffix(object.Kind, "List") // the API leaves it out of the items
		for i, item := range object.Items {
			if err := appendServices(item, kind, services, others); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
	case "":
		if string(text) != "null" { // a document of comments
			return errors.New("is no object of Kubernetes: it has no kind")
		}
	default:
		*others++
	}
	return nil
}
