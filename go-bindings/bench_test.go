package rangekeeper

import (
	"errors"
	"net/netip"
	"testing"
)

// must stops a test or benchmark in which a step fails that is not its subject.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// ip is the Value of an address, which need not be valid.
func ip(text string) Value {
	addr, _ := netip.ParseAddr(text)
	return AddrValue(addr)
}

func ports(numbers ...uint16) []Value {
	all := make([]Value, len(numbers))
	for i, number := range numbers {
		all[i] = PortValue(number)
	}
	return all
}

// halfFull returns an allocator in which every second value is in use.
func halfFull(tb testing.TB, cidr string) *Allocator {
	tb.Helper()
	a := must(NewAllocator(must(ParseCIDR(cidr)), RandomScan, 1))
	data := make([]byte, (a.Range().Size()+7)/8)
	for i := range data {
		data[i] = 0x55
	}
	data[0] &= 1<<(1+(a.Range().Size()-1)%8) - 1
	if err := a.Restore(cidr, data); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { a.Close() })
	return a
}

func BenchmarkAllocateNextRelease(b *testing.B) {
	benchmarkAllocateNextRelease(b, halfFull(b, "10.96.0.0/12"))
}

func BenchmarkAllocateNextReleasePort(b *testing.B) {
	a := must(NewAllocator(must(ParsePortRange("30000-32767")), DynamicBandFirst, 1))
	defer a.Close()
	benchmarkAllocateNextRelease(b, a)
}

func benchmarkAllocateNextRelease(b *testing.B, a *Allocator) {
	b.ReportAllocs()
	for b.Loop() {
		value, err := a.AllocateNext()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := a.Release(value); err != nil {
			b.Fatal(err)
		}
	}
}

// Each goroutine has an allocator of its own.
func BenchmarkAllocateNextReleaseParallel(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		a := must(NewAllocator(must(ParseCIDR("10.96.0.0/16")), RandomScan, 1))
		defer a.Close()
		for pb.Next() {
			must(a.Release(must(a.AllocateNext())))
		}
	})
}

func BenchmarkAllocateRelease(b *testing.B) {
	a := halfFull(b, "10.96.0.0/12")
	value, _ := a.Range().ValueAt(1001)
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Allocate(value); err != nil {
			b.Fatal(err)
		}
		if _, err := a.Release(value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHas(b *testing.B) {
	a := halfFull(b, "10.96.0.0/12")
	value, _ := a.Range().ValueAt(1000)
	b.ReportAllocs()
	for b.Loop() {
		if !a.Has(value) {
			b.Fatal(value)
		}
	}
}

func BenchmarkAlreadyAllocated(b *testing.B) {
	a := halfFull(b, "10.96.0.0/12")
	value, _ := a.Range().ValueAt(1000)
	b.ReportAllocs()
	for b.Loop() {
		if !errors.Is(a.Allocate(value), ErrAlreadyAllocated) {
			b.Fatal("allocated twice")
		}
	}
}

func BenchmarkAll(b *testing.B) {
	a := halfFull(b, "10.96.0.0/12")
	want := a.Used()
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range a.All() {
			n++
		}
		if n != want {
			b.Fatal(n)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	a := halfFull(b, "10.96.0.0/12")
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = must(a.Snapshot(buffer))
	}
	b.SetBytes(int64(len(buffer)))
}

func BenchmarkRestore(b *testing.B) {
	a := halfFull(b, "10.96.0.0/12")
	data := must(a.Snapshot(nil))
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Restore("10.96.0.0/12", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkServicesAdd(b *testing.B) {
	var services Services
	ips := []string{"10.101.102.103"}
	add := func() {
		if services.Len() == 4096 {
			services.Reset()
		}
		services.Add(ips[0], ips)
	}
	for range 4097 {
		add()
	}
	b.ReportAllocs()
	for b.Loop() {
		add()
	}
}

// serviceIPs returns the addresses of so many Services in 10.96.0.0/12.
func serviceIPs(n int) [][]string {
	r := must(ParseCIDR("10.96.0.0/12"))
	all := make([][]string, n)
	for i := range all {
		addr, _ := r.ValueAt(uint32(i * 7))
		all[i] = []string{addr.String()}
	}
	return all
}

func BenchmarkAudit65000(b *testing.B) {
	work := auditing(b, 65000)
	b.ReportAllocs()
	for b.Loop() {
		work()
	}
}

// auditing returns a function that audits a half full range of so many Services.
func auditing(b *testing.B, services int) func() {
	ips := serviceIPs(services)
	r := must(ParseCIDR("10.96.0.0/12"))
	stored := Stored{Range: r.String(), Data: must(halfFull(b, "10.96.0.0/12").Snapshot(nil))}
	var batch Services
	var buffer []byte
	return func() {
		pass := must(NewAudit())
		must(pass.AddBitmap(r, stored))
		for _, own := range ips {
			batch.Add(own[0], own)
			if batch.Len() == 4096 {
				must(0, pass.Observe(&batch))
				batch.Reset()
			}
		}
		must(0, pass.Observe(&batch))
		batch.Reset()
		outcome := must(pass.Finish())
		buffer = must(outcome.Snapshot(0, ValuesNext, buffer))
		outcome.Close()
	}
}
