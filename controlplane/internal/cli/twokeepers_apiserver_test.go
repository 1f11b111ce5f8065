package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestOneKeeperOnAServer has a deleted, older Service come back beside the one that got its address later, as kine can
// leave it (k3s-io/kine#408). The Event of a stock server and the audit name the same one to be recreated.
func TestOneKeeperOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true})
	client := clientOf(t, server)
	awaitLoops(t, client)
	web, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ghost := web.DeepCopy()
	ghost.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "ghost", UID: "ghost", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}
	raw, err := ghost.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Client().Put(t.Context(), "/registry/services/specs/default/ghost", string(inEnvelopeOf(t, "v1", "Service", raw))); err != nil {
		t.Fatal(err)
	}
	server.Restart() // its repair looks at all Services
	var recreated []string
	eventually(t, func() error {
		events, err := client.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		recreated = nil
		for _, e := range events.Items {
			if strings.Contains(e.Note, "please recreate service") {
				recreated = append(recreated, e.Regarding.Name)
			}
		}
		if len(recreated) == 0 {
			return errors.New("no Event yet")
		}
		return nil
	})
	r := runJSON[audit.Report](t, exitFound, "audit", "--endpoints", etcd.Endpoints()[0])
	at := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.Reason == "ClusterIPAlreadyAllocated" })
	if at < 0 || r.Findings[at].Name != "ghost" || !slices.Equal(slices.Compact(recreated), []string{"ghost"}) {
		t.Fatalf("Events about %q, %+v", recreated, r.Findings)
	}
	if c := r.Findings[at].Claimants; len(c) != 2 || c[0].Name != "web" || !c[0].Keeps || c[1].Keeps {
		t.Errorf("%+v", c)
	}
}
