package audit

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// Server is one address of an API server: it has a lease, or stands in the endpoints of the Service kubernetes.
type Server struct {
	Address string `json:"address"`
	// Lease is nil if there is none, or if LeaseUnseen says that the source does not show leases.
	Lease       *ServerLease `json:"lease"`
	LeaseUnseen bool         `json:"-"`
	// InEndpoints says whether the Endpoints have it as ready, nil if the source does not show them.
	InEndpoints *bool `json:"inEndpoints"`
	// Slices are the names of the EndpointSlices of the Service that have it.
	Slices []string `json:"slices"`
}

// ServerLease is the lease of an API server, by which its address is in the endpoints of the Service kubernetes.
type ServerLease struct {
	Key string `json:"key"`
	// ModRevision is the revision of its last write.
	ModRevision int64 `json:"modRevision"`
	// EtcdLease says whether etcd has the lease of the key. A key without one never expires.
	EtcdLease clusterstate.EtcdLeaseState `json:"etcdLease"`
	// TTLSeconds is the time to live that etcd has granted, LeftSeconds what is left of it in a running etcd; 0 if
	// it is not known.
	TTLSeconds  int64 `json:"ttlSeconds,omitempty"`
	LeftSeconds int64 `json:"leftSeconds,omitempty"`
}

// leaseName returns what the key of a lease has below masterleases/: the address of its server.
func leaseName(key string) string {
	_, name, _ := strings.Cut(key, "/masterleases/")
	return name
}

// serversOf returns the addresses of leases and endpoints.
func serversOf(b *clusterstate.Bootstrap) []Server {
	var all []Server
	index := map[string]int{} // by canonical address
	at := func(address string) *Server {
		canonical := address
		if value, err := netip.ParseAddr(address); err == nil {
			canonical = value.String()
		}
		i, ok := index[canonical]
		if !ok {
			i, all = len(all), append(all, Server{Address: address, LeaseUnseen: b.LeasesUnseen != "", Slices: []string{}})
			index[canonical] = i
		}
		return &all[i]
	}
	for _, l := range b.Leases {
		at(leaseName(l.Key)).Lease = &ServerLease{
			Key: l.Key, ModRevision: l.ModRevision, EtcdLease: l.State, TTLSeconds: int64(l.TTL.Seconds()), LeftSeconds: int64(l.Left.Seconds()),
		}
	}
	if b.ObjectsUnseen == "" {
		if b.Endpoints != nil {
			for _, subset := range b.Endpoints.Subsets {
				for _, address := range subset.Addresses {
					at(address.IP).InEndpoints = new(true)
				}
			}
		}
		for _, slice := range b.Slices {
			for _, endpoint := range slice.Endpoints {
				for _, address := range endpoint.Addresses {
					if s := at(address); !slices.Contains(s.Slices, slice.Name) {
						s.Slices = append(s.Slices, slice.Name)
					}
				}
			}
		}
		for i := range all {
			if all[i].InEndpoints == nil {
				all[i].InEndpoints = new(false)
			}
		}
	}
	slices.SortFunc(all, func(a, b Server) int { return CompareValues(a.Address, b.Address) })
	return all
}

// KubernetesService returns all about the Service kubernetes that no value of it has: the addresses of servers, the
// findings about the objects of the bootstrap controllers, and what of them the source does not show.
func (a *Audit) KubernetesService() ([]Server, []Finding, []Unknown) {
	unknown := slices.DeleteFunc(slices.Clone(a.report.Unknown), func(u Unknown) bool { return !u.IsOfBootstrap() })
	return a.report.Servers, a.ofBootstrap, unknown
}
