package clusterstate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// statusTimeout is for the answers of all members. A member that does not answer is checked by its later answers.
const statusTimeout = 2 * time.Second

// otherClusterError is about an answer of another etcd cluster than before. Its text says what to do.
type otherClusterError struct {
	text string
	// code is InvalidArgument, a refusal that ends an operation, or FailedPrecondition where the next try succeeds.
	code codes.Code
}

func (e *otherClusterError) Error() string { return e.text }

func (e *otherClusterError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// oneCluster refuses the answers of all etcd clusters but the one that answered first. A client spreads its requests
// over its endpoints, so members of two clusters would mix the Services of one with the ranges of the other. An etcd
// that was restored with a new --initial-cluster-token is another cluster, too.
type oneCluster struct {
	client *clientv3.Client
	// restored is that of the ConnectOptions.
	restored func(context.Context, error) error
	// asking is held while it is asked.
	asking sync.Mutex
	id     atomic.Uint64
}

// anyClusterKey is the key of a context with which answers of all clusters are taken.
type anyClusterKey struct{}

// check returns an error for an answer of another cluster than before. It is the one place that decides whether the
// other cluster counts from then on: if all endpoints that answer belong to it, and the program agrees.
func (o *oneCluster) check(ctx context.Context, answer any) error {
	if ctx.Value(anyClusterKey{}) != nil {
		return nil
	}
	switch answer.(type) {
	case *etcdserverpb.StatusResponse, *etcdserverpb.AuthenticateResponse:
		return nil // ask asks for them
	}
	got, ok := answer.(interface {
		GetHeader() *etcdserverpb.ResponseHeader
	})
	if !ok {
		return nil
	}
	id := got.GetHeader().GetClusterId() // 0 from kine
	if id == 0 || o.id.CompareAndSwap(0, id) {
		return nil
	}
	known := o.id.Load()
	if id == known {
		return nil
	}
	now, err := o.ask()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("another etcd answers at %s than before: it was restored or replaced meanwhile",
		strings.Join(o.client.Endpoints(), ","))
	if o.restored == nil {
		return &otherClusterError{what + "; run the command again", codes.InvalidArgument}
	}
	// This answer is refused nevertheless: a read of several pages would mix two etcds.
	err = &otherClusterError{what, codes.FailedPrecondition}
	if now == id && o.asking.TryLock() {
		defer o.asking.Unlock()
		if o.id.Load() == known && o.restored(context.WithValue(o.client.Ctx(), anyClusterKey{}, true), err) == nil {
			o.id.Store(id)
		}
	}
	return err
}

// ask returns the cluster to which all endpoints that answer belong; 0 if none answers. The error is about endpoints
// of different clusters.
func (o *oneCluster) ask() (id uint64, err error) {
	ctx, cancel := context.WithTimeout(o.client.Ctx(), statusTimeout)
	defer cancel()
	endpoints := o.client.Endpoints()
	answers := make([]*clientv3.StatusResponse, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { answers[i], _ = o.client.Status(ctx, endpoint) })
	}
	all.Wait()
	first := ""
	members := map[uint64]string{}
	for i, answer := range answers {
		if answer == nil {
			continue // a later answer is checked
		}
		member := answer.Header.GetMemberId()
		if other, again := members[member]; again && other != endpoints[i] {
			if err := o.checkSameMember(ctx, other, endpoints[i]); err != nil {
				return 0, err
			}
		}
		members[member] = endpoints[i]
		one := answer.Header.GetClusterId()
		switch {
		case one == 0: // it is kine
		case id == 0:
			id, first = one, endpoints[i]
		case one != id:
			return 0, &otherClusterError{fmt.Sprintf(
				"%s is of the etcd cluster %x and %s of %x: the endpoints belong to different etcd clusters; name the members of one cluster",
				first, id, endpoints[i], one), codes.InvalidArgument}
		}
	}
	return id, nil
}

// checkSameMember returns an error if two endpoints have the id of one member of etcd and are not two ways to it. Etcds
// that were restored from one snapshot one by one have the same ids. Their raft logs go apart with the first proposal,
// such as that of a lease.
func (o *oneCluster) checkSameMember(ctx context.Context, one, other string) error {
	var answers []*clientv3.StatusResponse
	for _, endpoint := range []string{one, other, one} {
		answer, err := o.client.Status(ctx, endpoint)
		if err != nil {
			return nil // a later answer is checked
		}
		answers = append(answers, answer)
	}
	before, between, after := answers[0], answers[1], answers[2]
	if before.Header.MemberId != between.Header.MemberId || after.Header.MemberId != between.Header.MemberId || between.Header.MemberId == 0 {
		return nil // one of them is a proxy or a load balancer
	}
	isApart := func(of func(*clientv3.StatusResponse) uint64) bool {
		return of(between) < of(before) || of(between) > of(after)
	}
	if isApart(func(s *clientv3.StatusResponse) uint64 { return s.RaftTerm }) ||
		isApart(func(s *clientv3.StatusResponse) uint64 { return s.RaftAppliedIndex }) ||
		isApart(func(s *clientv3.StatusResponse) uint64 { return uint64(s.Header.Revision) }) || o.lacksLease(ctx, one, other) {
		return &otherClusterError{fmt.Sprintf(
			"%s and %s both have the id %x of a member of etcd and are two etcds, as after a restore of each one from the same snapshot; name one of them",
			one, other, between.Header.MemberId), codes.InvalidArgument}
	}
	return nil
}

// lacksLease reports whether the other endpoint has no lease that the first one has granted. It ends by itself.
func (o *oneCluster) lacksLease(ctx context.Context, one, other string) bool {
	ctx = context.WithValue(ctx, anyClusterKey{}, true)
	first, err := o.client.Dial(one)
	if err != nil {
		return false
	}
	defer first.Close()
	second, err := o.client.Dial(other)
	if err != nil {
		return false
	}
	defer second.Close()
	granted, err := etcdserverpb.NewLeaseClient(first).LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: 1})
	if err != nil {
		return false // as without space
	}
	answer, err := etcdserverpb.NewLeaseClient(second).LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: granted.ID})
	return err == nil && answer.GrantedTTL == 0
}

// options has each answer checked.
func (o *oneCluster) options() []grpc.DialOption {
	unary := func(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := invoke(ctx, method, request, answer, conn, opts...); err != nil {
			return err
		}
		return o.check(ctx, answer)
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, opts...)
		return checkedStream{s, o}, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

type checkedStream struct {
	grpc.ClientStream
	cluster *oneCluster
}

func (s checkedStream) RecvMsg(answer any) error {
	if err := s.ClientStream.RecvMsg(answer); err != nil {
		return err
	}
	return s.cluster.check(s.Context(), answer)
}
