package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// history replays the changes of Services, ranges and IPAddress objects in etcd, and records at each revision which
// values two Services have, and which values of a Service are not recorded as allocated: an address in IPAddress
// objects if there are any, else in a range, and a node port in a range.
type history struct {
	// changes is the number of changes of Services.
	changes int
	// isComplete says that the history begins with an empty etcd, so that it knows all ranges and objects.
	isComplete bool

	// owners has the Services' keys by value, values the values by the Service's key.
	owners, values map[string][]string
	// ranges are the stored ranges by their names, objects the Service's key by the address of an IPAddress object.
	ranges  map[string]storedRange
	objects map[string]string
	// touched are the values that the revision has changed.
	touched map[string]bool
	// shared are the values that several Services have now, unrecorded those of Services that are not recorded now.
	shared, unrecorded map[string]bool

	// duplicates are the Services that were stored with a value of another one.
	duplicates []string
	// noBit and noObject are the values that a Service had while no bit, or no IPAddress object of it, recorded them.
	noBit, noObject []string
	// wrong are values under the keys of these objects that cannot be read.
	wrong []string
}

// storedRange is a bitmap of values, of which the lowest bit is first.
type storedRange struct {
	first *big.Int
	bits  *big.Int
}

// checkHistory fails the test if two Services ever had the same value, or a Service had one that was not recorded as
// allocated. It returns the number of changes. etcd must not have compacted any revision.
func checkHistory(t *testing.T, etcd *clientv3.Client) int {
	t.Helper()
	return readHistory(t, etcd, 1).mustHold(t)
}

// mustHold is checkHistory of what was read.
func (h *history) mustHold(t *testing.T) int {
	t.Helper()
	for what, found := range map[string][]string{
		"Services were stored with a value of another one":                       h.duplicates,
		"values of Services had no bit in their range":                           h.noBit,
		"addresses of Services had no IPAddress object that refers to a Service": h.noObject,
	} {
		if len(found) > 0 {
			t.Errorf("%d %s in %d changes of Services, the first of them:\n%s", len(found), what, h.changes, strings.Join(found[:min(10, len(found))], "\n"))
		}
	}
	return h.changes
}

// checkOwners is checkHistory for clusters with stock kube-apiservers, which release values before they write the
// Service: it fails the test only if two Services ever had the same value. Not if a Service whose key has byStock got
// it last: a stock server has given it what the same server had released, and not yet written. No other server ran
// then.
func checkOwners(t *testing.T, etcd *clientv3.Client, byStock string) int {
	t.Helper()
	h := readHistory(t, etcd, 1)
	if byStock != "" {
		before := len(h.duplicates)
		h.duplicates = slices.DeleteFunc(h.duplicates, func(d string) bool {
			key, _, _ := strings.Cut(d, " has ")
			return strings.Contains(key, byStock)
		})
		t.Logf("%d by a stock server alone", before-len(h.duplicates))
	}
	if len(h.duplicates) > 0 {
		t.Errorf("%d violations in %d changes, the first of them:\n%s", len(h.duplicates), h.changes, strings.Join(h.duplicates[:min(10, len(h.duplicates))], "\n"))
	}
	return h.changes
}

// String counts.
func (h *history) String() string {
	return fmt.Sprintf("%d changes of Services: %d Services stored with a value of another one, %d values without a bit, %d addresses without an IPAddress object; at the end %d values are shared, %d not recorded",
		h.changes, len(h.duplicates), len(h.noBit), len(h.noObject), len(h.shared), len(h.unrecorded))
}

// readHistory reads all changes from a revision on. Services that were stored before it and have not changed since are
// unknown. After a restore of etcd it is the history of what was restored.
func readHistory(t *testing.T, etcd *clientv3.Client, from int64) *history {
	t.Helper()
	return followHistory(t, etcd, from)()
}

// followHistory returns a function that reads all changes from a revision on until it is called, those included that
// etcd compacts meanwhile.
func followHistory(t *testing.T, etcd *clientv3.Client, from int64) (read func() *history) {
	t.Helper()
	watched, stop := context.WithCancel(t.Context())
	watch := etcd.Watch(watched, clusterstate.DefaultPrefix+"/", clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify())
	return func() *history {
		t.Helper()
		defer stop()
		return readWatch(t, etcd, watch, from)
	}
}

