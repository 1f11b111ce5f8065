package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// changeTimeout is how long a change of a range is tried while other clients write.
const changeTimeout = 30 * time.Second

// errBusy: other clients wrote before each attempt of ours.
var errBusy = errors.New("the range or a Service changed during each attempt, so nothing was written; run the command again")

// errMayBeWritten: no answer says whether a write took effect.
var errMayBeWritten = errors.New("the write may have taken effect")

// errInUse: a Service uses a value.
var errInUse = errors.New("in use")

// inUseHelp says how far the commands that change a range protect the values of Services.
const inUseHelp = `The range and all Services are read at one revision, and the range is written only if
neither has changed since. A value that a Service uses is refused, with the names of the
Services; --force overrides this. Two things are not seen: a Service that a server is
creating at this moment, whose value is recorded before the Service is written, and
Services that are kept in another etcd.`

// held is a range and its users at one revision.
type held struct {
	stored clusterstate.StoredRange
	object *rangekeeper.RangeAllocation
	values rangekeeper.Range
	data   []byte
	// users are the names of the Services that use a value.
	users map[rangekeeper.Value][]string
	// hasObjects: servers keep the values as IPAddress objects, too, as those of Kubernetes 1.33 do.
	hasObjects bool
	// next is what is to be stored, "" for no change.
	next string
	// clears reports whether next frees a value.
	clears bool
}

// changeRange has decide change a range's allocator, and writes the result if neither the range nor a Service has changed
// since they were read. Otherwise it starts over.
func (s *store) changeRange(ctx context.Context, name string, decide func(*held, *rangekeeper.Allocator) error) error {
	if err := s.open(ctx, false); err != nil {
		return err
	}
	return untilWritten(s.key(name), func() (bool, error) { return s.tryChange(ctx, name, decide) })
}

// untilWritten repeats an attempt until it has written or failed, for [changeTimeout] if other clients write before each attempt. what
// names the range or the file in the error then.
func untilWritten(what string, try func() (written bool, err error)) error {
	for began := time.Now(); time.Since(began) < changeTimeout; {
		if written, err := try(); written || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", what, errBusy)
}

func (s *store) tryChange(ctx context.Context, name string, decide func(*held, *rangekeeper.Allocator) error) (written bool, err error) {
	state, err := clusterstate.ReadEtcd(ctx, s.client, clusterstate.Options{Prefix: s.prefix})
	if err == nil {
		err = state.CheckReadable()
	}
	if err != nil {
		return false, err
	}
	h, err := s.hold(ctx, state, audit.Users(state), name)
	if err != nil {
		return false, err
	}
	defer h.object.Close()
	if err := h.change(decide); err != nil {
		return false, err
	}
	revision, err := s.swap(ctx, state.Revision, h)
	return revision > 0, err
}

// hold returns a range of a state.
func (s *store) hold(ctx context.Context, state *clusterstate.State, users map[rangekeeper.Value][]string, name string) (*held, error) {
	h := &held{stored: state.Ranges[name], users: users, hasObjects: name != audit.ServiceNodePorts && len(state.ServiceCIDRs) > 0}
	var spec string
	var err error
	if h.stored.Key != "" {
		if h.object, err = rangekeeper.DecodeRangeAllocation(h.stored.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", h.stored.Key, err)
		}
		if spec, err = h.object.Range(); err != nil {
			return nil, fmt.Errorf("%s: %w", h.stored.Key, err)
		}
	}
	if spec == "" {
		return nil, s.missing(ctx, name)
	}
	if h.values, err = parseRange(name)(spec); err != nil {
		return nil, fmt.Errorf("%s: %w", h.stored.Key, err)
	}
	h.data, err = h.object.Data(nil)
	return h, err
}

// change has decide change the range in memory.
func (h *held) change(decide func(*held, *rangekeeper.Allocator) error) error {
	allocator, err := h.allocator(h.stored.Key)
	if err != nil {
		return err
	}
	defer allocator.Close()
	if err := decide(h, allocator); err != nil {
		return err
	}
	data, err := allocator.Snapshot(nil)
	if err != nil || bytes.Equal(data, h.data) {
		return err
	}
	if err := h.object.Set(h.values.String(), data); err != nil {
		return err
	}
	next, err := h.object.Encode(nil)
	before, after := new(big.Int).SetBytes(h.data), new(big.Int).SetBytes(data)
	h.next, h.clears = string(next), before.AndNot(before, after).Sign() != 0
	return err
}

// allocator returns what is stored, in memory.
func (h *held) allocator(key string) (*rangekeeper.Allocator, error) {
	a, err := rangekeeper.NewAllocator(h.values, rangekeeper.DynamicBandFirst, rand.Uint64())
	if err != nil {
		return nil, err
	}
	if err := a.Restore(h.values.String(), h.data); err != nil {
		a.Close()
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return a, nil
}

// checkInUse refuses values that Services use, except with force.
func (h *held) checkInUse(force bool, what string, values ...rangekeeper.Value) error {
	if force {
		return nil
	}
	var used []string
	for _, value := range values {
		if users := h.users[value]; len(users) > 0 {
			used = append(used, fmt.Sprintf("%s is used by %s", value, strings.Join(users, ", ")))
		}
	}
	if len(used) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: %s; nothing is %s, except with --force", h.stored.Key, errInUse, strings.Join(used, "; "), what)
}

// swap writes the ranges that change, all or none, if neither they nor a Service has changed since they were read. It returns the
// revision of the write, that of the read if no range is to change, or 0 if something has changed.
func (s *store) swap(ctx context.Context, read int64, ranges ...*held) (revision int64, err error) {
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(clusterstate.ServiceKeys(s.prefix)).WithPrefix(), "<", read+1)}
	var puts []clientv3.Op
	var keys []string
	for _, h := range ranges {
		if h.next == "" {
			continue
		}
		key := h.stored.Key
		conditions = append(conditions,
			clientv3.Compare(clientv3.ModRevision(key), "=", h.stored.ModRevision),
			clientv3.Compare(clientv3.Version(key), "=", h.stored.Version),
			clientv3.Compare(clientv3.CreateRevision(key), "=", h.stored.CreateRevision))
		puts, keys = append(puts, clientv3.OpPut(key, h.next)), append(keys, key)
		if h.clears {
			// A Service with a freed value that reaches etcd later is refused.
			puts = append(puts, etcdstore.FenceOp(key))
		}
	}
	if len(puts) == 0 {
		return read, nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	answer, err := s.client.Txn(ctx).If(conditions...).Then(puts...).Commit()
	if err != nil {
		if err = unreachable(fmt.Errorf("write %s: %w", strings.Join(keys, ", "), err)); errors.Is(err, clusterstate.ErrUnreachable) {
			err = fmt.Errorf("%w (%w)", err, errMayBeWritten)
		}
		return 0, err
	}
	if !answer.Succeeded {
		return 0, nil
	}
	return answer.Header.Revision, nil
}
