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

// Each test here shows a fault of the reference and Rangekeeper's behaviour instead. They are the only
// differences that TestSameAsReference allows for; when a new version of the reference repairs one, its
// test fails, and the allowance goes with it.

// A snapshot with bits past the range is taken as it is: a range with free addresses then reports itself as full.
func TestFaultRestoreTakesBitsPastTheRange(t *testing.T) {
	const spec = "10.0.0.0/30"
	data := []byte{1 << 6, 0} // offset 14 of a range of 2
	data = new(big.Int).SetBit(new(big.Int).SetBytes(data), 15, 1).Bytes()

	reference, _, _ := newReferenceIPs(t, spec)
	if outcome := reference.restore(spec, data); outcome != done {
		t.Errorf("the reference refuses the bits: %q", outcome)
	}
	if _, outcome := reference.allocateNext(); outcome != full || reference.has(netip.MustParseAddr("10.0.0.1")) {
		t.Errorf("allocate next of the reference ended with %q", outcome)
	}

	subject := newRangekeeperIPs(t, spec, 1)
	defer subject.close()
	if outcome := subject.restore(spec, data); outcome != bitsPastRange {
		t.Errorf("restore ended with %q", outcome)
	}
	if _, outcome := subject.allocateNext(); outcome != done {
		t.Errorf("allocate next ended with %q", outcome)
	}
}

// In IPv6 ranges wider than a /64, two addresses that are a multiple of 2^64 apart share an offset.
func TestFaultOffsetsWrap(t *testing.T) {
	const spec = "2001:db8::/48"
	near, far := netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8:0:1::5")

	reference, _, _ := newReferenceIPs(t, spec)
	if outcome := reference.allocate(far); outcome != done || !reference.has(near) {
		t.Errorf("the reference allocates %s: %q; has %s: %v", far, outcome, near, reference.has(near))
	}

	subject := newRangekeeperIPs(t, spec, 1)
	defer subject.close()
	if outcome := subject.allocate(far); outcome != notInRange(spec) || subject.has(near) || subject.has(far) {
		t.Errorf("allocate %s ended with %q", far, outcome)
	}
	if outcome := subject.allocate(near); outcome != done || subject.has(far) {
		t.Errorf("allocate %s ended with %q", near, outcome)
	}
}

// The dry run of an address does not look whether the address is taken, and that of allocate next not
// whether the range is full.
func TestFaultDryRunOfAddressesDoesNotLook(t *testing.T) {
	const spec = "10.0.0.0/31"
	reference, _, _ := newReferenceIPs(t, spec)
	if outcome := reference.dryRunAllocateNext(); outcome != done {
		t.Errorf("the reference's dry run of allocate next in a range of no address ended with %q", outcome)
	}
	empty := newRangekeeperIPs(t, spec, 1)
	defer empty.close()
	if outcome := empty.dryRunAllocateNext(); outcome != full {
		t.Errorf("dry run of allocate next in a range of no address ended with %q", outcome)
	}

	address := netip.MustParseAddr("10.0.0.1")
	reference, _, _ = newReferenceIPs(t, "10.0.0.0/30")
	reference.allocate(address)
	if outcome := reference.dryRunAllocate(address); outcome != done {
		t.Errorf("the reference's dry run of a taken address ended with %q", outcome)
	}
	subject := newRangekeeperIPs(t, "10.0.0.0/30", 1)
	defer subject.close()
	subject.allocate(address)
	if outcome := subject.dryRunAllocate(address); outcome != allocated {
		t.Errorf("dry run of a taken address ended with %q", outcome)
	}
}

// The dry run of a port operation takes ports outside of the range, and its allocate next makes up ports
// from 32769 on.
func TestFaultDryRunOfPortsTakesAnyPort(t *testing.T) {
	const spec = "30000-30009"
	reference, _, _ := newReferencePorts(t, spec)
	if outcome := reference.dryRunAllocate(8080); outcome != done {
		t.Errorf("the reference's dry run of a port outside of the range ended with %q", outcome)
	}
	if port, _ := portallocator.StartOperation(reference.r, true).AllocateNext(); port != 32769 {
		t.Errorf("the reference's dry run of allocate next gave %d", port)
	}

	subject := newRangekeeperPorts(t, spec, 1)
	defer subject.close()
	if outcome := subject.dryRunAllocate(8080); outcome != notInRange(spec) {
		t.Errorf("dry run of a port outside of the range ended with %q", outcome)
	}
	dryRun := subject.dryRun()
	defer dryRun.Close()
	if port, err := dryRun.AllocateNext(); err != nil || port.Port() < 30000 || port.Port() > 30009 {
		t.Errorf("dry run of allocate next gave %v, %v", port, err)
	}
}

// A port operation can be rolled back after its end, and then takes the port from its owner.
func TestFaultOperationRollsBackTwice(t *testing.T) {
	const spec, port = "30000-30009", 30003
	reference, _, _ := newReferencePorts(t, spec)
	operation := portallocator.StartOperation(reference.r, false)
	noError(t, operation.Allocate(port))
	operation.Rollback()
	noError(t, reference.r.Allocate(port)) // by someone else
	operation.Finish()
	if reference.has(port) {
		t.Error("the reference leaves the port to its new owner")
	}
}

// An IPv4-mapped /96 has no address where it is written as 0.0.0.0/0, but 4,294,967,294 where it is not,
// though both are stored as the same text.
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
			t.Errorf("the reference finds %d addresses in %s", r.Free(), input)
		}
		if r.Has(net.IPv4(10, 0, 0, 1)) {
			t.Errorf("the reference finds an address in use in %s", input)
		}
		ours, err := rangekeeper.ParseCIDR(input)
		noError(t, err)
		if ours.String() != "0.0.0.0/0" || ours.Size() != 0 {
			t.Errorf("%s is %s with %d addresses", input, ours, ours.Size())
		}
	}
}
