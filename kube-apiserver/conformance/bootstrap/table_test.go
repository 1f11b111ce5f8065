// Package bootstrap runs the reference's bootstrap controller (k8s.io/kubernetes, pkg/controlplane) and Rangekeeper's
// in the same situations, and compares the resulting objects and leases.
package bootstrap

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	netutils "k8s.io/utils/net"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
)

// floor is the lowest number of situations that the test accepts.
const floor = 40

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the reference logs its failures
	os.Exit(m.Run())
}

// situation is a row of the table.
type situation struct {
	name string
	config
	// objects and leases exist when the first server starts.
	objects []runtime.Object
	leases  []lease
	steps   []step
	// ready are the addresses that must be ready in Rangekeeper's Endpoints at the end, in any order. Those of the
	// slice's family must be ready in the slice.
	ready []string
	// theirs are the ready addresses in the reference's Endpoints, if they differ.
	theirs []string
	// differs has every difference that the situation must show.
	differs []*difference
}

// config is the configuration of the servers: lease mode, unless count or none is set.
type config struct {
	address       string
	count         int
	none          bool
	serviceRange  string
	secondRange   string
	nodePort      int
	reconcile     bool
	servicePorts  []corev1.ServicePort
	endpointPorts []corev1.EndpointPort
	namespaces    []string
}

// server is a server of either side.
type server interface {
	// start starts the server, which is not ready yet.
	start()
	// run makes the ready server sync once.
	run()
	// stop stops the server gracefully, kill does not.
	stop()
	kill()
}

// play is a situation in the world of one side.
type play struct {
	t         *testing.T
	world     *world
	config    config
	newServer func(*testing.T, *world, config) server
	// servers has the started servers by address.
	servers map[string]server
}

// step is an action in a situation.
type step func(*play)

// play performs the steps, and returns the fields after each.
func (s situation) play(t *testing.T, w *world, newServer func(*testing.T, *world, config) server) []map[string]string {
	for _, object := range s.objects {
		w.seed(t, object)
	}
	for _, l := range s.leases {
		w.put(t, l)
	}
	p := &play{t: t, world: w, config: s.config, newServer: newServer, servers: map[string]server{}}
	var states []map[string]string
	for _, step := range s.steps {
		step(p)
		states = append(states, fieldsOf(t, w))
	}
	return states
}

// fieldsOf returns all fields of all objects and leases, except those that differ between any two clusters.
func fieldsOf(t *testing.T, w *world) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for kind := range kinds {
		objects, err := w.all(kind)
		check(t, err)
		for _, object := range objects {
			tree := treeOf(t, object)
			metadata := tree["metadata"].(map[string]any)
			for _, name := range []string{"resourceVersion", "uid", "managedFields", "creationTimestamp"} {
				delete(metadata, name)
			}
			name := fmt.Sprintf("%s %v/%v", kind, metadata["namespace"], metadata["name"])
			fields[name] = "exists"
			flatten(fields, name, tree)
		}
	}
	values, ttls, err := w.storedLeases(t.Context())
	check(t, err)
	for key, value := range values {
		name := "Lease " + key
		fields[name+".ttl"] = fmt.Sprint(ttls[key])
		fields[name+".value"] = base64.StdEncoding.EncodeToString(value)
		if object, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), value); err == nil {
			flatten(fields, name, treeOf(t, object))
		}
	}
	return fields
}

func treeOf(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	check(t, err)
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	check(t, decoder.Decode(&tree))
	return tree
}

// flatten adds every leaf of a tree to fields, by its path.
func flatten(fields map[string]string, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			flatten(fields, path+"."+name, inner)
		}
	case []any:
		for i, inner := range value {
			flatten(fields, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	case nil:
	default:
		fields[path] = fmt.Sprint(value)
	}
}

// unlike is a field that differs between the sides after a step; "" if it is missing.
type unlike struct {
	step                   int
	field, reference, ours string
}

func (u unlike) String() string {
	return fmt.Sprintf("step %d: %s: reference %q, Rangekeeper %q", u.step, u.field, u.reference, u.ours)
}

