package upstream

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// cidrs are the address ranges of the games. Small ones are frequent, as random operations fill and empty them. The
// reference's offsets wrap at 2^64 in 2001:db8::/48: see strayAddress and TestFaultOffsetsWrap.
var cidrs = []string{
	"10.0.0.0/27", "10.0.0.0/27", "10.0.0.0/28", "10.0.0.0/28", "10.0.0.0/29", "10.0.0.0/30", "10.0.0.0/31", "10.0.0.0/32",
	"10.0.0.0/26", "10.0.0.64/26", "10.0.0.0/25", "192.168.7.0/24", "192.168.6.0/23", "10.96.0.0/16", "10.96.0.0/12", "0.0.0.0/0", "255.255.255.224/27", "0.0.0.0/28",
	"2001:db8::/123", "2001:db8::/123", "2001:db8::/124", "2001:db8::/125", "2001:db8::/126", "2001:db8::/127", "2001:db8::/128", "2001:db8::/122", "fd00::40/122", "2001:db8::/119",
	"fd00:10:96::/112", "2001:db8::/108", "2001:db8::/64", "2001:db8::/48", "::/1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffe0/123",
}

var portRanges = []string{
	"30000-30020", "30000-30020", "30000-30016", "30000-30015", "1-10", "0-16", "65519-65535", "80-80", "0-0", "65535-65535", "30000-30063", "31000-31543", "30000-32767", "0-65535",
}

func playAddresses(t *testing.T, r *rand.Rand) int {
	spec := cidrs[r.IntN(len(cidrs))]
	reference, size, band := newReferenceIPs(t, spec)
	prefix := netip.MustParsePrefix(spec)
	at := func(offset int) netip.Addr { return add(prefix.Addr(), int64(offset)+1) }
	other := "10.0.0.0/20"
	if r.IntN(2) == 0 {
		other = netip.PrefixFrom(prefix.Addr(), max(prefix.Bits()-1, 5)).Masked().String()
	}
	if other == spec {
		other = "2001:db8::/90"
	}
	g := &game[netip.Addr]{t: t, rand: r, reference: reference, rangekeeper: newRangekeeperIPs(t, spec, r.Uint64()), layout: layout[netip.Addr]{
		spec: spec, otherSpec: other, size: size, band: band, at: at,
		stray: func(r *rand.Rand) netip.Addr { return strayAddress(r, prefix, size, at) },
	}}
	return g.play()
}

// strayAddress returns an address at an edge of the range, past its tracked part, IPv4-mapped, or of the other family.
// It returns none that is 2^64 or more above the base, where the reference's offsets wrap.
func strayAddress(r *rand.Rand, prefix netip.Prefix, size int, at func(int) netip.Addr) netip.Addr {
	switch r.IntN(8) {
	case 0:
		return prefix.Addr()
	case 1:
		return at(-2)
	case 2:
		return at(size)
	case 3:
		return at(size + 1 + r.IntN(100))
	case 4:
		return netip.MustParseAddr("::ffff:10.0.0.5")
	case 5:
		return netip.MustParseAddr([]string{"172.16.0.1", "0.0.0.0", "255.255.255.255", "127.0.0.1"}[r.IntN(4)])
	case 6:
		return netip.MustParseAddr([]string{"fe80::1", "::", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::a00:5"}[r.IntN(5)])
	default:
		return add(prefix.Addr(), r.Int64N(1<<40))
	}
}

// add returns the address at a distance above another one; it wraps at the end of the address space.
func add(address netip.Addr, distance int64) netip.Addr {
	bytes := address.AsSlice()
	sum := new(big.Int).SetBytes(bytes)
	sum.Add(sum, big.NewInt(distance))
	sum.Mod(sum, new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))))
	result, _ := netip.AddrFromSlice(sum.FillBytes(bytes))
	return result
}

type referenceIPs struct {
	t *testing.T
	r *ipallocator.Range
}

