package clusterstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
)

// ReadSnapshotFile reads the state from an etcd snapshot file, plain or
// gzip-compressed, at its newest revision. The file is never written to. Errors
// name the file and, where it is about one, the key.
func ReadSnapshotFile(ctx context.Context, path string, o Options) (*State, error) {
	p := o.prefixes()
	h := &history{prefixes: p, others: map[string]*mvccpb.KeyValue{}, damaged: map[string]error{}}
	content, err := snapshotfile.Read(ctx, path, snapshotfile.Options{SkipHashCheck: o.SkipHashCheck, Progress: o.Progress}, p.wanted(), h.see)
	if err != nil {
		return nil, err
	}
	s, err := h.state()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Revision = content.Revision
	if s.Bootstrap != nil {
		s.Bootstrap.setGranted(content.Leases)
	}
	return s, nil
}

// history makes a state of all changes that a snapshot has, in the order of revisions. Each Service and each IPAddress
// object is decoded where it lies, whether or not the change is the newest one of its key: to read it there later would
// take as long again, and the file need not fit into memory.
type history struct {
	prefixes            prefixes
	services, addresses changes
	// others are the newest states of other keys, which are few; damaged says what is wrong with those that cannot be
	// decoded.
	others  map[string]*mvccpb.KeyValue
	damaged map[string]error
	records recorder
}

// see takes a change.
func (h *history) see(r *snapshotfile.Revision) error {
	p := &h.prefixes
	if name, ok := bytes.CutPrefix(r.Key, []byte(p.services)); ok {
		h.services.add(name, r, func(dst []byte) ([]byte, error) {
			return h.records.service(dst, string(name), r.Value, r.CreateRevision)
		})
		if !p.isServerService(r.Key) {
			return nil
		}
	} else if name, ok := bytes.CutPrefix(r.Key, []byte(p.ipAddresses)); ok {
		h.addresses.add(name, r, func(dst []byte) ([]byte, error) {
			return h.records.ipAddress(dst, string(name), r.Value, r.ModRevision)
		})
		return nil
	}
	key := string(r.Key)
	delete(h.damaged, key)
	switch {
	case r.IsDeletion:
		delete(h.others, key)
	case r.Damage != nil:
		delete(h.others, key)
		h.damaged[key] = r.Damage
	default:
		kept := h.others[key]
		if kept == nil {
			kept = new(mvccpb.KeyValue)
			h.others[key] = kept
		}
		kept.Key, kept.Value = append(kept.Key[:0], r.Key...), append(kept.Value[:0], r.Value...)
		kept.CreateRevision, kept.ModRevision, kept.Version, kept.Lease = r.CreateRevision, r.ModRevision, r.Version, r.Lease
	}
	return nil
}

// state returns the state at the newest revision. The error is about a part of the file that is damaged.
func (h *history) state() (*State, error) {
	s := h.prefixes.state()
	list := func(all *changes, prefix string, k kind, add func(record []byte)) {
		for name, c := range all.newest() {
			if c.outcome == isRecord {
				add(c.content)
				continue
			}
			switch name := string(name); c.outcome {
			case isUnreadable:
				s.addUnreadable(k, prefix, name, errors.New(string(c.content)))
			case isEncrypted:
				s.addUnreadable(k, prefix, name, &EncryptedError{string(c.content)})
			case isDamaged:
				h.damaged[prefix+name] = errors.New(string(c.content))
			}
		}
		*all = changes{}
	}
	list(&h.addresses, h.prefixes.ipAddresses, ipAddressKind, s.IPAddresses.Add)
	list(&h.services, h.prefixes.services, serviceKind, s.Services.Add)
	for _, key := range slices.Sorted(maps.Keys(h.others)) {
		if kv := h.others[key]; h.prefixes.isServerService(kv.Key) {
			s.addServerService(&h.prefixes, kv)
		} else {
			s.add(h.prefixes, kv)
		}
	}
	if len(h.damaged) > 0 {
		return nil, h.damaged[slices.Min(slices.Collect(maps.Keys(h.damaged)))]
	}
	slices.SortStableFunc(s.Unreadable, compareKeys)
	return s, nil
}
