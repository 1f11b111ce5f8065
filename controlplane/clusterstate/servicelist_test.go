package clusterstate_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
)

// TestCheckServices compares lists of more than one page with etcd.
func TestCheckServices(t *testing.T) {
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	client := etcd.Client()
	var right []*corev1.Service
	var puts []clientv3.Op
	for i := range 5100 {
		name := fmt.Sprintf("web-%04d", i)
		// The value does not matter: it may be encrypted.
		puts = append(puts, clientv3.OpPut("/registry/services/specs/shop/"+name, "k8s:enc:aescbc:v1:key1:..."))
		right = append(right, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
		if len(puts) == 100 {
			written, err := client.Txn(t.Context()).Then(puts...).Commit()
			if err != nil {
				t.Fatal(err)
			}
			for _, service := range right[len(right)-len(puts):] {
				service.ResourceVersion = strconv.FormatInt(written.Header.Revision, 10)
			}
			puts = nil
		}
	}
	head, err := client.Put(t.Context(), "/registry/services/endpoints/shop/web", "no Service")
	if err != nil {
		t.Fatal(err)
	}
	revision := head.Header.Revision
	if _, err := client.Delete(t.Context(), "/registry/services/specs/shop/web-0007"); err != nil {
		t.Fatal(err) // after the list
	}
	another := right[42].DeepCopy()
	another.ResourceVersion = "7"
	unknown := another.DeepCopy()
	unknown.Name = "lost"
	for _, c := range []struct {
		name     string
		services []*corev1.Service
		message  string // none if the list is right
	}{
		{"all", right, ""},
		{"one is missing", right[:len(right)-1], "misses 1 and has 0"},
		{"one is of the lost history", append(slices.Clone(right), unknown), "misses 0 and has 1"},
		{"one in another version", slices.Concat(right[:42], []*corev1.Service{another}, right[43:]), "misses 1 and has 1"},
		{"none", nil, "misses 5100 and has 0"},
	} {
		err := clusterstate.CheckServices(t.Context(), client, "", c.services, revision)
		if c.message == "" && err != nil || c.message != "" && (!errors.Is(err, clusterstate.ErrOtherList) || !strings.Contains(err.Error(), c.message)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.message)
		}
	}
	// The list of a cache that has not noticed that etcd went back.
	if err := clusterstate.CheckServices(t.Context(), client, "", right, revision+1000); !errors.Is(err, clusterstate.ErrOtherList) {
		t.Errorf("a revision that etcd has not reached: %v", err)
	}
}
