package main

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

func ourCIDR(cidr string) rangekeeper.Range {
	r, err := rangekeeper.ParseCIDR(cidr)
	must(err)
	return r
}

// ourAllocator returns Rangekeeper's allocator with the reference's strategy, restored from a snapshot.
func ourAllocator(r rangekeeper.Range, snapshot []byte) *rangekeeper.Allocator {
	a, err := rangekeeper.NewAllocator(r, rangekeeper.DynamicBandFirst, random().Uint64())
	must(err)
	must(a.Restore(r.String(), snapshot))
	return a
}

func ourAllocateNext(r rangekeeper.Range, snapshot []byte) side {
	a := ourAllocator(r, snapshot)
	return func(n int) {
		for range n {
			value, err := a.AllocateNext()
			must(err)
			_, err = a.Release(value)
			must(err)
		}
	}
}

func ourAllocate(cidr string, snapshot []byte, free []netip.Addr) side {
	a := ourAllocator(ourCIDR(cidr), snapshot)
	return func(n int) {
		for i := range n {
			address := rangekeeper.AddrValue(free[i&(addressesPerWork-1)])
			must(a.Allocate(address))
			_, err := a.Release(address)
			must(err)
		}
	}
}

func ourHas(cidr string, snapshot []byte, addresses []netip.Addr) side {
	a := ourAllocator(ourCIDR(cidr), snapshot)
	return func(n int) {
		for i := range n {
			sink += toInt(a.Has(rangekeeper.AddrValue(addresses[i&(addressesPerWork-1)])))
		}
	}
}

// ourSnapshot writes each snapshot into the same buffer.
func ourSnapshot(cidr string, snapshot []byte) side {
	a := ourAllocator(ourCIDR(cidr), snapshot)
	var buffer []byte
	return func(n int) {
		for range n {
			var err error
			buffer, err = a.Snapshot(buffer)
			must(err)
		}
		mustEqual(buffer, snapshot)
	}
}

func ourRestore(cidr string, snapshot []byte) side {
	a := ourAllocator(ourCIDR(cidr), nil)
	return func(n int) {
		for range n {
			must(a.Restore(cidr, snapshot))
		}
	}
}

func ourForEach(cidr string, snapshot []byte) side {
	a := ourAllocator(ourCIDR(cidr), snapshot)
	return func(n int) {
		for range n {
			for range a.All() {
				sink++
			}
		}
	}
}

func ourNodePorts(snapshot []byte) side {
	r, err := rangekeeper.ParsePortRange(nodePorts)
	must(err)
	return ourAllocateNext(r, snapshot)
}

// ourRepair runs repair passes, each from the list of Services to the new snapshot. It keeps the leak counters between
// passes like a server.
func ourRepair(c cluster) side {
	configured := ourCIDR(cidr12)
	passes, err := rangekeeper.NewLeakTracker(3, 3*time.Minute)
	must(err)
	var snapshot []byte
	return func(n int) {
		for range n {
			pass, err := passes.NewAudit()
			must(err)
			_, err = pass.AddBitmap(configured, rangekeeper.Stored{Range: cidr12, Data: c.snapshot})
			must(err)
			must(pass.ObserveAll(len(c.services), func(batch *rangekeeper.Services, from, to int) {
				fill(batch, c.services[from:to])
			}))
			outcome, err := pass.Finish()
			must(err)
			snapshot, err = outcome.Snapshot(0, rangekeeper.ValuesNext, snapshot)
			must(err)
			must(outcome.Close())
			mustEqual(snapshot, c.snapshot)
		}
	}
}

// fill adds Services to a batch. A decoded Service has more than a kilobyte, so reading one misses the caches. A loop
// that does nothing else lets the processor overlap these misses.
func fill(batch *rangekeeper.Services, services []corev1.Service) {
	const together = 64
	var clusterIP [together]string
	var clusterIPs [together][]string
	for chunk := range slices.Chunk(services, together) {
		for i := range chunk {
			spec := &chunk[i].Spec
			clusterIP[i], clusterIPs[i] = spec.ClusterIP, spec.ClusterIPs
		}
		for i := range chunk {
			batch.Add(clusterIP[i], clusterIPs[i])
		}
	}
}
