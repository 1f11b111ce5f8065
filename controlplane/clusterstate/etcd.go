package clusterstate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// pageSize keeps an answer far below gRPC's and etcd's limits: a Service takes
	// a kilobyte or two.
	pageSize = 500
	// pageTimeout is for one page; etcd answers in milliseconds.
	pageTimeout = 10 * time.Second
	// maxReads is the number of attempts, as the revision that is read may get
	// compacted meanwhile. kube-apiserver compacts every 5 minutes, so a second
	// time is rare.
	maxReads = 3
)

// ReadEtcd reads the state from a running etcd: all keys at [Options.Revision] or the revision of the
// first answer, in pages. If that of the answer is compacted before the last page, it
// starts over, at most twice. The error wraps [ErrUnreachable] if etcd stops
// answering, and names the keys that it was about.
func ReadEtcd(ctx context.Context, client *clientv3.Client, o Options) (*State, error) {
	return readEtcd(ctx, client, o, o.prefixes().all())
}

// ReadClusterIPObjects is as [ReadEtcd], and reads ServiceCIDRs and IPAddress objects only; prefix as of [RangeKey].
// The error wraps an [EncryptedError] if one is encrypted at rest.
func ReadClusterIPObjects(ctx context.Context, client *clientv3.Client, prefix string) (*State, error) {
	o := Options{Prefix: prefix}
	p := o.prefixes()
	s, err := readEtcd(ctx, client, o, []string{p.serviceCIDRs, p.ipAddresses})
	if err != nil {
		return nil, err
	}
	for _, u := range s.Unreadable {
		if u.Encrypted != nil {
			return nil, fmt.Errorf("key %s: %w", u.Key, u.Encrypted)
		}
	}
	return s, nil
}

// ReadIdentity is as [ReadEtcd], and reads only what tells the cluster from others; prefix as of [RangeKey].
func ReadIdentity(ctx context.Context, client *clientv3.Client, prefix string) (*State, error) {
	o := Options{Prefix: prefix}
	return readEtcd(ctx, client, o, []string{o.prefixes().system})
}

func readEtcd(ctx context.Context, client *clientv3.Client, o Options, keys []string) (*State, error) {
	read := func() (*State, error) { return readAtOneRevision(ctx, client, o, keys) }
	if o.Revision != 0 {
		return read()
	}
	return readAgain(read)
}

// readAgain reads, and starts over if the revision that is read gets compacted meanwhile.
func readAgain(read func() (*State, error)) (*State, error) {
	for n := 1; ; n++ {
		s, err := read()
		if !errors.Is(err, rpctypes.ErrCompacted) || n == maxReads {
			return s, err
		}
	}
}

func readAtOneRevision(ctx context.Context, client *clientv3.Client, o Options, keys []string) (*State, error) {
	p := o.prefixes()
	s := p.state()
	s.Revision = o.Revision
	var done, total int64
	for _, prefix := range keys {
		from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
		for first := true; ; first = false {
			page, err := readPage(ctx, client, from,
				clientv3.WithRange(end), clientv3.WithRev(s.Revision), clientv3.WithLimit(pageSize))
			if p.bootstrap != nil && s.Bootstrap.refused(*p.bootstrap, prefix, err) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", prefix, err)
			}
			if s.Revision == 0 { // the first answer decides, even if it is empty
				s.Revision = page.Header.Revision
			}
			s.Identity.Etcd = EtcdID(page.Header.ClusterId)
			s.Kine = s.Identity.Etcd == 0 // which no etcd has
			if first {
				total += page.Count
			}
			for _, kv := range page.Kvs {
				s.add(p, kv)
			}
			if done += int64(len(page.Kvs)); o.Progress != nil {
				o.Progress(done, total)
			}
			if !page.More {
				break
			}
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
	if s.Bootstrap != nil && !s.Kine {
		return s, s.Bootstrap.readLeaseStates(ctx, client)
	}
	return s, nil
}

func readPage(ctx context.Context, client *clientv3.Client, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	pageCtx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := client.Get(pageCtx, key, opts...)
	return page, explain(ctx, err)
}

// explain turns an error of the client into one that helps its reader; ctx is the
// caller's context, whose end is no fault of etcd.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case isHTTP(err):
		return errors.New("an HTTP server answers, such as a kube-apiserver, and no etcd: expected the address of etcd, whose port is usually 2379")
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return errors.New("etcd asks for a user and password")
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return errors.New("etcd refuses the user or password")
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("the etcd user may not read this: %w", err)
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.Unavailable, status.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// isHTTP reports whether the error is gRPC's about an answer that is not gRPC. Its code depends on the status of the
// answer.
func isHTTP(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unexpected HTTP status code received from server") || strings.Contains(text, "received unexpected content-type")
}
