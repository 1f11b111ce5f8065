package main

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ranges of the works, and their numbers of offsets.
const (
	cidr12, size12   = "10.96.0.0/12", 1<<20 - 2
	cidr16, size16   = "10.96.0.0/16", 1<<16 - 2
	nodePorts        = "30000-32767"
	sizeNodePorts    = 2768
	addressesPerWork = 1 << 14
)

// random has the same seed in every run, so that all runs compare the same states.
func random() *rand.Rand { return rand.New(rand.NewPCG(20, 26)) }

// halfFull returns a snapshot with a random half of the offsets set, the highest one among them.
func halfFull(size int) []byte {
	set := new(big.Int).SetBit(new(big.Int), size-1, 1)
	for i, offset := range random().Perm(size - 1) {
		if i == size/2-1 {
			break
		}
		set.SetBit(set, offset, 1)
	}
	return set.Bytes()
}

// oneFree returns a snapshot with all offsets set but one in the upper half.
func oneFree(size int) []byte {
	set := new(big.Int).Lsh(big.NewInt(1), uint(size))
	set.Sub(set, big.NewInt(1))
	return set.SetBit(set, size/2+size/4+1, 0).Bytes()
}

// isSet reports whether an offset is set in a snapshot.
func isSet(snapshot []byte, offset int) bool {
	at := len(snapshot) - 1 - offset/8
	return at >= 0 && snapshot[at]>>(offset%8)&1 == 1
}

// addressOf returns the address of an offset in an IPv4 CIDR.
func addressOf(cidr string, offset int) netip.Addr {
	base := netip.MustParsePrefix(cidr).Addr().As4()
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], binary.BigEndian.Uint32(base[:])+1+uint32(offset))
	return netip.AddrFrom4(ip)
}

// addresses returns random addresses of a range, or only of those that are free in the snapshot.
func addresses(cidr string, size int, snapshot []byte, onlyFree bool) []netip.Addr {
	picked := make([]netip.Addr, 0, addressesPerWork)
	for r := random(); len(picked) < addressesPerWork; {
		if offset := r.IntN(size); !onlyFree || !isSet(snapshot, offset) {
			picked = append(picked, addressOf(cidr, offset))
		}
	}
	return picked
}

// cluster is a decoded list of Services, and the snapshot of a cluster without drift.
type cluster struct {
	services []corev1.Service
	snapshot []byte
}

// newCluster returns n Services with one random ClusterIP of the /12 each.
func newCluster(count int) cluster {
	services := make([]corev1.Service, count)
	set := new(big.Int)
	for i, offset := range random().Perm(size12)[:count] {
		ip := addressOf(cidr12, offset).String()
		services[i] = corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%d", i%500), Name: fmt.Sprintf("svc-%d", i)},
			Spec: corev1.ServiceSpec{
				Type:       corev1.ServiceTypeClusterIP,
				ClusterIP:  ip,
				ClusterIPs: []string{ip},
				Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			},
		}
		set.SetBit(set, offset, 1)
	}
	return cluster{services, set.Bytes()}
}
