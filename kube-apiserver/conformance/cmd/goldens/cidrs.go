package main

import (
	"fmt"
	"math/big"
	"net"

	"k8s.io/kubernetes/pkg/registry/core/service/allocator"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	netutils "k8s.io/utils/net"
)

// cidrRow is the reference's answer for one text. The fields after Accepted are set only if it is accepted.
type cidrRow struct {
	Input    string `json:"input"`
	Accepted bool   `json:"accepted"`
	// Canonical is the text stored as the range of a RangeAllocation.
	Canonical string `json:"canonical,omitempty"`
	Family    string `json:"family,omitempty"`
	// Size is the number of allocatable addresses; offsets are 0 to Size-1.
	Size *int `json:"size,omitempty"`
	// StaticBand is the offset at which the dynamic band starts.
	StaticBand *int `json:"static_band,omitempty"`
	// First and Last are the addresses of offsets 0 and Size-1; absent when Size is 0.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	// WrapsAt64 marks a range in which the reference has one offset for addresses 2^64 apart.
	WrapsAt64 bool       `json:"wraps_at_64,omitempty"`
	Probes    []ipOffset `json:"probes,omitempty"`
}

// ipOffset is an address and its offset, null if the reference reports that it is not in range.
type ipOffset struct {
	IP     string `json:"ip"`
	Offset *int   `json:"offset"`
}

// probe replaces the bitmap of the reference's range and records its calls: they show size, static band and offsets
// without filling a bitmap.
type probe struct {
	size, band int
	// asked is the offset of the last Allocate; next is the result of AllocateNext.
	asked, next int
}

func (p *probe) Allocate(offset int) (bool, error) { p.asked = offset; return true, nil }
func (p *probe) AllocateNext() (int, bool, error)  { return p.next, true, nil }
func (p *probe) Release(int) error                 { return nil }
func (p *probe) ForEach(func(int))                 {}
func (p *probe) Has(int) bool                      { return false }
func (p *probe) Free() int                         { return p.size }
func (p *probe) Destroy()                          {}

