package preflight_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// cluster is a state to be changed by tests.
type cluster = *objectsOf

// objectsOf has the objects of which a state has lists.
type objectsOf struct {
	*clusterstate.State
	Services    []corev1.Service
	IPAddresses []networkingv1.IPAddress
}

// state returns the state with its lists.
func (c cluster) state() *clusterstate.State {
	c.State.Services, c.State.IPAddresses = etcdtest.List(c.Services...), etcdtest.AddressList(c.IPAddresses...)
	for i := range c.Services {
		if s := &c.Services[i]; s.Name == clusterstate.KubernetesService && c.Bootstrap != nil {
			c.Bootstrap.Service = s
		}
	}
	return c.State
}

// newCluster returns a cluster without objects, whose servers run a release.
func newCluster(release string) cluster {
	return &objectsOf{State: &clusterstate.State{Revision: 100, Ranges: map[string]clusterstate.StoredRange{}, HasSystem: true, Upgrade: &clusterstate.Upgrade{Release: release}}}
}

// bitmaps has ClusterIPs and node ports recorded in bitmaps, of which offset 0 is set, as that of the Service
// kubernetes.
func bitmaps(release string) cluster {
	c := newCluster(release)
	c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 1)
	c.bitmap(clusterstate.ServiceNodePorts, "30000-32767", 0)
	c.service("kubernetes", "10.96.0.1")
	return c
}

// objects has ClusterIPs recorded by IPAddress objects.
func objects(release string) cluster {
	c := newCluster(release)
	c.bitmap(clusterstate.ServiceNodePorts, "30000-32767", 0)
	c.ServiceCIDRs = []networkingv1.ServiceCIDR{{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}}
	c.ServiceCIDRs[0].Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}
	c.service("kubernetes", "10.96.0.1")
	c.address("10.96.0.1", "kubernetes")
	c.UpgradedAt = 50
	return c
}

func (c cluster) bitmap(name, values string, data ...byte) {
	object := corev1.RangeAllocation{Range: values, Data: data}
	raw, err := object.Marshal()
	if err != nil {
		panic(err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"}, Raw: raw}
	value, err := envelope.Marshal()
	if err != nil {
		panic(err)
	}
	c.Ranges[name] = clusterstate.StoredRange{Key: "/registry/ranges/" + name, Value: append([]byte("k8s\x00"), value...), ModRevision: 60, CreateRevision: 1, Version: 2}
}

func (c cluster) service(name, ip string, nodePorts ...int32) {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}}}
	for _, port := range nodePorts {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: port})
	}
	c.Services = append(c.Services, s)
}

func (c cluster) address(ip, service string) {
	c.IPAddresses = append(c.IPAddresses, networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: ip, ResourceVersion: "55",
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: "IPv4", networkingv1.LabelManagedBy: "ipallocator.k8s.io"},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: service}},
	})
}

// servers has one API server, with a lease and in the endpoints.
func (c cluster) servers() {
	const ip, name = "192.0.2.1", clusterstate.KubernetesService
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, ResourceVersion: "90"}
	lease, err := (&corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}}}}).Marshal()
	if err != nil {
		panic(err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, Raw: lease}
	value, err := envelope.Marshal()
	if err != nil {
		panic(err)
	}
	endpoints := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: ip}}, Ports: []corev1.EndpointPort{{Name: "https", Port: 6443, Protocol: corev1.ProtocolTCP}},
	}}}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(6443)), Protocol: new(corev1.ProtocolTCP)}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
	endpoints.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	c.Bootstrap = &clusterstate.Bootstrap{
		Leases:    []clusterstate.ServerLease{{Key: "/registry/masterleases/" + ip, Value: append([]byte("k8s\x00"), value...), ModRevision: 90, ID: 7, State: clusterstate.LeaseGranted}},
		Endpoints: endpoints, Slices: []discoveryv1.EndpointSlice{slice},
		Namespaces: []string{"default", "kube-node-lease", "kube-public", "kube-system"},
	}
}

// webhook returns a webhook for a rule of all operations.
func webhook(resources ...string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{Name: "check.example.com", Rules: []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
	}}}
}

func (c cluster) webhook(h admissionv1.ValidatingWebhook) {
	c.Upgrade.Validating = append(c.Upgrade.Validating, admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policies"}, Webhooks: []admissionv1.ValidatingWebhook{h},
	})
}

// rulesOf returns rules for all operations on resources.
func rulesOf(resources ...string) []admissionv1.NamedRuleWithOperations {
	return []admissionv1.NamedRuleWithOperations{{RuleWithOperations: webhook(resources...).Rules[0]}}
}

