package apiservertest

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// rangesPrefix is the prefix of the keys of stored ranges.
const rangesPrefix = "/registry/ranges/"

// Initialise makes what a server whose loops are off lacks to create a Service in the
// namespace default, and leaves what is there: the namespace and the stored ranges. It
// returns when the server can create one: it may not have read its ServiceCIDR before.
func (s *Server) Initialise() {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.RESTConfig(Admin))
	if err != nil {
		s.t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
	_, err = client.CoreV1().Namespaces().Create(s.t.Context(), namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: s.config.Etcd, Logger: zap.NewNop()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer etcd.Close()
	if s.config.Version == V1_32 {
		names := []string{clusterstate.ServiceIPs, clusterstate.SecondaryServiceIPs}
		for i, cidr := range strings.Split(s.config.ServiceClusterIPRange, ",") {
			values, err := rangekeeper.ParseCIDR(cidr)
			if err != nil {
				s.t.Fatal(err)
			}
			initialise(s.t, etcd, names[i], values)
		}
	}
	ports, err := rangekeeper.ParsePortRange(s.config.ServiceNodePortRange)
	if err != nil {
		s.t.Fatal(err)
	}
	initialise(s.t, etcd, clusterstate.ServiceNodePorts, ports)
	for deadline := time.Now().Add(readyTimeout); ; time.Sleep(50 * time.Millisecond) {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(s.t.Context(), service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("kube-apiserver %s cannot create a Service: %v", s.config.Version, err)
		}
	}
}

func initialise(t testing.TB, etcd *clientv3.Client, name string, values rangekeeper.Range) {
	t.Helper()
	store, err := etcdstore.Open(etcdstore.Config{Client: etcd, Key: rangesPrefix + name, Range: values})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Init(t.Context())
	if err == nil {
		err = store.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}
