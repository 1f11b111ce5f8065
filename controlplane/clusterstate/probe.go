package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiclient"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	// probeQPS is the number of creations in a second.
	probeQPS = 10
	// portsPerProbe is the number of ports of a creation. A server refuses the first one that is allocated.
	portsPerProbe = 100
)

// How the allocator of node ports refuses a port (pkg/registry/core/service/portallocator). In a dry run only a server
// with Rangekeeper inside refuses one outside its range.
const (
	allocatedPort = "provided port is already allocated"
	outsidePort   = "provided port is not in the valid range"
)

// validPorts is the range in the refusal of a port outside it.
var validPorts = regexp.MustCompile(outsidePort + `\. The range of valid ports is (\d+-\d+)`)

// noRight is in the answer to a user who lacks a right. A refusal by the admission has the same status.
const noRight = "cannot create resource"

// ProbeOptions of [ProbeNodePorts].
type ProbeOptions struct {
	// Range returns the range of node ports, or an error if the state says too little about it. In a dry run a stock
	// server accepts ports outside its own.
	Range func(*State) (rangekeeper.Range, error)
	// Namespace is where the Services would be created; it must exist.
	Namespace string
	// Wait is the time between two looks at the same port, longer than a creation of a Service may take. For a stock
	// server StockWait takes its place, longer than the interval of its repair.
	Wait, StockWait time.Duration
	// Progress is as in [Options], in ports.
	Progress func(done, total int64)
	// Log is called with a sentence about a long step.
	Log func(string)
}

// ProbeNodePorts finds node ports that are recorded as allocated though no Service uses them: those for which an API
// server refuses the creation of a Service, twice with a time between. The creations are dry runs, so nothing is
// written. It returns the state after the second look, with [Unseen.RecordedNodePorts].
//
// A stock server sees the bitmap as it was at its own last write of it; its repair writes it every three minutes. So it
// refuses ports that other servers have released, and accepts some that they have allocated: a repair must come between
// the two looks, and a port of a Service is probed, too. With Rangekeeper inside a server sees the present bitmap.
func ProbeNodePorts(ctx context.Context, config *rest.Config, read func() (*State, error), o ProbeOptions) (*State, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.WarningHandler = probeQPS, 1, rest.NoWarnings{}
	client, err := apiclient.Plain(config)
	if err != nil {
		return nil, err
	}
	p := &probe{ctx, client, o}
	state, err := read()
	if err != nil {
		return nil, err
	}
	ports, err := o.Range(state)
	if err != nil {
		return nil, err
	}
	used, err := usedNodePorts(state)
	if err != nil {
		return nil, err
	}
	var unused []uint16
	for offset := range ports.Size() {
		if value, _ := ports.ValueAt(offset); !used[value.Port()] {
			unused = append(unused, value.Port())
		}
	}
	refused, err := p.refused(unused)
	if err != nil {
		return nil, err
	}
	seesAll, err := p.seesAll(ports)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		// A creation allocates its ports before it writes the Service.
		wait, after := o.StockWait, ", after the server's next repair"
		if seesAll {
			wait, after = o.Wait, ""
		}
		about := "1 node port is refused though no Service used it"
		if len(refused) > 1 {
			about = fmt.Sprintf("%d node ports are refused though no Service used them", len(refused))
		}
		o.Log(fmt.Sprintf("%s; looking again in %s%s", about, wait, after))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		if refused, err = p.refused(refused); err != nil {
			return nil, err
		}
		if state, err = read(); err != nil {
			return nil, err
		}
		if used, err = usedNodePorts(state); err != nil {
			return nil, err
		}
		refused = slices.DeleteFunc(refused, func(port uint16) bool { return used[port] })
	}
	state.Unseen.Probed, state.Unseen.RecordedNodePorts, state.Unseen.SeesAll = true, refused, seesAll
	if state.Unseen.CheckedNodePort, err = youngest(state, ports); err != nil {
		return nil, err
	}
	if state.Unseen.CheckedNodePort != 0 {
		again, err := p.refused([]uint16{state.Unseen.CheckedNodePort})
		if err != nil {
			return nil, err
		}
		state.Unseen.Accepted = len(again) == 0
	}
	return state, nil
}