// policy adds a policy for IPAddress objects with a binding.
func (c cluster) policy(bound *admissionv1.MatchResources, actions ...admissionv1.ValidationAction) {
	c.Upgrade.ValidatingPolicies = append(c.Upgrade.ValidatingPolicies, admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec:       admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{ResourceRules: rulesOf("ipaddresses")}},
	})
	c.Upgrade.ValidatingBindings = append(c.Upgrade.ValidatingBindings, admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "limits", MatchResources: bound, ValidationActions: actions},
	})
}

// command is like that of the command line.
func command(words ...string) []string {
	return append(append([]string{"rangekeeper"}, words...), "--endpoints etcd:2379")
}

func newReport(t *testing.T, c cluster, o preflight.Options) *preflight.Report {
	t.Helper()
	a, err := audit.New(c.state(), audit.Options{Judge: rangekeeper.BootstrapPlan})
	if err != nil {
		t.Fatal(err)
	}
	o.Command, o.Explain = command, func(what string) []string { return command("explain", what) }
	report, err := preflight.New(c.State, a, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range report.Checks {
		if check.Values == nil || check.Message == "" || (check.Level == preflight.OK) != (check.Remedy == "") || check.Command != strings.Join(check.Words, " ") {
			t.Errorf("%+v", check)
		}
	}
	if len(report.Checks) != report.Summary.MustBeDoneFirst+report.Summary.MaySurprise+report.Summary.Unknown+report.Summary.OK {
		t.Errorf("%+v", report.Summary)
	}
	return report
}

func target(t *testing.T, text string) preflight.Release {
	t.Helper()
	r, err := preflight.ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// flag is that of the servers of the clusters here.
var flag = []string{"10.96.0.0/16"}

// TestChecks compares the checks that are not ok, as "level name" with a part of their text.
func TestChecks(t *testing.T) {
	const must, surprise, unknown = "mustBeDoneFirst ", "maySurprise ", "unknown "
	const migrates = surprise + "FirstRepair: 1 ServiceCIDR created, 1 IPAddress object created"
	beta := surprise + "BetaAPI: v1beta1"
	mixed := surprise + "MixedServers: Servers of 1.34 do not write the bitmaps"
	for _, c := range []struct {
		name    string
		cluster cluster
		to      string
		flag    []string
		change  func(c cluster)
		want    []string
	}{
		{"nothing", objects("v1.35.4"), "1.36", flag, nil, nil},
		{"patch release", objects("v1.36.1"), "1.36.3", flag, nil, nil},
		{"to objects", bitmaps("v1.32.2"), "1.33", flag, nil, []string{migrates}},
		{"bitmaps stay", bitmaps("v1.31.9+k3s1"), "1.32", flag, nil, nil},

		// Release
		{"skips", bitmaps("v1.32.2"), "1.34", flag, nil, []string{must + "Release: Upgrade to 1.33 first. rangekeeper preflight --to 1.33 --endpoints etcd:2379", migrates}},
		{"skips to an unknown release", bitmaps("v1.30.0"), "1.32", flag, nil, []string{must + "Release: Upgrade to 1.31 first. "}},
		{"downgrade", objects("v1.36.3"), "1.35", flag, nil, []string{must + "Release: cannot be downgraded to 1.35"}},
		{"release not known", objects(""), "1.36", flag, nil, []string{unknown + "Release: is 1.35 or 1.36. kubectl version"}},
		{"release not known, but newer", objects(""), "1.33", flag, nil, []string{must + "Release: 1.34 or later has written"}},

		// FeatureGates
		{"gate off", bitmaps("v1.33.1"), "1.34", flag, nil, []string{must + "FeatureGates: MultiCIDRServiceAllocator=false", migrates}},
		{"gate off or older", bitmaps(""), "1.34", flag, nil, []string{must + "FeatureGates: of 1.32 or older", migrates, unknown + "Release:"}},
		{"gate off, and stays so", bitmaps("v1.33.1"), "1.33", flag, nil, []string{migrates}},
		{"dual write in 1.34", objects("v1.34.4"), "1.35", flag, func(c cluster) { c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 1) },
			[]string{must + "FeatureGates: DisableAllocatorDualWrite=false"}},
		{"bitmap left over", objects("v1.34.4"), "1.35", flag, func(c cluster) {
			c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 1)
			c.UpgradedAt = 70
		}, nil},

		// ServiceCIDR
		{"flag not known", objects("v1.35.4"), "1.36", nil, nil, []string{unknown + "ServiceCIDR: Whether all servers have --service-cluster-ip-range=10.96.0.0/16, as ServiceCIDR kubernetes"}},
		{"flag not known, bitmaps", bitmaps("v1.32.2"), "1.33", nil, nil, []string{migrates, unknown + "ServiceCIDR: as the bitmaps"}},
		{"other flag", objects("v1.35.4"), "1.36", []string{"10.0.0.0/16"}, nil, []string{must + "ServiceCIDR: Start every kube-apiserver with --service-cluster-ip-range=10.96.0.0/16."}},
		{"other flag, bitmaps", bitmaps("v1.32.2"), "1.33", []string{"10.96.0.0/12"}, nil, []string{must + "ServiceCIDR: the bitmaps have 10.96.0.0/16", migrates}},
		{"other order", objects("v1.35.4"), "1.36", []string{"fd00::/112", "10.96.0.0/16"}, nil, []string{must + "ServiceCIDR: fd00::/112,10.96.0.0/16"}},
		{"to dual stack", objects("v1.35.4"), "1.36", []string{"10.96.0.0/16", "fd00::/112"}, nil, []string{surprise + "ServiceCIDR: makes the cluster dual-stack"}},
		{"to single stack", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.ServiceCIDRs[0].Spec.CIDRs = []string{"10.96.0.0/16", "fd00::/112"} },
			[]string{must + "ServiceCIDR: 10.96.0.0/16,fd00::/112"}},
		// By the Services the other side is wrong, both sides are right, or nobody can tell.
		{"wrong ServiceCIDR", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.ServiceCIDRs[0].Spec.CIDRs = []string{"10.0.0.0/24"} },
			[]string{must + "ServiceCIDR: the ServiceCIDR is wrong", must + "ClusterIPOutOfRange: They are right"}},
		{"wrong bitmap", bitmaps("v1.32.2"), "1.33", []string{"10.0.0.0/16"}, func(c cluster) { c.Services[0].Spec.ClusterIP, c.Services[0].Spec.ClusterIPs = "10.0.0.1", nil },
			[]string{must + "ServiceCIDR: Let the present kube-apiserver run with this flag", must + "ClusterIPOutOfRange: They are right", must + "Leak", surprise + "FirstRepair"}},
		{"widened", objects("v1.35.4"), "1.36", []string{"10.96.0.0/12"}, nil, []string{surprise + `ServiceCIDR: "cidrs":["10.96.0.0/12"]`}},
		{"of no range", objects("v1.35.4"), "1.36", []string{"10.1.0.0/16"}, func(c cluster) { c.ServiceCIDRs[0].Spec.CIDRs = []string{"10.0.0.0/24"} },
			[]string{must + "ServiceCIDR: Of 1 ClusterIP of a Service 0 are in the former and 0 in the latter.", must + "ClusterIPOutOfRange: before a Service is recreated"}},
		{"of another range", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.Services[0].Spec.ClusterIP, c.Services[0].Spec.ClusterIPs = "10.0.0.1", nil },
			[]string{must + "ServiceCIDR: the same, but of 1 ClusterIP of a Service 0 are in it", must + "ClusterIPOutOfRange: before a Service is recreated",
				surprise + "IPAddressWrongReference", surprise + "FirstRepair"}},
		{"of another range, without a flag", objects("v1.35.4"), "1.36", nil, func(c cluster) { c.ServiceCIDRs[0].Spec.CIDRs = []string{"10.0.0.0/24"} },
			[]string{unknown + "ServiceCIDR: Name the flag of the servers", must + "ClusterIPOutOfRange: before a Service is recreated"}},
		{"no default", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.ServiceCIDRs[0].Name = "more" },
			[]string{surprise + "ServiceCIDR: There is no ServiceCIDR kubernetes", surprise + "FirstRepair: 1 ServiceCIDR created"}},

		// What API servers keep
		{"servers", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.servers()
			c.Bootstrap.Leases[0].State = clusterstate.LeaseMissing
			c.Bootstrap.Namespaces = c.Bootstrap.Namespaces[1:]
		}, []string{must + "LeaseNeverExpires: 192.0.2.1. The upgrade does not change that.",
			surprise + "NamespaceMissing: default. An API server repairs it"}},
		{"servers are right", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.servers() }, nil},
		{"leases unseen", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.servers()
			c.Bootstrap.LeasesUnseen = "the Kubernetes API does not serve them"
		}, []string{unknown + "API servers: Remove the reason, and look again."}},

		// Findings
		{"double ClusterIP", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.service("more", "10.96.0.1") },
			[]string{must + "ClusterIPAlreadyAllocated: rangekeeper explain 10.96.0.1 --endpoints"}},
		{"out of range", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.service("more", "10.0.0.1") },
			[]string{must + "ClusterIPOutOfRange: 10.0.0.1", migrates}},
		{"no address", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.service("more", "nonsense") },
			[]string{must + "ClusterIPNotValid: nonsense. kube-apiserver 1.33 reports", migrates}},
		{"no address, remedy", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.service("more", "fe80::1%eth0") },
			[]string{must + "ClusterIPNotValid: rangekeeper explain default/more --endpoints", migrates}},
		{"empty address", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.service("more", "nonsense")
			c.Services[1].Spec.ClusterIPs = []string{"nonsense", ""}
		}, []string{must + "ClusterIPNotValid: \"\", nonsense. kube-apiserver", migrates}},
		{"other texts in bitmaps", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 7)
			c.service("zero", "010.96.0.2")
			c.service("mapped", "::ffff:10.96.0.3")
		}, []string{surprise + "ClusterIPNotCanonical: ::ffff:10.96.0.3, 010.96.0.2. Each repair pass removes or recreates their IPAddress objects",
			surprise + "FirstRepair: writes: 1 ServiceCIDR created, 3 IPAddress objects created."}},
		{"other texts in bitmaps that stay", bitmaps("v1.31.2"), "1.32", flag, func(c cluster) {
			c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 3)
			c.service("zero", "010.96.0.2")
		}, nil},
		{"double node port", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.bitmap(clusterstate.ServiceNodePorts, "30000-32767", 2)
			c.Services[0].Spec.Ports = []corev1.ServicePort{{NodePort: 30001}, {NodePort: 30001}}
		}, []string{must + "PortAlreadyAllocated: 30001"}},
		{"port out of range", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.Services[0].Spec.Ports = []corev1.ServicePort{{NodePort: 80}} },
			[]string{must + "PortOutOfRange: 80"}},
		{"port not recorded", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.Services[0].Spec.Ports = []corev1.ServicePort{{NodePort: 30001}} },
			[]string{surprise + "PortNotAllocated: 30001", surprise + "FirstRepair: 1 bitmap changed"}},
		{"not in the bitmap", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.service("more", "10.96.0.2") },
			[]string{must + "ClusterIPNotAllocated: looks for free addresses in the bitmap", surprise + "FirstRepair: writes: 1 ServiceCIDR created, 2 IPAddress objects created."}},
		{"not in the bitmap of 1.32", bitmaps("v1.32.1"), "1.32.2", flag, func(c cluster) { c.service("more", "10.96.0.2") },
			[]string{surprise + "ClusterIPNotAllocated: The first repair pass records them", surprise + "FirstRepair: writes: 1 bitmap changed"}},
		{"leak in the bitmap", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 3) },
			[]string{must + "Leak: 10.96.0.2. kube-apiserver 1.33 refuses these addresses", migrates}},
		{"leak in the bitmap of 1.32", bitmaps("v1.32.1"), "1.32", flag, func(c cluster) { c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 3) },
			[]string{surprise + "Leak: The third repair pass frees them"}},
		{"leaked node port", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.bitmap(clusterstate.ServiceNodePorts, "30000-32767", 2) },
			[]string{surprise + "Leak: 30001. The third repair pass frees these node ports"}},
		{"missing object", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.service("more", "10.96.0.2") },
			[]string{surprise + "ClusterIPNotAllocated: objects are missing or foreign", surprise + "FirstRepair: writes: 1 IPAddress object created."}},
		{"foreign object", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.IPAddresses[0].Spec.ParentRef.Resource = "gateways" },
			[]string{surprise + "ClusterIPNotAllocated: objects are missing or foreign", surprise + "FirstRepair: 1 IPAddress object created, 1 IPAddress object removed"}},
		{"orphan", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.address("10.96.0.2", "none")
			c.IPAddresses[1].Spec.ParentRef.Resource = "gateways"
		}, []string{surprise + "IPAddressNotAllocated: 10.96.0.2", surprise + "FirstRepair: 1 IPAddress object removed"}},
		{"object without parentRef", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.address("10.96.0.2", "none")
			c.IPAddresses[1].Spec.ParentRef = nil
		}, []string{must + "IPAddressWithoutParent: 10.96.0.2. These IPAddress objects have no spec.parentRef", surprise + "FirstRepair: 1 IPAddress object removed"}},
		{"object in use without parentRef", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.IPAddresses[0].Spec.ParentRef = nil },
			[]string{must + "IPAddressWithoutParent: 10.96.0.1. These IPAddress objects", surprise + "ClusterIPNotAllocated: objects are missing or foreign", surprise + "FirstRepair: 1 IPAddress object created, 1 IPAddress object removed"}},
		{"wrong reference", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.address("10.96.0.2", "kubernetes") },
			[]string{surprise + "IPAddressWrongReference: 10.96.0.2", surprise + "FirstRepair: 1 IPAddress object removed"}},
		{"leaked object", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.address("10.96.0.2", "none") },
			[]string{surprise + "Leak: removes these IPAddress objects", surprise + "FirstRepair: 1 IPAddress object removed"}},

		// MixedServers and BitmapDisagrees
		{"from dual write", objects("v1.33.13"), "1.34", flag, func(c cluster) { c.UpgradedAt = 0 }, []string{mixed}},
		{"from dual write, release not known", objects(""), "1.34", flag, func(c cluster) {
			c.UpgradedAt = 0
			c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 1)
		}, []string{mixed, unknown + "Release"}},
		{"patch release after dual write", objects("v1.34.2"), "1.34", flag, func(c cluster) { c.UpgradedAt = 0 }, nil},
		{"dual write stays", objects(""), "1.34", flag, func(c cluster) { c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 1) }, []string{unknown + "Release"}},
		{"stale bit", objects("v1.33.13"), "1.34", flag, func(c cluster) {
			c.UpgradedAt = 0
			c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 3)
		}, []string{surprise + "BitmapDisagrees: kube-apiserver 1.34 does not use the bitmap", mixed}},
		{"stale bit stays", objects("v1.33.12"), "1.33", flag, func(c cluster) {
			c.UpgradedAt = 0
			c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 3)
		}, []string{surprise + "BitmapDisagrees: Upgrade to 1.34 next"}},

		// Webhooks
		{"webhook stops", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.webhook(webhook("*")) },
			[]string{must + "Webhooks: kubectl edit validatingwebhookconfiguration policies", migrates}},
		{"webhook of bitmaps", bitmaps("v1.31.2"), "1.32", flag, func(c cluster) { c.webhook(webhook("*")) }, nil},
		{"webhook that may fail", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			h, ignore := webhook("*"), admissionv1.Ignore
			h.FailurePolicy = &ignore
			c.webhook(h)
		}, []string{surprise + "Webhooks: waits for each answer", migrates}},
		{"webhook of deletions that may not be called", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			h := webhook("ipaddresses")
			h.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Delete}
			c.webhook(h)
		}, []string{surprise + "Webhooks: can be called for deletions of ipaddresses. The first repair pass makes no such write", migrates}},
		{"webhooks of one configuration", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			ignored, ignore := webhook("ipaddresses"), admissionv1.Ignore
			ignored.FailurePolicy, ignored.Name = &ignore, "ignored.example.com"
			also := webhook("servicecidrs")
			also.Name = "also.example.com"
			c.Upgrade.Validating = []admissionv1.ValidatingWebhookConfiguration{{
				ObjectMeta: metav1.ObjectMeta{Name: "policies"}, Webhooks: []admissionv1.ValidatingWebhook{webhook("servicecidrs"), ignored, also},
			}}
		}, []string{
			must + "Webhooks: check.example.com, also.example.com of validatingwebhookconfiguration policies can be called for creations of servicecidrs. The first",
			surprise + "Webhooks: ignored.example.com of validatingwebhookconfiguration policies can be called for creations of ipaddresses, deletions of ipaddresses. The first repair pass of kube-apiserver 1.33 waits",
			migrates,
		}},
		{"webhook of the status", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.webhook(webhook("servicecidrs/status")) },
			[]string{surprise + "Webhooks: updates of servicecidrs/status. kube-apiserver 1.33 sets the condition Ready of ServiceCIDR kubernetes, and calls", migrates}},
		{"webhook of the status, which is not set", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.ServiceCIDRs[0].Status.Conditions = nil
			c.webhook(webhook("*/status"))
		}, []string{surprise + "Webhooks: kube-apiserver 1.36 sets the condition Ready"}},
		{"webhook of the status that may fail", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			h, ignore := webhook("servicecidrs/status"), admissionv1.Ignore
			h.FailurePolicy = &ignore
			c.webhook(h)
		}, []string{surprise + "Webhooks: kube-apiserver 1.33 waits for the answer before the condition Ready", migrates}},
		{"webhook of a status that is set", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.webhook(webhook("servicecidrs/*")) },
			[]string{surprise + "Webhooks: creations of servicecidrs, updates of servicecidrs/status. The first repair pass makes no such write"}},
		{"webhook of other subresources", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.webhook(webhook("ipaddresses/status", "servicecidrs/scale")) }, []string{migrates}},
		{"webhook later", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.webhook(webhook("ipaddresses")) },
			[]string{surprise + "Webhooks: only later allocations"}},
		{"webhook for removals", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			h := webhook("ipaddresses")
			h.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Delete}
			c.webhook(h)
			c.address("10.96.0.2", "none")
		}, []string{surprise + "Leak", must + "Webhooks", surprise + "FirstRepair"}},
		{"mutating webhook", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			h := webhook("servicecidrs")
			c.Upgrade.Mutating = []admissionv1.MutatingWebhookConfiguration{{
				ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Webhooks: []admissionv1.MutatingWebhook{{Name: h.Name, Rules: h.Rules}},
			}}
		}, []string{must + "Webhooks: kubectl edit mutatingwebhookconfiguration defaults", migrates}},
		{"webhook with conditions", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			h := webhook("*")
			h.MatchConditions = []admissionv1.MatchCondition{{Name: "not-the-server", Expression: "request.userInfo.username != 'system:apiserver'"}}
			c.webhook(h)
		}, []string{unknown + "Webhooks: if its matchConditions hold, which are not evaluated here. The first repair pass", migrates}},
		{"policy", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.policy(nil, admissionv1.Deny) },
			[]string{must + "Policies: validatingadmissionpolicy limits is evaluated for creations of ipaddresses, deletions of ipaddresses. If it refuses the first", migrates}},
		{"policy that warns", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) { c.policy(nil, admissionv1.Warn, admissionv1.Audit) }, []string{migrates}},
		{"policy without binding", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.policy(nil, admissionv1.Deny)
			c.Upgrade.ValidatingBindings[0].Spec.PolicyName = "another"
		}, []string{migrates}},
		{"policy that is bound to others", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.policy(&admissionv1.MatchResources{ResourceRules: rulesOf("services")}, admissionv1.Deny)
		}, []string{migrates}},
		{"policy with exclusion", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.policy(&admissionv1.MatchResources{ExcludeResourceRules: rulesOf("ipaddresses")}, admissionv1.Deny)
		}, []string{migrates}},
		{"policy with another exclusion", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			named := rulesOf("ipaddresses")
			named[0].ResourceNames = []string{"10.96.0.9"}
			c.policy(&admissionv1.MatchResources{ExcludeResourceRules: named}, admissionv1.Deny)
		}, []string{must + "Policies: validatingadmissionpolicy limits", migrates}},
		{"policy with conditions", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.policy(nil, admissionv1.Deny)
			c.Upgrade.ValidatingPolicies[0].Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "some", Expression: "true"}}
		}, []string{unknown + "Policies: if its matchConditions hold, which are not evaluated here", migrates}},
		{"policy of the status", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			c.policy(nil, admissionv1.Deny)
			c.Upgrade.ValidatingPolicies[0].Spec.MatchConstraints.ResourceRules = rulesOf("servicecidrs/status")
		}, []string{surprise + "Policies: New Services get ClusterIPs nevertheless", migrates}},
		{"policy later", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.policy(nil, admissionv1.Deny) },
			[]string{surprise + "Policies: only later allocations or releases depend on it"}},
		{"mutating policies", bitmaps("v1.32.2"), "1.33", flag, func(c cluster) {
			for _, failure := range []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore} {
				name := strings.ToLower(string(failure))
				c.Upgrade.MutatingPolicies = append(c.Upgrade.MutatingPolicies, admissionv1.MutatingAdmissionPolicy{
					ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec:       admissionv1.MutatingAdmissionPolicySpec{FailurePolicy: &failure, MatchConstraints: &admissionv1.MatchResources{ResourceRules: rulesOf("ipaddresses")}},
				})
				c.Upgrade.MutatingBindings = append(c.Upgrade.MutatingBindings, admissionv1.MutatingAdmissionPolicyBinding{Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}})
			}
		}, []string{must + "Policies: kubectl edit mutatingadmissionpolicy fail", migrates}},
		{"policies forbidden", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.Upgrade.PoliciesForbidden = "user x cannot list" },
			[]string{unknown + "Policies: get and list of the admission policies and their bindings"}},
		{"webhooks forbidden", objects("v1.35.4"), "1.36", flag, func(c cluster) { c.Upgrade.Forbidden = "user x cannot list" },
			[]string{unknown + "Webhooks: get and list of validatingwebhookconfigurations and mutatingwebhookconfigurations"}},

		{"fix of the first repair", bitmaps("v1.32.2"), "1.33", flag, nil, []string{surprise + "FirstRepair: kubernetes#136288: 1.33.13 makes a write again"}},
		{"fix of the first repair of 1.37", objects("v1.36.3"), "1.37", flag, func(c cluster) { c.address("10.96.0.2", "none") },
			[]string{surprise + "Leak", surprise + "FirstRepair: kubernetes#136288: 1.37.2 makes a write again", beta}},
		{"first repair of 1.32", bitmaps("v1.32.1"), "1.32", flag, func(c cluster) { c.Services[0].Spec.Ports = []corev1.ServicePort{{NodePort: 30001}} },
			[]string{surprise + "PortNotAllocated", surprise + "FirstRepair: Repair the cluster before the upgrade"}},
		{"no beta", objects("v1.36.3"), "1.37", flag, nil, []string{beta}},
		{"never beta", objects("v1.37.1"), "1.37", flag, nil, nil},

		{"over the API", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.Ranges, c.Unseen = map[string]clusterstate.StoredRange{}, &clusterstate.Unseen{NodePortRange: "30000-32767", NoBitmaps: true}
		}, []string{unknown + "servicenodeports: rangekeeper audit --probe"}},
		{"over the API, without a range", objects("v1.35.4"), "1.36", flag, func(c cluster) {
			c.Ranges, c.Unseen = map[string]clusterstate.StoredRange{}, &clusterstate.Unseen{NoBitmaps: true}
		}, []string{unknown + "servicenodeports: rangekeeper audit --probe", unknown + "servicenodeports: Name the range of the API servers with --service-node-port-range"}},
		{"over the API of objects and bitmaps", objects("v1.33.13"), "1.34", flag, func(c cluster) {
			c.Ranges, c.Unseen = map[string]clusterstate.StoredRange{}, &clusterstate.Unseen{NodePortRange: "30000-32767"}
		}, []string{unknown + "kubernetes: Addresses that only a bitmap records", unknown + "servicenodeports: rangekeeper audit --probe"}},
		{"over the API of bitmaps", bitmaps("v1.32.2"), "1.33", nil, func(c cluster) {
			c.Ranges, c.Unseen = map[string]clusterstate.StoredRange{}, &clusterstate.Unseen{NodePortRange: "30000-32767"}
		}, []string{migrates, unknown + "ServiceCIDR: Read etcd", unknown + "serviceips: Leaked", unknown + "serviceips: --service-cluster-ip-range", unknown + "servicenodeports:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.cluster)
			}
			report := newReport(t, c.cluster, preflight.Options{To: target(t, c.to), ClusterIPRanges: c.flag})
			slices.SortStableFunc(c.want, func(a, b string) int { return levelOf(a) - levelOf(b) })
			var found []string
			ok := true
			for _, check := range report.Checks {
				if check.Level == preflight.OK {
					continue
				}
				found = append(found, fmt.Sprintf("%s %s: %s %s %s", check.Level, check.Name, check.Message, check.Remedy, check.Command))
				if len(found) > len(c.want) {
					ok = false
					continue
				}
				start, part, _ := strings.Cut(c.want[len(found)-1], ":")
				text := found[len(found)-1]
				ok = ok && strings.HasPrefix(text, start) && strings.Contains(text, strings.TrimPrefix(part, " "))
			}
			if !ok || len(found) != len(c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(c.want, "\n"))
			}
			if report.Ready() == strings.Contains(strings.Join(c.want, ""), must) {
				t.Errorf("ready is %v", report.Ready())
			}
		})
	}
}