func cidrRows() ([]any, error) {
	var rows []any
	for _, input := range cidrInputs() {
		row, err := cidrVerdict(input)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", input, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func cidrVerdict(input string) (*cidrRow, error) {
	row := &cidrRow{Input: input}
	_, cidr, err := netutils.ParseCIDRSloppy(input)
	if err != nil {
		return row, nil
	}
	p := &probe{}
	r, err := ipallocator.New(cidr, func(max int, rangeSpec string, offset int) (allocator.Interface, error) {
		p.size, p.band = max, offset
		row.Canonical = rangeSpec
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	row.Accepted = true
	row.Family = string(r.IPFamily())
	row.Size, row.StaticBand = &p.size, &p.band
	ones, bits := cidr.Mask.Size()
	row.WrapsAt64 = bits == 128 && ones < 64 && p.size > 0
	if p.size > 0 {
		if row.First, err = addressAt(r, p, 0); err != nil {
			return nil, err
		}
		if row.Last, err = addressAt(r, p, p.size-1); err != nil {
			return nil, err
		}
	}
	for _, ip := range probesOf(cidr, p.size) {
		row.Probes = append(row.Probes, ipOffset{IP: ip.String(), Offset: offsetOf(r, p, ip)})
	}
	return row, nil
}

func addressAt(r *ipallocator.Range, p *probe, offset int) (string, error) {
	p.next = offset
	ip, err := r.AllocateNext()
	return ip.String(), err
}

func offsetOf(r *ipallocator.Range, p *probe, ip net.IP) *int {
	if err := r.Allocate(ip); err != nil {
		return nil
	}
	offset := p.asked
	return &offset
}

// probesOf returns addresses inside and outside of both ends of the CIDR and of its tracked part.
func probesOf(cidr *net.IPNet, size int) []net.IP {
	ones, bits := cidr.Mask.Size()
	base := new(big.Int).SetBytes(cidr.IP)
	count := new(big.Int).Lsh(big.NewInt(1), uint(bits-ones))
	limit := new(big.Int).Lsh(big.NewInt(1), uint(8*len(cidr.IP)))

	relative := []*big.Int{
		big.NewInt(-1),
		big.NewInt(0),
		big.NewInt(1),
		new(big.Int).Rsh(count, 1),
		new(big.Int).Sub(count, big.NewInt(2)),
		new(big.Int).Sub(count, big.NewInt(1)),
		count,
		big.NewInt(int64(size)),
		big.NewInt(int64(size) + 1),
	}
	if bits == 128 && ones <= 64 {
		wrap := new(big.Int).Lsh(big.NewInt(1), 64)
		relative = append(relative, new(big.Int).Add(wrap, big.NewInt(5)), new(big.Int).Sub(wrap, big.NewInt(5)))
	}

	var probes []net.IP
	seen := map[string]bool{}
	for _, distance := range relative {
		at := new(big.Int).Add(base, distance)
		if at.Sign() < 0 || at.Cmp(limit) >= 0 {
			continue
		}
		ip := net.IP(at.FillBytes(make([]byte, len(cidr.IP))))
		if !seen[ip.String()] {
			seen[ip.String()] = true
			probes = append(probes, ip)
		}
	}
	return probes
}

func cidrInputs() []string {
	var inputs []string
	// Every IPv4 length, and the IPv6 lengths around the reference's limits.
	for ones := 0; ones <= 32; ones++ {
		inputs = append(inputs, fmt.Sprintf("10.0.0.0/%d", ones))
	}
	for _, ones := range []int{0, 1, 2, 3, 32, 48, 56, 63, 64, 65, 66, 80, 96, 107, 108, 109, 111, 112, 113, 119, 120, 122, 123, 124, 125, 126, 127, 128} {
		inputs = append(inputs, fmt.Sprintf("2001:db8::/%d", ones))
	}
	return append(inputs,
		// Ranges that clusters use.
		"10.96.0.0/12", "10.96.0.0/16", "10.43.0.0/16", "172.30.0.0/16", "192.168.0.0/24", "34.118.224.0/20",
		"fd00::/108", "fd00:10:96::/112", "fd98:76::/120", "2001:db8:1234:5600::/56", "fd00::/8",
		// Ends of the address space.
		"0.0.0.0/0", "0.0.0.0/8", "128.0.0.0/1", "255.255.255.0/24", "255.255.255.255/32", "255.255.255.254/31", "0.0.0.0/32",
		"::/0", "::/1", "8000::/1", "::/64", "::/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "ffff:ffff:ffff:ffff::/64", "ffff:ffff:ffff::/48",
		// Bits set below the prefix.
		"10.96.0.1/12", "10.111.255.255/12", "192.168.7.9/30", "2001:db8::1/112", "2001:DB8::ABCD:1/112", "fd00::ffff:ffff/108",
		// Leading zeros are decimal; only the address may have them.
		"010.096.000.000/12", "10.08.09.0/24", "0010.0.0.0/8", "192.168.001.000/24", "00000000000010.0.0.0/8", "10.0.0.0/08", "10.0.0.0/024",
		"2001:0db8::/32", "2001:db8:0000::/48", "2001:00db8::/48", "10.0.0.0/00", "fd00::/0112",
		// IPv4-mapped and other mixed forms.
		"::ffff:10.0.0.0/104", "::ffff:10.0.0.0/96", "::ffff:10.0.0.0/95", "::ffff:10.0.0.0/120", "::ffff:10.0.0.0/128",
		"::ffff:10.0.0.0/8", "::ffff:0a00:0000/112", "::10.0.0.0/104", "64:ff9b::10.0.0.0/96", "::ffff:10.0.0.0/12", "::FFFF:10.0.0.7/125", "::ffff:010.0.0.0/112",
		// Malformed.
		"", "/", "10.0.0.0", "10.0.0.0/", "/12", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/1e1", "10.0.0.0/8/8", "10.0.0/8", "10/8",
		"10.0.0.0.0/8", "256.0.0.0/8", "10.0.0.-1/8", "10..0.0/8", ".10.0.0.0/8", "10.0.0.0./8", "1O.0.0.0/8", "0x0a.0.0.0/8", "167772160/8",
		" 10.0.0.0/8", "10.0.0.0/8 ", "10.0.0.0 /8", "10.0.0.0/ 8", "\t10.0.0.0/8", "10.0.0.0/8\n", "10.0.0.0/255.0.0.0", "10.0.0.0\\8",
		"10.0.0.0/4294967304", "10.0.0.0/99999999999999999999", "10.0.0.0/0x8", "10.0.0.0/8.0", "10.0.0.0/８", "999999999999.0.0.0/8",
		"2001:db8::/129", "2001:db8::/-1", "2001:db8::/", "2001:db8::", "2001:db8::1::/64", "2001:db8:1:2:3:4:5:6:7/64", "2001:db8:1:2:3:4:5/64",
		":/64", ":::/64", "1::2::3/64", "g::/64", "12345::/64", "fe80::%eth0/64", "[2001:db8::]/64", "2001:db8:/64", ":2001:db8::/64", "2001:db8::/64%eth0",
		"::ffff:10.0.0/104", "::ffff:10.0.0.256/104", "10.0.0.0:/8", "1:2:3:4:5:6:7:8/64", "1:2:3:4:5:6:7::/112", "::2:3:4:5:6:7:8/112", "1:2:3:4:5:6:7:8::/112",
		"1:2:3:4:5:6:1.2.3.4/112", "1:2:3:4:5:6:7:1.2.3.4/112", "None", "localhost/8", "10.0.0.0-10.255.255.255", "30000-32767",
	)
}
