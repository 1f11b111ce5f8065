// Package bootstrap puts the same situations before the reference's own bootstrap controller (k8s.io/kubernetes,
// pkg/controlplane) and before Rangekeeper's, and compares the objects and leases that they leave.
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

// floor is the least number of situations.
const floor = 40

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the reference logs its failures
	os.Exit(m.Run())
}

// situation is a row of the table: what there is, how the servers are configured, and what they do.
type situation struct {
	name string
	config
	// objects and leases are there when the first server starts.
	objects []runtime.Object
	leases  []lease
	steps   []step
	// ready are the addresses that must stand ready in Rangekeeper's Endpoints at the end, sorted or not, and, as far as
	// they are of the family of its slice, in that.
	ready []string
	// theirs are those in the reference's Endpoints, if they are others.
	theirs []string
	// differs are all differences that the situation shows.
	differs []*difference
}

// config is how a server is configured; the lease mode unless another one is asked for.
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

// server is one that can be put into a situation.
type server interface {
	// start begins a life, in which the server is not ready yet.
	start()
	// run is one turn of the loop of a server that is ready.
	run()
	// stop ends it in order, kill without any.
	stop()
	kill()
}

// play is a situation that happens in the world of one side.
type play struct {
	t         *testing.T
	world     *world
	config    config
	newServer func(*testing.T, *world, config) server
	// servers are those that have been started, by their addresses.
	servers map[string]server
}

// step is something that happens.
type step func(*play)

// play plays the steps, and returns the objects after each.
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

// fieldsOf are all fields of all objects and leases, but for those that no two clusters have alike.
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

// flatten names every leaf of a tree by its path.
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

// unlike is a field that the two sides do not have alike after a step; "" for one that is not there.
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
			t.Errorf("two situations are called %q", s.name)
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
						t.Errorf("not listed: %s", u)
						continue
					}
					t.Logf("%s: %s", s.differs[of].name, u)
					seen[s.differs[of]] = true
				}
			}
			for _, d := range s.differs {
				if !seen[d] {
					t.Errorf("the difference %q does not show", d.name)
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
		t.Errorf("%d situations were played, want %d at least", played, floor)
	}
}

// checkEndpoints checks that these addresses are ready.
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

// checkSlice checks that those of these addresses are ready that are of the slice's family.
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