func levelOf(want string) int {
	level, _, _ := strings.Cut(want, " ")
	return slices.Index(preflight.Levels, preflight.Level(level))
}

// TestRules has rules of webhooks for the creation of ServiceCIDRs and IPAddresses.
func TestRules(t *testing.T) {
	namespaced, exact := admissionv1.NamespacedScope, admissionv1.Exact
	rule := func(change func(h *admissionv1.ValidatingWebhook, r *admissionv1.RuleWithOperations)) admissionv1.ValidatingWebhook {
		h := webhook("*")
		change(&h, &h.Rules[0])
		return h
	}
	type hook = admissionv1.ValidatingWebhook
	type ruleOf = admissionv1.RuleWithOperations
	for _, c := range []struct {
		name    string
		webhook hook
		want    bool
	}{
		{"all", webhook("*"), true},
		{"all with subresources", webhook("*/*"), true},
		{"by name", webhook("pods", "servicecidrs"), true},
		{"with subresources", webhook("ipaddresses/*"), true},
		{"other status only", webhook("ipaddresses/status", "services/status"), false},
		{"others", webhook("pods", "services"), false},
		{"group", rule(func(_ *hook, r *ruleOf) { r.APIGroups = []string{"", "networking.k8s.io"} }), true},
		{"other group", rule(func(_ *hook, r *ruleOf) { r.APIGroups = []string{"", "apps"} }), false},
		{"updates", rule(func(_ *hook, r *ruleOf) { r.Operations = []admissionv1.OperationType{admissionv1.Update} }), false},
		{"creations", rule(func(_ *hook, r *ruleOf) { r.Operations = []admissionv1.OperationType{admissionv1.Create} }), true},
		{"in namespaces", rule(func(_ *hook, r *ruleOf) { r.Scope = &namespaced }), false},
		{"another version is equivalent", rule(func(_ *hook, r *ruleOf) { r.APIVersions = []string{"v1beta1"} }), true},
		{"exactly another version", rule(func(h *hook, r *ruleOf) { r.APIVersions, h.MatchPolicy = []string{"v1beta1"}, &exact }), false},
		{"exactly this version", rule(func(h *hook, r *ruleOf) { r.APIVersions, h.MatchPolicy = []string{"v1"}, &exact }), true},
		{"other namespaces", rule(func(h *hook, _ *ruleOf) {
			h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"policies": "on"}}
		}), true},
		{"other objects", rule(func(h *hook, _ *ruleOf) {
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"policies": "on"}}
		}), false},
		{"objects of the allocator", rule(func(h *hook, _ *ruleOf) {
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}}
		}), true},
		{"no rule", hook{Name: "none.example.com"}, false},
	} {
		state := bitmaps("v1.32.2")
		state.webhook(c.webhook)
		report := newReport(t, state, preflight.Options{To: target(t, "1.33"), ClusterIPRanges: flag})
		if report.Ready() == c.want {
			t.Errorf("%s: %+v", c.name, report.Of(preflight.Must))
		}
	}
}

