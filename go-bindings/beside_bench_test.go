package rangekeeper

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// besides are what another goroutine does all the time, with objects of its own.
var besides = []struct {
	name string
	work func(b *testing.B) func()
}{
	{"nothing", func(*testing.B) func() { return func() { time.Sleep(time.Millisecond) } }},
	{"repair passes over 65,000 Services", func(b *testing.B) func() { return auditing(b, 65000) }},
	{"restores of a 12", func(b *testing.B) func() {
		a := halfFull(b, "10.96.0.0/12")
		data := must(a.Snapshot(nil))
		return func() { must(0, a.Restore("10.96.0.0/12", data)) }
	}},
	{"index lists of 200,000", func(b *testing.B) func() {
		index := must(NewIndex(1))
		cidr := must(ParseServiceCIDR("10.96.0.0/12"))
		must(index.InsertCIDR(cidr))
		all := make([]netip.Addr, 200_000)
		for i := range all {
			all[i], _ = cidr.ValueAt(uint64(i) * 5)
		}
		revision := uint64(0)
		return func() {
			revision++
			if _, _, err := index.Replace(all, revision); err != nil {
				panic(err)
			}
		}
	}},
	{"allocators of a 12 that are made and closed", func(b *testing.B) func() {
		r := must(ParseCIDR("10.96.0.0/12"))
		return func() { must(0, must(NewAllocator(r, Contiguous, 0)).Close()) }
	}},
}

// BenchmarkBeside measures the latency of AllocateNext on an allocator of its own, 10,000 times a second, beside other
// work.
func BenchmarkBeside(b *testing.B) {
	for _, beside := range besides {
		b.Run(beside.name, func(b *testing.B) {
			work := beside.work(b)
			stop := make(chan struct{})
			var other sync.WaitGroup
			other.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						work()
					}
				}
			})
			defer other.Wait()
			defer close(stop)
			a := must(NewAllocator(must(ParseCIDR("10.96.0.0/12")), RandomScan, 1))
			defer a.Close()
			var all []time.Duration
			for b.Loop() {
				time.Sleep(100 * time.Microsecond)
				start := time.Now()
				value := must(a.AllocateNext())
				all = append(all, time.Since(start))
				must(a.Release(value))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2]), "p50-ns")
			b.ReportMetric(float64(all[len(all)*99/100]), "p99-ns")
			b.ReportMetric(float64(all[len(all)*999/1000]), "p99.9-ns")
			b.ReportMetric(0, "ns/op") // most of it is sleep
		})
	}
}