func readWatch(t *testing.T, etcd *clientv3.Client, watch clientv3.WatchChan, from int64) *history {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h := &history{
		isComplete: from <= 1,
		owners:     make(map[string][]string), values: make(map[string][]string),
		ranges: make(map[string]storedRange), objects: make(map[string]string),
		touched: make(map[string]bool), shared: make(map[string]bool), unrecorded: make(map[string]bool),
	}
	end := must(etcd.Get(ctx, clusterstate.DefaultPrefix)).Header.Revision
	var revision int64
	for reached := false; !reached; {
		var response clientv3.WatchResponse
		isOpen := false
		select {
		case response, isOpen = <-watch:
		case <-ctx.Done():
		}
		if err := response.Err(); err != nil || !isOpen {
			t.Fatalf("read the history of etcd: %v", errors.Join(err, ctx.Err()))
		}
		for _, event := range response.Events {
			if event.Kv.ModRevision != revision {
				h.check(revision)
				revision = event.Kv.ModRevision
			}
			h.change(event)
		}
		reached = response.IsProgressNotify() && response.Header.Revision >= end
		if err := etcd.RequestProgress(ctx); err != nil {
			t.Fatal(err)
		}
	}
	h.check(revision)
	for _, wrong := range h.wrong {
		t.Error(wrong)
	}
	return h
}

// change takes a change of a key.
func (h *history) change(event *clientv3.Event) {
	const objects = clusterstate.DefaultPrefix + "/ipaddresses/"
	key := string(event.Kv.Key)
	address, isObject := strings.CutPrefix(key, objects)
	switch {
	case strings.HasPrefix(key, clusterstate.ServiceKeys(clusterstate.DefaultPrefix)):
		h.changes++
		h.setValues(event, key, valuesOf(decode[*corev1.Service](h, event)))
	case isObject:
		h.touched[address] = true
		delete(h.objects, address)
		if namespace, name := parentOf(h, event); name != "" {
			h.objects[address] = clusterstate.ServiceKeys(clusterstate.DefaultPrefix) + namespace + "/" + name
		}
	default:
		for _, name := range []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs, clusterstate.ServiceNodePorts} {
			if key == clusterstate.RangeKey(clusterstate.DefaultPrefix, name) {
				h.setRange(event, name, decode[*corev1.RangeAllocation](h, event))
			}
		}
	}
}