// TestManyWrites has more objects to create than a healthy etcd writes within a minute.
func TestManyWrites(t *testing.T) {
	for _, c := range []struct {
		services int
		want     bool
	}{{5998, false}, {6000, true}} { // beside the Service kubernetes and the ServiceCIDR
		state := bitmaps("v1.32.2")
		state.Ranges = map[string]clusterstate.StoredRange{}
		state.Unseen = &clusterstate.Unseen{ClusterIPRanges: flag, NodePortRange: "30000-32767"}
		for i, address := 0, netip.MustParseAddr("10.96.1.0"); i < c.services; i, address = i+1, address.Next() {
			state.service(fmt.Sprint("s", i), address.String())
		}
		report := newReport(t, state, preflight.Options{To: target(t, "1.33")})
		if report.FirstRepair.Created != c.services+1 {
			t.Errorf("%d Services: %+v", c.services, report.FirstRepair)
		}
		text := fmt.Sprint(report.Of(preflight.Surprise))
		if strings.Contains(text, "and has 60 s: not more than 9 ms") != c.want {
			t.Errorf("%d Services: %s", c.services, text)
		}
	}
}

// TestRepairs names the command that repairs the source.
func TestRepairs(t *testing.T) {
	damaged := func() cluster {
		c := bitmaps("v1.32.2")
		c.bitmap(clusterstate.ServiceIPs, "10.96.0.0/16", 3)
		return c
	}
	missing := func() cluster {
		c := objects("v1.35.4")
		c.service("more", "10.96.0.2")
		return c
	}
	const repair = "rangekeeper repair"
	for _, c := range []struct {
		name, to string
		cluster  cluster
		repair   []string
		atRest   bool
		level    preflight.Level
		want     string
	}{
		{"etcd", "1.33", damaged(), []string{repair, "--apply"}, false, preflight.Must, "To free them before the upgrade, run: rangekeeper repair --apply"},
		{"snapshot", "1.33", damaged(), []string{repair, "--to-file"}, true, preflight.Must, "repair the snapshot and restore the result, as https://github.com/rangekeeper/rangekeeper/blob/main/docs/runbook.md#restore-a-repaired-snapshot says: rangekeeper repair --to-file"},
		{"read only", "1.33", damaged(), nil, false, preflight.Must, "present kube-apiserver run for 10 minutes"},
		{"objects in etcd", "1.36", missing(), []string{repair, "--apply"}, false, preflight.Surprise, "wait for the repair of the present kube-apiserver"},
		{"objects in a snapshot", "1.36", missing(), []string{repair, "--to-file"}, true, preflight.Surprise, "To create them, repair the snapshot and restore the result, as https://github.com/rangekeeper/rangekeeper/blob/main/docs/runbook.md#restore-a-repaired-snapshot says: rangekeeper repair --to-file"},
	} {
		report := newReport(t, c.cluster, preflight.Options{To: target(t, c.to), ClusterIPRanges: flag, Repair: c.repair, AtRest: c.atRest})
		check := report.Of(c.level)[0]
		if text := check.Remedy + " " + check.Command; !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for _, text := range []string{"1.34", "v1.34", "1.34.4", "v1.34.9+k3s1", "1.34.0-rc.1"} {
		if r, err := preflight.ParseTarget(text); err != nil || r != 34 {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "1", "34", "1.31", "1.99", "2.34", "1.34.", "1.34.x", "1.034567", "1.34 ", "v", "1.34.4.5", "1.-34"} {
		if r, err := preflight.ParseTarget(text); err == nil || !strings.Contains(err.Error(), "1.32, 1.33, 1.34, 1.35, 1.36, 1.37") {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
}
