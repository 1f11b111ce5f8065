package clusterstate

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// TestMessages compares the fields of messages with the tags of the decoders' types.
func TestMessages(t *testing.T) {
	seen := map[*message]bool{}
	var compare func(m *message, of reflect.Type)
	compare = func(m *message, of reflect.Type) {
		if seen[m] {
			return
		}
		seen[m] = true
		numbers, texts := uint32(0), uint32(0)
		for i := range of.NumField() {
			field := of.Field(i)
			tag := strings.Split(field.Tag.Get("protobuf"), ",")
			if len(tag) < 2 {
				continue
			}
			number, err := strconv.Atoi(tag[1])
			if err != nil || number > 30 {
				t.Fatalf("%s.%s: %q", of, field.Name, tag)
			}
			elem := field.Type
			for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice && elem.Elem().Kind() != reflect.Uint8 {
				elem = elem.Elem()
			}
			child := m.of[number]
			switch elem.Kind() {
			case reflect.Bool, reflect.Int32, reflect.Int64:
				numbers |= 1 << number
			default:
				texts |= 1 << number
			}
			switch {
			case elem == reflect.TypeFor[metav1.Time]():
				if child != timeMessage {
					t.Errorf("%s.%s is a time", of, field.Name)
				}
			case elem.Kind() == reflect.Map:
				if child != entryMessage {
					t.Errorf("%s.%s is a map", of, field.Name)
				}
			case elem.Kind() == reflect.Struct:
				if child == nil {
					t.Errorf("%s.%s is a message", of, field.Name)
					continue
				}
				compare(child, elem)
			case child != nil:
				t.Errorf("%s.%s is no message", of, field.Name)
			}
		}
		if of == reflect.TypeFor[metav1.FieldsV1]() { // its bytes have a tag of their own kind
			texts |= 1 << 1
		}
		if m.numbers != numbers || m.bytes != texts {
			t.Errorf("%s: numbers %b, bytes %b; expected %b, %b", of, m.numbers, m.bytes, numbers, texts)
		}
	}
	for m, of := range map[*message]reflect.Type{
		serviceMessage: reflect.TypeFor[corev1.Service](), ipAddressMessage: reflect.TypeFor[networkingv1.IPAddress](),
		unknownMessage: reflect.TypeFor[runtime.Unknown](), timeMessage: reflect.TypeFor[metav1.Timestamp](),
	} {
		compare(m, of)
	}
	t.Logf("%d messages", len(seen))
}

// stored is a value under a key.
type storedValue struct {
	isAddress bool
	name      string
	value     []byte
}

// compareWithDecoder reads a value in both ways. It reports whether the decoder was needed.
func compareWithDecoder(t *testing.T, v storedValue) (asked, refused bool) {
	t.Helper()
	var records recorder
	var got, want []byte
	var gotError, wantError error
	if v.isAddress {
		got, gotError = records.ipAddress(nil, v.name, v.value, 7)
		o := new(networkingv1.IPAddress)
		if wantError = decodeNamed(o, v.name, v.value, ipAddressKind); wantError == nil {
			o.ResourceVersion = "7"
			want = servicebatch.AddressFieldsOf(o).AppendTo(nil)
		}
		raw, ok := ipAddressKind.readRaw(v.value)
		asked = !ok || !readIPAddress(&records.address, raw)
	} else {
		got, gotError = records.service(nil, v.name, v.value, 7)
		o := new(corev1.Service)
		if wantError = decodeNamed(o, v.name, v.value, serviceKind); wantError == nil {
			fields := servicebatch.FieldsOf(o)
			fields.CreateRevision = 7
			want = fields.AppendTo(nil)
		}
		raw, ok := serviceKind.readRaw(v.value)
		asked = !ok || !readService(&records.fields, raw)
	}
	if (gotError == nil) != (wantError == nil) || gotError != nil && gotError.Error() != wantError.Error() || gotError == nil && !bytes.Equal(got, want) {
		t.Errorf("%q %q:\ngot  %q, %v\nwant %q, %v", v.name, v.value, got, gotError, want, wantError)
	}
	return asked, wantError != nil
}

