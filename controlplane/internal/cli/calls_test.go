//go:build cgo && rangekeeper_native

package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCallsIntoTheLibrary counts the calls of an allocation in a small and in a large cluster: Services cross in
// batches, and nothing else depends on their number.
func TestCallsIntoTheLibrary(t *testing.T) {
	const few, many, perBatch = 20, 20_000, 4096
	etcd, flags := cluster(t)
	runOK(t, append([]string{"init", "serviceips", "10.96.0.0/12"}, flags...)...)
	services := 0
	createUpTo := func(count int) {
		for ; services < count; services++ {
			s := corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", services)}}
			s.Spec.ClusterIP = fmt.Sprintf("10.97.%d.%d", services/250, 1+services%250)
			value, err := json.Marshal(&s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := etcd.Client().Put(t.Context(), "/registry/services/specs/default/"+s.Name, string(value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	allocate := func() int64 {
		before := runtime.NumCgoCall()
		runOK(t, append([]string{"allocate", "serviceips"}, flags...)...)
		return runtime.NumCgoCall() - before
	}
	createUpTo(few)
	allocate() // the first one may be the first user of a library of C
	inFew := allocate()
	createUpTo(many)
	inMany := allocate()
	// Each batch is one call; the committer is polled once more or less with an event of its watch.
	const batches, polls = many/perBatch + 1, 20
	t.Logf("%d calls with %d Services, %d with %d", inFew, few, inMany, many)
	if inFew == 0 || inMany > inFew+batches+polls {
		t.Error("the number of calls grows with the Services")
	}
}
