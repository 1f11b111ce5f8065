package etcdtest

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/servicebatch"
)

// Objects returns the Services of a list as objects, with what the list has of them; the resource version is the create
// revision.
func Objects(l *servicebatch.List) (all []corev1.Service) {
	for _, s := range l.All() {
		o := corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, ResourceVersion: strconv.FormatInt(s.CreateRevision, 10)},
			Spec:       corev1.ServiceSpec{ClusterIP: s.ClusterIP, ClusterIPs: append([]string(nil), s.ClusterIPs...), HealthCheckNodePort: s.HealthCheckNodePort},
		}
		if s.Created != 0 {
			o.CreationTimestamp = metav1.NewTime(time.Unix(s.Created, 0))
		}
		switch form := &s.Form; {
		case form.NodePort:
			o.Spec.Type = corev1.ServiceTypeNodePort
		case form.LoadBalancer:
			o.Spec.Type = corev1.ServiceTypeLoadBalancer
		case form.ExternalName:
			o.Spec.Type = corev1.ServiceTypeExternalName
		}
		for _, port := range s.Ports {
			o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Protocol: corev1.Protocol(port.Protocol), NodePort: port.NodePort})
		}
		all = append(all, o)
	}
	return all
}

// List is the other way round.
func List(all ...corev1.Service) (l servicebatch.List) {
	for i := range all {
		fields := servicebatch.FieldsOf(&all[i])
		fields.CreateRevision, _ = strconv.ParseInt(all[i].ResourceVersion, 10, 64)
		l.Add(fields.AppendTo(nil))
	}
	return l
}

// AddressList returns a list of IPAddress objects.
func AddressList(all ...networkingv1.IPAddress) (l servicebatch.AddressList) {
	for i := range all {
		l.Add(servicebatch.AddressFieldsOf(&all[i]).AppendTo(nil))
	}
	return l
}
