package storagetest

import (
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// TestOperationEndsOnce ends an operation a second time after its port got another owner. The released code releases
// the port again.
func TestOperationEndsOnce(t *testing.T) {
	const port = 30003
	for name, end := range map[string]func(*portallocator.PortAllocationOperation) []error{
		"commit":    (*portallocator.PortAllocationOperation).Commit,
		"roll back": (*portallocator.PortAllocationOperation).Rollback,
	} {
		ports, err := portallocator.NewInMemory(*utilnet.ParsePortRangeOrDie("30000-30009"))
		if err != nil {
			t.Fatal(err)
		}
		operation := portallocator.StartOperation(ports, false)
		if err := operation.Allocate(port); err != nil {
			t.Fatal(err)
		}
		operation.ReleaseDeferred(port)
		if errs := end(operation); errs != nil || ports.Has(port) {
			t.Fatal(name, errs, ports.Has(port))
		}
		if err := ports.Allocate(port); err != nil { // for another owner
			t.Fatal(err)
		}
		operation.Rollback()
		operation.Commit()
		operation.Finish()
		if !ports.Has(port) {
			t.Errorf("%s: the second end released the port of another owner", name)
		}
	}
}