// storedValues are those of the fixtures.
func storedValues(t *testing.T) (all []storedValue) {
	t.Helper()
	p := Options{}.prefixes()
	for _, cluster := range etcdtest.FixtureClusters {
		for _, name := range []string{"clean", "drift"} {
			_, err := snapshotfile.Read(t.Context(), etcdtest.Fixture(cluster.Name, name+".db.gz"), snapshotfile.Options{}, p.wanted(), func(r *snapshotfile.Revision) error {
				for prefix, isAddress := range map[string]bool{p.services: false, p.ipAddresses: true} {
					if name, ok := strings.CutPrefix(string(r.Key), prefix); ok && !r.IsDeletion {
						all = append(all, storedValue{isAddress, name, bytes.Clone(r.Value)})
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestFieldsOfFixtures reads all Services and IPAddress objects that real servers have stored, none of them by the
// decoder.
func TestFieldsOfFixtures(t *testing.T) {
	all := storedValues(t)
	for _, v := range all {
		if asked, refused := compareWithDecoder(t, v); asked || refused {
			t.Errorf("%q was not read", v.name)
		}
	}
	t.Logf("%d objects", len(all))
	if len(all) < 5000 {
		t.Error("too few")
	}
}

// TestFieldsOfRandomObjects reads objects with any of their fields.
func TestFieldsOfRandomObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const count = 20_000
	for range count {
		if asked, refused := compareWithDecoder(t, randomValue(t, random)); asked || refused {
			t.Error("it was not read")
		}
	}
	t.Logf("%d objects", count)
}

// TestFieldsOfDamagedObjects reads objects with damaged bytes, lengths, wire types and repeated fields.
func TestFieldsOfDamagedObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	fixtures := storedValues(t)
	const count = 200_000
	counts := map[[2]bool]int{}
	for i := range count {
		v := fixtures[random.IntN(len(fixtures))]
		if i%2 == 0 {
			v = randomValue(t, random)
		}
		v.value = damage(random, bytes.Clone(v.value))
		asked, refused := compareWithDecoder(t, v)
		counts[[2]bool{asked, refused}]++
	}
	t.Logf("%d values: %d read, the decoder was asked for %d more and refused %d", count, counts[[2]bool{false, false}], counts[[2]bool{true, false}], counts[[2]bool{true, true}])
	if len(counts) < 3 {
		t.Errorf("%v", counts)
	}
}

// TestFieldsOfMessagesThatComeTwice has objects whose second metadata and spec the decoder merges with the first.
func TestFieldsOfMessagesThatComeTwice(t *testing.T) {
	first := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", CreationTimestamp: metav1.Unix(1e9, 0)},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}},
	}
	second := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"fd00::1"}}}
	address := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1", CreationTimestamp: metav1.Unix(1e9, 0)},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services"}},
	}
	again := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1"}, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Name: "web"}}}
	type object interface{ Marshal() ([]byte, error) }
	for _, c := range []struct {
		isAddress           bool
		name, version, kind string
		objects             [2]object
	}{{false, "ns/web", "v1", "Service", [2]object{first, second}}, {true, "10.0.0.1", networking[0], "IPAddress", [2]object{address, again}}} {
		envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: c.version, Kind: c.kind}}
		for _, o := range c.objects {
			raw, err := o.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			envelope.Raw = append(envelope.Raw, raw...)
		}
		value, err := envelope.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if asked, refused := compareWithDecoder(t, storedValue{c.isAddress, c.name, slices.Concat(protobufMagic, value)}); !asked || refused {
			t.Errorf("%s: %v, %v", c.kind, asked, refused)
		}
	}
}

// damage changes a value in one or two places.
func damage(random *rand.Rand, b []byte) []byte {
	for range 1 + random.IntN(2) {
		if len(b) == 0 {
			return b
		}
		at := random.IntN(len(b))
		switch random.IntN(8) {
		case 0:
			b[at] ^= 1 << random.IntN(8)
		case 1:
			b[at] = byte(random.IntN(256))
		case 2:
			b = b[:at]
		case 3:
			b = slices.Delete(b, at, min(at+1+random.IntN(4), len(b)))
		case 4: // the same bytes again
			end := min(at+1+random.IntN(40), len(b))
			b = slices.Insert(b, end, slices.Clone(b[at:end])...)
		case 5: // a large number, or one with more bytes than it needs
			b = slices.Insert(b, at, bytes.Repeat([]byte{0xff}, 1+random.IntN(11))...)
		case 6: // a tag of any wire type
			b = slices.Insert(b, at, byte(random.IntN(24)<<3|random.IntN(8)), byte(random.IntN(4)))
		case 7: // behind the magic bytes, where a field of the envelope comes again
			at = min(4, len(b))
			b = slices.Insert(b, at, b[at:min(at+2+random.IntN(20), len(b))]...)
		}
	}
	return b
}

