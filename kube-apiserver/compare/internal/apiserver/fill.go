package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
)

// servicesPerWrite keeps a transaction below etcd's limit of 128 writes.
const servicesPerWrite = 64

// Fill stores one Service and one IPAddress object per IPv4 address in the etcd that a server will be started on. A
// server would take hours for the Services of a nearly full /16.
func Fill(ctx context.Context, c Config, addresses []netip.Addr) error {
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: c.etcdDir()})
	if err != nil {
		return err
	}
	defer etcd.Close()
	var writes []clientv3.Op
	for i, address := range addresses {
		service, ip := filledObjects(i, address.String())
		for key, object := range map[string]runtime.Object{
			"/registry/services/specs/" + service.Namespace + "/" + service.Name: service,
			"/registry/ipaddresses/" + ip.Name:                                   ip,
		} {
			var value bytes.Buffer
			if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &value); err != nil {
				return err
			}
			writes = append(writes, clientv3.OpPut(key, value.String()))
		}
		if len(writes) == 2*servicesPerWrite || i+1 == len(addresses) {
			if _, err := etcd.Client().Txn(ctx).Then(writes...).Commit(); err != nil {
				return err
			}
			writes = nil
		}
	}
	return nil
}

func filledObjects(i int, address string) (*corev1.Service, *networkingv1.IPAddress) {
	meta := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(uuid.NewString()), CreationTimestamp: metav1.NewTime(time.Now())}
	}
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(fmt.Sprintf("filled-%d", i), metav1.NamespaceDefault),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster), SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	ip := &networkingv1.IPAddress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddress"},
		ObjectMeta: meta(address, ""),
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: service.Namespace, Name: service.Name}},
	}
	ip.Labels = map[string]string{networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol), networkingv1.LabelManagedBy: "ipallocator.k8s.io"}
	return service, ip
}
