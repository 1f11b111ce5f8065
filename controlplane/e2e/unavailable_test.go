package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestEtcdUnavailable creates Services while etcd has no space, and while it is stopped. Clients must get errors after
// which they retry, and no 422, which says that the Service is invalid. When etcd is back, Services are created again.
func TestEtcdUnavailable(t *testing.T) { onEachVersion(t, testEtcdUnavailable) }

func testEtcdUnavailable(t *testing.T, version apiservertest.Version) {
	t.Parallel() // it waits most of the time
	etcd := etcdtest.StartCluster(t, 1)
	server := startOn(t, etcd.Endpoints(), version, true, 1)[0]
	services := newWorkload(0, server).servers[0].CoreV1().Services(metav1.NamespaceDefault)
	client := etcd.Client()

	setNoSpace(t, client, etcdserverpb.AlarmRequest_ACTIVATE)
	createUnavailable(t, server, "no-space")
	setNoSpace(t, client, etcdserverpb.AlarmRequest_DEACTIVATE)
	createAvailable(t, services, "space")

	etcd.Kill(0)
	createUnavailable(t, server, "stopped")
	etcd.Restart(0)
	createAvailable(t, services, "started")
	checkHistory(t, client)
}

// kindsOfUnavailable are Services with a ClusterIP, and with a node port in addition.
var kindsOfUnavailable = map[string]corev1.ServiceSpec{"cluster-ip": clusterIP, "node-port": nodePort}

// createUnavailable sends requests without client-go, which retries as Retry-After says.
func createUnavailable(t *testing.T, server *apiservertest.Server, name string) {
	t.Helper()
	config := server.RESTConfig(apiservertest.Admin)
	client := must(rest.HTTPClientFor(config))
	defer client.CloseIdleConnections()
	var mutex sync.Mutex
	answers := make(map[string]int)
	var group sync.WaitGroup
	for kind, spec := range kindsOfUnavailable {
		for i := range 5 {
			group.Go(func() {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", name, kind, i)}, Spec: spec}
				answer, err := client.Post(config.Host+"/api/v1/namespaces/default/services", "application/json", bytes.NewReader(must(json.Marshal(service))))
				if err != nil {
					t.Errorf("create %s: %v", service.Name, err)
					return
				}
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Errorf("create %s: %v", service.Name, err)
				}
				seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
				isRetried := seconds > 0 && (answer.StatusCode == http.StatusServiceUnavailable || answer.StatusCode == http.StatusInsufficientStorage)
				if !isRetried {
					t.Errorf("create %s: %s, Retry-After %q: %s", service.Name, answer.Status, answer.Header.Get("Retry-After"), body)
				}
				mutex.Lock()
				defer mutex.Unlock()
				answers[answer.Status]++
			})
		}
	}
	group.Wait()
	t.Logf("%s: %v", name, answers)
}

func createAvailable(t *testing.T, services typedv1.ServiceInterface, name string) {
	t.Helper()
	for kind, spec := range kindsOfUnavailable {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + kind}, Spec: spec}
		for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
			_, err := services.Create(t.Context(), service, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("create %s: %v", service.Name, err)
			}
		}
	}
}

// setNoSpace raises or ends the alarm of a database that has reached its quota.
func setNoSpace(t *testing.T, client *clientv3.Client, action etcdserverpb.AlarmRequest_AlarmAction) {
	t.Helper()
	member := must(client.MemberList(t.Context())).Members[0].ID
	_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(),
		&etcdserverpb.AlarmRequest{Action: action, MemberID: member, Alarm: etcdserverpb.AlarmType_NOSPACE})
	if err != nil {
		t.Fatal(err)
	}
}