// decode returns the object of an event; nil if it was deleted.
func decode[T runtime.Object](h *history, event *clientv3.Event) (object T) {
	if event.Type == clientv3.EventTypeDelete {
		return object
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(event.Kv.Value, nil, nil)
	object, ok := decoded.(T)
	if !ok {
		h.wrong = append(h.wrong, fmt.Sprintf("revision %d: %s is a %T: %v", event.Kv.ModRevision, event.Kv.Key, decoded, err))
	}
	return object
}

// parentOf returns the Service that an IPAddress object refers to; none if it was deleted or refers to nothing. Servers
// up to 1.33 store it as v1beta1.
func parentOf(h *history, event *clientv3.Event) (namespace, name string) {
	switch object := decode[runtime.Object](h, event).(type) {
	case *networkingv1.IPAddress:
		if parent := object.Spec.ParentRef; parent != nil {
			return parent.Namespace, parent.Name
		}
	case *networkingv1beta1.IPAddress:
		if parent := object.Spec.ParentRef; parent != nil {
			return parent.Namespace, parent.Name
		}
	case nil:
	default:
		h.wrong = append(h.wrong, fmt.Sprintf("revision %d: %s is a %T", event.Kv.ModRevision, event.Kv.Key, object))
	}
	return "", ""
}

// setValues takes the values of a Service, none if it was deleted.
func (h *history) setValues(event *clientv3.Event, key string, values []string) {
	before := h.values[key]
	h.values[key] = values
	for _, value := range before {
		h.touched[value] = true
		if !slices.Contains(values, value) {
			h.owners[value] = slices.DeleteFunc(h.owners[value], func(owner string) bool { return owner == key })
		}
	}
	for _, value := range values {
		h.touched[value] = true
		if slices.Contains(before, value) {
			continue
		}
		if owners := h.owners[value]; len(owners) > 0 {
			h.duplicates = append(h.duplicates, fmt.Sprintf("revision %d: %s has %s, which %v owns", event.Kv.ModRevision, key, value, owners))
		}
		h.owners[value] = append(h.owners[value], key)
	}
}

// setRange takes a stored range. All values of Services are checked then.
func (h *history) setRange(event *clientv3.Event, name string, stored *corev1.RangeAllocation) {
	delete(h.ranges, name)
	if stored != nil && stored.Range != "" {
		var first big.Int
		if prefix, err := netip.ParsePrefix(stored.Range); err == nil {
			first.SetBytes(prefix.Addr().AsSlice())
			first.Add(&first, big.NewInt(1)) // the network address has no bit
		} else if low, err := strconv.Atoi(strings.Split(stored.Range, "-")[0]); err == nil {
			first.SetInt64(int64(low))
		} else {
			h.wrong = append(h.wrong, fmt.Sprintf("revision %d: %s has range %q", event.Kv.ModRevision, event.Kv.Key, stored.Range))
		}
		h.ranges[name] = storedRange{&first, new(big.Int).SetBytes(stored.Data)}
	}
	for value, owners := range h.owners {
		if len(owners) > 0 {
			h.touched[value] = true
		}
	}
}

// check looks at the values that a revision has changed.
func (h *history) check(revision int64) {
	for value := range h.touched {
		owners := h.owners[value]
		delete(h.shared, value)
		if len(owners) > 1 {
			h.shared[value] = true
		}
		if len(owners) == 0 || !h.isComplete || h.isRecorded(value, owners) {
			delete(h.unrecorded, value)
		} else if !h.unrecorded[value] {
			h.unrecorded[value] = true
			found := fmt.Sprintf("revision %d: %s of %v", revision, value, owners)
			if h.isObject(value) {
				h.noObject = append(h.noObject, found)
			} else {
				h.noBit = append(h.noBit, found)
			}
		}
	}
	clear(h.touched)
}

// isObject reports whether an IPAddress object records the value.
func (h *history) isObject(value string) bool {
	return !strings.HasPrefix(value, portPrefix) && len(h.objects) > 0
}

func (h *history) isRecorded(value string, owners []string) bool {
	if h.isObject(value) {
		return slices.Contains(owners, h.objects[value])
	}
	name, number := clusterstate.ServiceNodePorts, new(big.Int)
	if port, isPort := strings.CutPrefix(value, portPrefix); isPort {
		number.SetString(port, 10)
	} else {
		address := netip.MustParseAddr(value)
		number.SetBytes(address.AsSlice())
		name = clusterstate.ServiceIPs
		if address.Is6() {
			name = clusterstate.SecondaryServiceIPs
		}
	}
	r, isStored := h.ranges[name]
	if !isStored {
		return false
	}
	number.Sub(number, r.first)
	return number.Sign() >= 0 && r.bits.Bit(int(number.Int64())) == 1
}

// valuesOf returns the addresses and ports of a Service; none of nil.
func valuesOf(s *corev1.Service) []string {
	if s == nil {
		return nil
	}
	var values []string
	for _, ip := range append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP) {
		if address, err := netip.ParseAddr(ip); err == nil {
			values = append(values, address.String())
		}
	}
	for _, port := range s.Spec.Ports {
		if port.NodePort != 0 {
			values = append(values, portValue(port.NodePort))
		}
	}
	if s.Spec.HealthCheckNodePort != 0 {
		values = append(values, portValue(s.Spec.HealthCheckNodePort))
	}
	slices.Sort(values)
	return slices.Compact(values)
}

const portPrefix = "port "

func portValue(port int32) string { return fmt.Sprintf("%s%d", portPrefix, port) }