// youngest returns a node port of the youngest Service with one in the range; 0 if there is none.
func youngest(s *State, values rangekeeper.Range) (found uint16, err error) {
	var created int64
	claims, err := s.Claims()
	for _, claim := range claims {
		of := s.Services.At(claim.Service).Created
		if _, in := values.OffsetOf(claim.Value); in && (found == 0 || of > created) {
			found, created = claim.Value.Port(), of
		}
	}
	return found, err
}

func usedNodePorts(s *State) (map[uint16]bool, error) {
	used := map[uint16]bool{}
	claims, err := s.Claims()
	for _, claim := range claims {
		if claim.Value.IsPort() {
			used[claim.Value.Port()] = true
		}
	}
	return used, err
}

type probe struct {
	ctx     context.Context
	client  rest.Interface
	options ProbeOptions
}

// refused returns those of the ports that are allocated.
func (p *probe) refused(ports []uint16) (refused []uint16, err error) {
	for from := 0; from < len(ports); {
		batch := ports[from:min(from+portsPerProbe, len(ports))]
		err := p.create(batch)
		at, isAllocated := allocatedAt(err)
		switch {
		case err == nil:
			from += len(batch)
		case isAllocated && at < len(batch):
			refused = append(refused, batch[at])
			from += at + 1
		default:
			return nil, fmt.Errorf("probe of node ports %d to %d: %w", batch[0], batch[len(batch)-1], p.explain(err))
		}
		p.options.Progress(int64(from), int64(len(ports)))
	}
	return refused, nil
}

// seesAll reports whether Rangekeeper is inside the server, by a port outside the range. If there is none, the server
// counts as a stock one.
func (p *probe) seesAll(ports rangekeeper.Range) (bool, error) {
	for port := uint16(1); port != 0; port++ {
		if _, in := ports.OffsetOf(rangekeeper.PortValue(port)); in {
			continue
		}
		err := p.create([]uint16{port})
		if err == nil {
			return false, nil
		}
		if named := validPorts.FindStringSubmatch(err.Error()); named != nil && named[1] != ports.String() {
			return false, fmt.Errorf("the API server has the node ports %s, not %s: name them with --service-node-port-range", named[1], ports)
		}
		if strings.Contains(err.Error(), outsidePort) {
			return true, nil
		}
		return false, fmt.Errorf("probe of node port %d: %w", port, p.explain(err))
	}
	return false, nil
}

// explain says what a probe needs.
func (p *probe) explain(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, outsidePort):
		return fmt.Errorf("%w; name the range of the API servers with --service-node-port-range", err)
	case !apierrors.IsForbidden(err):
		return explainAPI(p.ctx, err)
	case strings.Contains(text, noRight):
		return fmt.Errorf("%w; a probe needs the right to create Services in namespace %s, and writes none", err, p.options.Namespace)
	}
	return fmt.Errorf("%w; the user may create Services in namespace %s, and its quota or an admission policy refuses one with up to %d node ports: name a namespace without such a limit with -n, and -A to see all findings",
		err, p.options.Namespace, portsPerProbe)
}

// create creates a Service with these node ports as a dry run.
func (p *probe) create(ports []uint16) error {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: serviceKind.versions[0], Kind: serviceKind.name},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "rangekeeper-probe-"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort},
	}
	for i, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: "p" + strconv.Itoa(i), Port: int32(i + 1), NodePort: int32(port),
		})
	}
	body, err := json.Marshal(service)
	if err != nil {
		return err
	}
	return p.client.Post().AbsPath("/api/v1").Namespace(p.options.Namespace).Resource("services").
		Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(p.ctx).Error()
}

// allocatedAt returns the index of the port that an API server refuses because it is allocated.
func allocatedAt(err error) (int, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return 0, false
	}
	for _, cause := range status.Status().Details.Causes {
		var at int
		_, scanErr := fmt.Sscanf(cause.Field, "spec.ports[%d].nodePort", &at)
		if scanErr == nil && strings.Contains(cause.Message, allocatedPort) {
			return at, true
		}
	}
	return 0, false
}
