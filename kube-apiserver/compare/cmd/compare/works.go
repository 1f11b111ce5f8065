package main

// works are the workloads of both sides. A name has the operation, the range, and its fill. The floor is the lowest
// accepted ratio; 0 accepts any.
var works = []struct {
	name    string
	floor   float64
	prepare func() (reference, rangekeeper side)
}{
	{"allocate_next_release/12/half", 6, func() (side, side) {
		s := halfFull(size12)
		return referenceAllocateNext(cidr12, s), ourAllocateNext(ourCIDR(cidr12), s)
	}},
	{"allocate_next_release/12/one_free", 8000, func() (side, side) {
		s := oneFree(size12)
		return referenceAllocateNext(cidr12, s), ourAllocateNext(ourCIDR(cidr12), s)
	}},
	{"allocate_next_release/16/half", 5, func() (side, side) {
		s := halfFull(size16)
		return referenceAllocateNext(cidr16, s), ourAllocateNext(ourCIDR(cidr16), s)
	}},
	{"allocate_release/12", 6, func() (side, side) {
		s := halfFull(size12)
		free := addresses(cidr12, size12, s, true)
		return referenceAllocate(cidr12, s, free), ourAllocate(cidr12, s, free)
	}},
	{"has/12", 2, func() (side, side) {
		s := halfFull(size12)
		mixed := addresses(cidr12, size12, s, false)
		return referenceHas(cidr12, s, mixed), ourHas(cidr12, s, mixed)
	}},
	{"snapshot/12", 0, func() (side, side) {
		s := halfFull(size12)
		return referenceSnapshot(cidr12, s), ourSnapshot(cidr12, s)
	}},
	{"restore/12", 0, func() (side, side) {
		s := halfFull(size12)
		return referenceRestore(cidr12, s), ourRestore(cidr12, s)
	}},
	{"for_each/12/half", 0, func() (side, side) {
		s := halfFull(size12)
		return referenceForEach(cidr12, s), ourForEach(cidr12, s)
	}},
	{"repair/65000", 0, func() (side, side) {
		c := newCluster(65_000)
		return referenceRepair(c), ourRepair(c)
	}},
	{"repair/1000000", 0, func() (side, side) {
		c := newCluster(1_000_000)
		return referenceRepair(c), ourRepair(c)
	}},
	{"nodeport/allocate_next_release", 0.9, func() (side, side) {
		s := halfFull(sizeNodePorts)
		return referenceNodePorts(s), ourNodePorts(s)
	}},
}
