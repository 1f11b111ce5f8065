package storage

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/rangekeeper/rangekeeper/controlplane/repaircontroller"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// opened has all open *Etcd.
var opened sync.Map

// FreeAddress frees an address in the stored range that has it, if this server has such a range. It does nothing, and
// returns an error, if a Service uses the address. It is for an address that no Service which is being created can
// have.
func FreeAddress(ctx context.Context, address netip.Addr) error {
	value := rangekeeper.AddrValue(address)
	services := repaircontroller.ListStored(nil)
	for key := range opened.Range {
		e := key.(*Etcd)
		services = e.ListServices
		if of, ok := e.backend.(*committed); ok {
			if _, in := of.values.Range().OffsetOf(value); in {
				return repaircontroller.Free(ctx, of.values, services, value)
			}
		}
	}
	if services == nil {
		return errors.New("no range is open")
	}
	return repaircontroller.CheckUnused(ctx, services, 0, value)
}