// randomValue returns the value of an object with any of its fields.
func randomValue(t *testing.T, random *rand.Rand) storedValue {
	t.Helper()
	of := func(n int) bool { return random.IntN(n) == 0 }
	texts := []string{"", "a", "10.0.0.1", "fd00::1", "None", "TCP", "UDP", "SCTP", "other", strings.Repeat("long", 50)}
	text := func() string { return texts[random.IntN(len(texts))] }
	some := func() (all []string) {
		for range random.IntN(4) {
			all = append(all, text())
		}
		return all
	}
	pairs := func() map[string]string {
		all := map[string]string{}
		for range random.IntN(3) {
			all[text()] = text()
		}
		return all
	}
	at := metav1.Unix(random.Int64N(1<<34), 0)
	meta := metav1.ObjectMeta{
		Name: "web-" + strconv.Itoa(random.IntN(100)), GenerateName: text(), UID: "uid", ResourceVersion: strconv.Itoa(random.IntN(100)), Generation: random.Int64(),
		Labels: pairs(), Annotations: pairs(), Finalizers: some(),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: text(), Name: text(), Controller: new(true), BlockOwnerDeletion: new(false)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: text(), Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(text())}}},
	}
	if !of(3) {
		meta.CreationTimestamp = at
	}
	if of(3) {
		meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = &at, new(random.Int64())
	}
	value := func(version, kind string, o interface{ Marshal() ([]byte, error) }) []byte {
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		b, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: raw, ContentType: text()}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat(protobufMagic, b)
	}
	if of(3) {
		o := &networkingv1.IPAddress{ObjectMeta: meta}
		if of(2) {
			o.Labels[networkingv1.LabelManagedBy] = []string{"ipallocator.k8s.io", text()}[random.IntN(2)]
		}
		if !of(4) {
			o.Spec.ParentRef = &networkingv1.ParentReference{Group: text(), Resource: []string{"services", text()}[random.IntN(2)], Namespace: text(), Name: text()}
		}
		return storedValue{true, o.Name, value(networking[random.IntN(2)], "IPAddress", o)}
	}
	o := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Type: []corev1.ServiceType{"", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "other"}[random.IntN(6)], ClusterIP: text(), ClusterIPs: some(),
		Selector: pairs(), ExternalIPs: some(), SessionAffinity: corev1.ServiceAffinity(text()), LoadBalancerIP: text(), LoadBalancerSourceRanges: some(),
		ExternalName: text(), ExternalTrafficPolicy: []corev1.ServiceExternalTrafficPolicy{"", "Local", "Cluster"}[random.IntN(3)],
		HealthCheckNodePort: random.Int32N(3) * 31000, PublishNotReadyAddresses: of(2), IPFamilies: []corev1.IPFamily{corev1.IPFamily(text())},
		LoadBalancerClass: new(text()), TrafficDistribution: new(text()),
		SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(random.Int32())}},
	}}
	o.Namespace = "ns"
	if of(2) {
		o.Spec.IPFamilyPolicy = []*corev1.IPFamilyPolicy{new(corev1.IPFamilyPolicyRequireDualStack), new(corev1.IPFamilyPolicySingleStack)}[random.IntN(2)]
		o.Spec.AllocateLoadBalancerNodePorts, o.Spec.InternalTrafficPolicy = new(of(2)), new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	for range random.IntN(4) {
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{
			Name: text(), Protocol: corev1.Protocol(text()), Port: random.Int32(), TargetPort: []intstr.IntOrString{intstr.FromInt32(80), intstr.FromString(text())}[random.IntN(2)],
			NodePort: []int32{0, 30000, -1}[random.IntN(3)], AppProtocol: new(text()),
		})
	}
	if of(2) {
		o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: text(), IPMode: new(corev1.LoadBalancerIPModeVIP), Ports: []corev1.PortStatus{{Port: 1, Protocol: "TCP", Error: new(text())}}}}
		o.Status.Conditions = []metav1.Condition{{Type: text(), ObservedGeneration: random.Int64(), LastTransitionTime: at}}
	}
	return storedValue{false, "ns/" + o.Name, value("v1", "Service", o)}
}

// TestChanges compares what is kept of many changes, more than once sorted and dropped on the way, with a map.
func TestChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var all changes
	want := map[string]string{}
	content := bytes.Repeat([]byte("content"), 10_000)
	for i := range 5000 {
		key := strconv.Itoa(random.IntN(300))
		one := &snapshotfile.Revision{Key: []byte(key), Value: append([]byte(strconv.Itoa(i)), content...), IsDeletion: random.IntN(4) == 0}
		all.add(one.Key, one, func(dst []byte) ([]byte, error) { return append(dst, one.Value...), nil })
		if want[key] = string(one.Value); one.IsDeletion {
			delete(want, key)
		}
	}
	if all.settled == 0 {
		t.Error("nothing was dropped on the way")
	}
	before := ""
	for key, c := range all.newest() {
		if c.outcome != isRecord || want[string(key)] != string(c.content) || string(key) <= before {
			t.Errorf("key %s after %s: outcome %d, %d bytes", key, before, c.outcome, len(c.content))
		}
		before = string(key)
		delete(want, before)
	}
	if len(want) > 0 {
		t.Errorf("%d are missing", len(want))
	}
}