func compare(step int, reference, ours map[string]string) []unlike {
	names := map[string]bool{}
	for name := range reference {
		names[name] = true
	}
	for name := range ours {
		names[name] = true
	}
	var all []unlike
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if reference[name] != ours[name] {
			all = append(all, unlike{step, name, reference[name], ours[name]})
		}
	}
	return all
}

// TestBootstrapSameObjects compares every situation after each of its steps.
func TestBootstrapSameObjects(t *testing.T) {
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()})
	check(t, err)
	t.Cleanup(etcd.Close)
	shown := map[*difference]int{}
	played, fields := 0, 0
	names := map[string]bool{}
	for _, s := range situations {
		if names[s.name] {
			t.Errorf("two situations have the name %q", s.name)
		}
		names[s.name] = true
		if s.serviceRange == "" {
			s.serviceRange = "10.0.0.0/24"
		}
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			theirWorld := newWorld(t, etcd.Client(), "/reference", s.config)
			theirs := s.play(t, theirWorld, newReference)
			ourWorld := newWorld(t, etcd.Client(), "/rangekeeper", s.config)
			ours := s.play(t, ourWorld, newRangekeeper)
			played++
			seen := map[*difference]bool{}
			for i := range s.steps {
				fields += len(ours[i])
				for _, u := range compare(i+1, theirs[i], ours[i]) {
					of := slices.IndexFunc(s.differs, func(d *difference) bool { return d.fields.MatchString(u.field) })
					if of < 0 {
						t.Errorf("unexpected difference: %s", u)
						continue
					}
					t.Logf("%s: %s", s.differs[of].name, u)
					seen[s.differs[of]] = true
				}
			}
			for _, d := range s.differs {
				if !seen[d] {
					t.Errorf("the situation does not show the difference %q", d.name)
				}
				shown[d]++
			}
			if s.theirs == nil {
				checkEndpoints(t, "the reference's", theirWorld, s.ready)
			} else {
				checkEndpoints(t, "the reference's", theirWorld, s.theirs)
			}
			checkEndpoints(t, "Rangekeeper's", ourWorld, s.ready)
			if !s.none {
				checkSlice(t, ourWorld, s.ready)
			}
		})
	}
	for _, d := range differences {
		if shown[d] == 0 {
			t.Errorf("no situation shows the difference %q", d.name)
		}
		t.Logf("%2d situations show %q: the reference %s; Rangekeeper %s: %s", shown[d], d.name, d.reference, d.ours, d.reason)
	}
	t.Logf("%d situations, %d fields", played, fields)
	if played < floor {
		t.Errorf("%d situations, want at least %d", played, floor)
	}
}

// checkEndpoints checks the ready addresses of the Endpoints.
func checkEndpoints(t *testing.T, whose string, w *world, want []string) {
	t.Helper()
	object, err := w.get("Endpoints", "default", "kubernetes")
	var ready []string
	if err == nil {
		for _, subset := range object.(*corev1.Endpoints).Subsets {
			for _, address := range subset.Addresses {
				ready = append(ready, address.IP)
			}
		}
	} else if !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if !sameSet(ready, want) {
		t.Errorf("%s Endpoints have %v ready, want %v", whose, ready, want)
	}
}

// checkSlice checks the ready addresses of Rangekeeper's slice: the wanted ones of its family.
func checkSlice(t *testing.T, w *world, want []string) {
	t.Helper()
	object, err := w.get("EndpointSlice", "default", "kubernetes")
	if apierrors.IsNotFound(err) && len(want) == 0 {
		return
	}
	check(t, err)
	slice := object.(*discoveryv1.EndpointSlice)
	var ready, ofFamily []string
	for _, endpoint := range slice.Endpoints {
		if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
			ready = append(ready, endpoint.Addresses...)
		}
	}
	for _, address := range want {
		if netutils.IsIPv6String(address) == (slice.AddressType == discoveryv1.AddressTypeIPv6) {
			ofFamily = append(ofFamily, address)
		}
	}
	if !sameSet(ready, ofFamily) || len(ready) == 0 && len(want) > 0 {
		t.Errorf("Rangekeeper's slice has %v ready, want %v", ready, ofFamily)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
