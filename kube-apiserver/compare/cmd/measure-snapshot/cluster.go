package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	clusterIPRange = "10.0.0.0/8"
	// nodePorts is the number of Services with a node port, nearly all that the default range has.
	nodePorts    = 2500
	nodePortBase = 30000
	perNamespace = 1000
)

// cluster has so many Services, each applied by kubectl, and their IPAddress objects. A few of them are at fault, so
// that an audit reads names again and a repair has something to write.
type cluster struct{ services int }

// created is when the Service of an index was created.
func created(i int) metav1.Time { return metav1.NewTime(time.Unix(1_700_000_000+int64(i)*60, 0)) }

// address is that of the Service of an index; the first one of the range is that of the Service kubernetes.
func address(i int) string {
	first := netip.MustParsePrefix(clusterIPRange).Addr().As4()
	n := uint32(first[0])<<24 + uint32(i+2)
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

func uid(kind, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, i))
}

// sharesAddress says that a Service has the address of the one before it.
func (c cluster) sharesAddress(i int) bool { return i%(c.services/4) == 7 }

// isLost says that the IPAddress object of a Service is missing.
func (c cluster) isLost(i int) bool { return c.sharesAddress(i) || i%(c.services/4) == 11 }

func (c cluster) service(i int) *corev1.Service {
	namespace, name, ip := fmt.Sprintf("team-%04d", i/perNamespace), fmt.Sprintf("backend-%07d", i), address(i)
	if c.sharesAddress(i) {
		ip = address(i - 1)
	}
	spec := corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
		InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster), SessionAffinity: corev1.ServiceAffinityNone,
		Selector: map[string]string{"app": name},
		Ports:    []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
	}
	if i < nodePorts {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyCluster
		spec.Ports[0].NodePort = int32(nodePortBase + i)
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: uid(1, i), CreationTimestamp: created(i),
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: applied(namespace, name, spec)},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubectl-client-side-apply", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			Time: ptr.To(created(i)), FieldsV1: &metav1.FieldsV1{Raw: managed()},
		}},
	}, Spec: spec}
}

// applied is the annotation of kubectl apply.
func applied(namespace, name string, spec corev1.ServiceSpec) string {
	type object map[string]any
	var ports []object
	for _, port := range spec.Ports {
		ports = append(ports, object{"port": port.Port, "protocol": port.Protocol})
	}
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{"annotations": object{}, "name": name, "namespace": namespace},
		"spec":     object{"ports": ports, "selector": object{"app": name}, "type": spec.Type},
	})
	if err != nil {
		panic(err) // of these types there is none
	}
	return string(text) + "\n"
}

// managed is what a kube-apiserver records of such an apply.
func managed() []byte {
	return []byte(`{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}}},` +
		`"f:spec":{"f:internalTrafficPolicy":{},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}}},"f:selector":{},"f:sessionAffinity":{},"f:type":{}}}`)
}

// ipAddress is the object of a Service's address.
func (c cluster) ipAddress(i int) *networkingv1.IPAddress {
	service := c.service(i)
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: service.Spec.ClusterIP, UID: uid(2, i), Generation: 1, CreationTimestamp: created(i),
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol), networkingv1.LabelManagedBy: "ipallocator.k8s.io"},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: service.Namespace, Name: service.Name}},
	}
}

func serviceCIDR() *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", UID: uid(3, 0), CreationTimestamp: created(0)},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{clusterIPRange}},
	}
}

// nodePortBitmap is the stored range of node ports.
func nodePortBitmap() *corev1.RangeAllocation {
	data := make([]byte, (nodePorts+7)/8)
	for offset := range nodePorts {
		data[len(data)-1-offset/8] |= 1 << (offset % 8)
	}
	return &corev1.RangeAllocation{Range: fmt.Sprintf("%d-%d", nodePortBase, 32767), Data: data}
}

// after returns the place after which a page begins.
func after(token string) (i int) {
	fmt.Sscanf(strings.TrimPrefix(token, "after-"), "%d", &i)
	return i
}