func newReferenceIPs(t *testing.T, cidr string) (subject *referenceIPs, size, band int) {
	subject = &referenceIPs{t: t}
	var err error
	subject.r, err = ipallocator.New(parseCIDR(t, cidr), func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
		size, band = max, offset
		return allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return subject, size, band
}

func parseCIDR(t *testing.T, cidr string) *net.IPNet {
	_, parsed, err := net.ParseCIDR(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func (s *referenceIPs) allocate(ip netip.Addr) outcome { return ipOutcome(s.t, s.r.Allocate(toIP(ip))) }

func (s *referenceIPs) allocateNext() (netip.Addr, outcome) {
	ip, err := s.r.AllocateNext()
	return toAddr(ip), ipOutcome(s.t, err)
}

func (s *referenceIPs) release(ip netip.Addr) { noError(s.t, s.r.Release(toIP(ip))) }

func (s *referenceIPs) has(ip netip.Addr) bool { return s.r.Has(toIP(ip)) }

func (s *referenceIPs) free() int { return s.r.Free() }

func (s *referenceIPs) used() int { return s.r.Used() }

func (s *referenceIPs) all() []netip.Addr {
	var all []netip.Addr
	s.r.ForEach(func(ip net.IP) { all = append(all, toAddr(ip)) })
	return all
}

func (s *referenceIPs) snapshot() (string, []byte) {
	var stored api.RangeAllocation
	noError(s.t, s.r.Snapshot(&stored))
	return stored.Range, stored.Data
}

func (s *referenceIPs) restore(spec string, data []byte) outcome {
	return ipOutcome(s.t, s.r.Restore(parseCIDR(s.t, spec), data))
}

func (s *referenceIPs) dryRunAllocate(ip netip.Addr) outcome {
	return ipOutcome(s.t, s.r.DryRun().Allocate(toIP(ip)))
}

func (s *referenceIPs) dryRunAllocateNext() outcome {
	_, err := s.r.DryRun().AllocateNext()
	return ipOutcome(s.t, err)
}

func (s *referenceIPs) dryRunRelease(ip netip.Addr) {
	noError(s.t, s.r.DryRun().Release(toIP(ip)))
}

func (s *referenceIPs) close() {}

func toIP(address netip.Addr) net.IP { return net.IP(address.AsSlice()) }

// toAddr converts an address. net.IP may hold an IPv4 address in 16 bytes.
func toAddr(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}

func ipOutcome(t *testing.T, err error) outcome {
	var outside *ipallocator.ErrNotInRange
	switch {
	case err == nil:
		return done
	case errors.Is(err, ipallocator.ErrFull):
		return full
	case errors.Is(err, ipallocator.ErrAllocated):
		return allocated
	case errors.Is(err, ipallocator.ErrMismatchedNetwork):
		return mismatched
	case errors.As(err, &outside):
		return notInRange(outside.ValidRange)
	}
	t.Fatalf("the reference returned an unknown error: %v", err)
	return ""
}

func playPorts(t *testing.T, r *rand.Rand) int {
	spec := portRanges[r.IntN(len(portRanges))]
	reference, size, band := newReferencePorts(t, spec)
	low := reference.ports.Base
	g := &game[int]{t: t, rand: r, reference: reference, rangekeeper: newRangekeeperPorts(t, spec, r.Uint64()), layout: layout[int]{
		spec: spec, otherSpec: fmt.Sprintf("%d-%d", low, low+size), size: size, band: band,
		at: func(offset int) int { return low + offset },
		stray: func(r *rand.Rand) int {
			return []int{0, 1, 65535, max(low-1, 0), min(low+size, 65535), r.IntN(65536)}[r.IntN(6)]
		},
	}}
	if low+size > 65535 {
		g.layout.otherSpec = "1-2"
	}
	return g.play()
}

type referencePorts struct {
	t     *testing.T
	ports utilnet.PortRange
	r     *portallocator.PortAllocator
}

func newReferencePorts(t *testing.T, spec string) (subject *referencePorts, size, band int) {
	ports, err := utilnet.ParsePortRange(spec)
	if err != nil {
		t.Fatal(err)
	}
	subject = &referencePorts{t: t, ports: *ports}
	subject.r, err = portallocator.New(*ports, func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
		size, band = max, offset
		return allocator.NewAllocationMapWithOffset(max, rangeSpec, offset), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return subject, size, band
}

func (s *referencePorts) allocate(port int) outcome { return portOutcome(s.t, s.r.Allocate(port)) }

func (s *referencePorts) allocateNext() (int, outcome) {
	port, err := s.r.AllocateNext()
	return port, portOutcome(s.t, err)
}

func (s *referencePorts) release(port int) { noError(s.t, s.r.Release(port)) }

func (s *referencePorts) has(port int) bool { return s.r.Has(port) }

func (s *referencePorts) free() int { return s.r.Free() }

func (s *referencePorts) used() int { return s.r.Used() }

func (s *referencePorts) all() []int {
	var all []int
	s.r.ForEach(func(port int) { all = append(all, port) })
	return all
}

func (s *referencePorts) snapshot() (string, []byte) {
	var stored api.RangeAllocation
	noError(s.t, s.r.Snapshot(&stored))
	return stored.Range, stored.Data
}

func (s *referencePorts) restore(spec string, data []byte) outcome {
	ports, err := utilnet.ParsePortRange(spec)
	noError(s.t, err)
	return portOutcome(s.t, s.r.Restore(*ports, data))
}

// The reference has dry runs of port operations only. These operations have one step.

func (s *referencePorts) dryRunAllocate(port int) outcome {
	return portOutcome(s.t, portallocator.StartOperation(s.r, true).Allocate(port))
}

func (s *referencePorts) dryRunAllocateNext() outcome {
	_, err := portallocator.StartOperation(s.r, true).AllocateNext()
	return portOutcome(s.t, err)
}

func (s *referencePorts) dryRunRelease(port int) {
	operation := portallocator.StartOperation(s.r, true)
	operation.ReleaseDeferred(port)
	operation.Commit()
}

func (s *referencePorts) close() {}

func portOutcome(t *testing.T, err error) outcome {
	var outside *portallocator.ErrNotInRange
	switch {
	case err == nil:
		return done
	case errors.Is(err, portallocator.ErrFull):
		return full
	case errors.Is(err, portallocator.ErrAllocated):
		return allocated
	case errors.Is(err, portallocator.ErrMismatchedNetwork):
		return mismatched
	case errors.As(err, &outside):
		return notInRange(outside.ValidPorts)
	}
	t.Fatalf("the reference returned an unknown error: %v", err)
	return ""
}

func noError(t *testing.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
