package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestLostRangeOnAServer damages the range of node ports of a cluster whose stock server runs. It refuses node ports,
// as the finding says, and sets the range up again from the Services once the key is deleted, as its remedy says.
func TestLostRangeOnAServer(t *testing.T) {
	etcd := etcdtest.Start(t, "")
	server := apiservertest.Start(t, apiservertest.Config{Version: apiservertest.Newest, Etcd: etcd.Endpoints(), OwnLoops: true})
	client := clientOf(t, server)
	create := func(name string) (int32, error) {
		s, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
		return s.Spec.Ports[0].NodePort, nil
	}
	lost := func(want ...string) {
		t.Helper()
		eventually(t, func() error {
			_, stdout, stderr := run(t, "audit", "-o", "json", "--endpoints", etcd.Endpoints()[0])
			for _, reason := range []string{"RangeNotReadable", "RangeMissing"} {
				if strings.Contains(stdout, reason) != slices.Contains(want, reason) || stdout == "" {
					return errors.New("wanted " + strings.Join(want, ", ") + ": " + stdout + stderr)
				}
			}
			return nil
		})
	}
	awaitLoops(t, client)
	const key = "/registry/ranges/servicenodeports"
	// The server has set the range up though no Service has a node port. Without it a server refuses each one.
	lost()
	if deleted, err := etcd.Client().Delete(t.Context(), key); err != nil || deleted.Deleted != 1 {
		t.Fatal(deleted, err)
	}
	lost("RangeMissing")
	if _, err := create("refused"); err == nil {
		t.Error("the server gives a node port without a range")
	}
	server.Restart()
	lost()
	first, err := create("first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Client().Put(t.Context(), key, "k8s\x00junk"); err != nil {
		t.Fatal(err)
	}
	lost("RangeNotReadable")
	if _, err := create("refused"); err == nil {
		t.Error("the server gives a node port")
	}
	// The next step is the remedy. A repair of the other ranges goes on.
	_, shown, _ := run(t, "audit", "--endpoints", etcd.Endpoints()[0])
	if want := "etcdctl --endpoints " + etcd.Endpoints()[0] + " del " + key; !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(shown, "\\\n", " ")), " "), want) {
		t.Errorf("no next step %q:\n%s", want, shown)
	}
	if code, _, stderr := run(t, "repair", "--apply", "--endpoints", etcd.Endpoints()[0]); code != exitFound || stderr != "" {
		t.Errorf("repair: exit code %d, %s", code, stderr)
	}
	if _, err := etcd.Client().Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	lost("RangeMissing")
	if _, err := create("refused"); err == nil {
		t.Error("the server gives a node port")
	}
	server.Restart()
	lost()
	r := runJSON[audit.Explanations](t, exitOK, "explain", "default/first", "--endpoints", etcd.Endpoints()[0])
	if !slices.ContainsFunc(r.Values, func(e *audit.Explanation) bool {
		return slices.ContainsFunc(e.Places, func(p audit.Place) bool { return p.Name == "servicenodeports" && p.Allocated != nil && *p.Allocated })
	}) {
		t.Errorf("port %d is not recorded: %+v", first, r)
	}
	second, err := create("second")
	if err != nil || second == first {
		t.Errorf("port %d after %d, %v", second, first, err)
	}
}
