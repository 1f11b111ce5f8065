package upstream

import (
	"math/big"
	"net"
	"net/netip"
	"testing"

	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	netutils "k8s.io/utils/net"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// Each test shows a fault of the reference, and what Rangekeeper does instead. TestSameAsReference avoids these
// differences and no others. If a new version of the reference fixes a fault, the test fails: remove it and let
// TestSameAsReference compare the results.

// The reference restores a snapshot with bits past the range. Then a range with free addresses is full.
func TestFaultRestoreAcceptsBitsPastTheRange(t *testing.T) {
	const spec = "10.0.0.0/30"
	data := []byte{1 << 6, 0} // offset 14 of a range of 2
	data = new(big.Int).SetBit(new(big.Int).SetBytes(data), 15, 1).Bytes()

	reference, _, _ := newReferenceIPs(t, spec)
	if outcome := reference.restore(spec, data); outcome != done {
		t.Errorf("the reference refuses bits past the range: %q", outcome)
	}
	if _, outcome := reference.allocateNext(); outcome != full || reference.has(netip.MustParseAddr("10.0.0.1")) {
		t.Errorf("the reference's allocate next returned %q", outcome)
	}

	subject := newRangekeeperIPs(t, spec, 1)
	defer subject.close()
	if outcome := subject.restore(spec, data); outcome != bitsPastRange {
		t.Errorf("restore returned %q", outcome)
	}
	if _, outcome := subject.allocateNext(); outcome != done {
		t.Errorf("allocate next returned %q", outcome)
	}
}

// In IPv6 ranges wider than a /64, the reference has one offset for two addresses that are 2^64 apart.
func TestFaultOffsetsWrap(t *testing.T) {
	const spec = "2001:db8::/48"
	near, far := netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8:0:1::5")

	reference, _, _ := newReferenceIPs(t, spec)
	if outcome := reference.allocate(far); outcome != done || !reference.has(near) {
		t.Errorf("the reference's allocate of %s returned %q; has %s: %v", far, outcome, near, reference.has(near))
	}

	subject := newRangekeeperIPs(t, spec, 1)
	defer subject.close()
	if outcome := subject.allocate(far); outcome != notInRange(spec) || subject.has(near) || subject.has(far) {
		t.Errorf("allocate of %s returned %q", far, outcome)
	}
	if outcome := subject.allocate(near); outcome != done || subject.has(far) {
		t.Errorf("allocate of %s returned %q", near, outcome)
	}
}

// The reference's dry run of allocate does not check whether the address is in use, and that of allocate next does not
// check whether the range is full.
func TestFaultDryRunOfAddressesIgnoresState(t *testing.T) {
	const spec = "10.0.0.0/31"
	reference, _, _ := newReferenceIPs(t, spec)
	if outcome := reference.dryRunAllocateNext(); outcome != done {
		t.Errorf("the reference's dry run of allocate next in an empty range returned %q", outcome)
	}
	empty := newRangekeeperIPs(t, spec, 1)
	defer empty.close()
	if outcome := empty.dryRunAllocateNext(); outcome != full {
		t.Errorf("dry run of allocate next in an empty range returned %q", outcome)
	}

	address := netip.MustParseAddr("10.0.0.1")
	reference, _, _ = newReferenceIPs(t, "10.0.0.0/30")
	reference.allocate(address)
	if outcome := reference.dryRunAllocate(address); outcome != done {
		t.Errorf("the reference's dry run of an address in use returned %q", outcome)
	}
	subject := newRangekeeperIPs(t, "10.0.0.0/30", 1)
	defer subject.close()
	subject.allocate(address)
	if outcome := subject.dryRunAllocate(address); outcome != allocated {
		t.Errorf("dry run of an address in use returned %q", outcome)
	}
}

// The reference's dry run of a port operation accepts ports outside of the range, and its allocate next returns the
// ports from 32769 on, in any range.
func TestFaultDryRunOfPortsAcceptsAnyPort(t *testing.T) {
	const spec = "30000-30009"
	reference, _, _ := newReferencePorts(t, spec)
	if outcome := reference.dryRunAllocate(8080); outcome != done {
		t.Errorf("the reference's dry run of a port outside of the range returned %q", outcome)
	}
	if port, _ := portallocator.StartOperation(reference.r, true).AllocateNext(); port != 32769 {
		t.Errorf("the reference's dry run of allocate next returned %d", port)
	}

	subject := newRangekeeperPorts(t, spec, 1)
	defer subject.close()
	if outcome := subject.dryRunAllocate(8080); outcome != notInRange(spec) {
		t.Errorf("dry run of a port outside of the range returned %q", outcome)
	}
	dryRun := subject.dryRun()
	defer dryRun.Close()
	if port, err := dryRun.AllocateNext(); err != nil || port.Port() < 30000 || port.Port() > 30009 {
		t.Errorf("dry run of allocate next returned %v, %v", port, err)
	}
}

// The reference rolls a port operation back a second time, and then releases a port of another owner.
func TestFaultOperationRollsBackTwice(t *testing.T) {
	const spec, port = "30000-30009", 30003
	reference, _, _ := newReferencePorts(t, spec)
	operation := portallocator.StartOperation(reference.r, false)
	noError(t, operation.Allocate(port))
	operation.Rollback()
	noError(t, reference.r.Allocate(port)) // for another owner
	operation.Finish()
	if reference.has(port) {
		t.Error("the reference did not release the port of another owner")
	}
}

// The reference's range 0.0.0.0/0 has no address, but the same range as ::ffff:0.0.0.0/96 has 4,294,967,294, though
// both are stored as the same text.
func TestFaultMappedRangeOfAllAddresses(t *testing.T) {
	for input, want := range map[string]int{"0.0.0.0/0": 0, "::ffff:0.0.0.0/96": 1<<32 - 2} {
		_, cidr, err := netutils.ParseCIDRSloppy(input)
		noError(t, err)
		if cidr.String() != "0.0.0.0/0" {
			t.Errorf("the reference stores %s as %s", input, cidr)
		}
		r, err := ipallocator.NewInMemory(cidr)
		noError(t, err)
		if r.Free() != want {
			t.Errorf("the reference has %d addresses in %s", r.Free(), input)
		}
		if r.Has(net.IPv4(10, 0, 0, 1)) {
			t.Errorf("the reference has an address in use in %s", input)
		}
		ours, err := rangekeeper.ParseCIDR(input)
		noError(t, err)
		if ours.String() != "0.0.0.0/0" || ours.Size() != 0 {
			t.Errorf("%s is %s with %d addresses", input, ours, ours.Size())
		}
	}
}
