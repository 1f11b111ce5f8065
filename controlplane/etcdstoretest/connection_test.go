package etcdstoretest

import (
	"context"
	"net/url"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/tcpproxy"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

// TestNoSwapOverANewConnection cuts the connection once a store has decided on a compare-and-swap and before that is
// sent, as if the process had been stopped: the etcd at the end of the next connection may be a restored one, whose
// range has the same revision.
func TestNoSwapOverANewConnection(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	proxy := tcpproxy.Start(t, must(url.Parse(startEtcd(t).Endpoints()[0])).Host)
	type sent struct {
		kind string
		code codes.Code
	}
	var all []sent
	isArmed := false
	client := must(clientv3.New(clientv3.Config{
		Endpoints: []string{proxy.Address()},
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			txn, ok := request.(*pb.TxnRequest)
			if !ok {
				return invoke(ctx, method, request, reply, conn, options...)
			}
			kind := "read or confirm"
			if len(txn.Success) > 0 {
				kind = "swap"
			}
			if kind == "swap" && isArmed {
				isArmed = false
				proxy.Cut()
				for state := conn.GetState(); state == connectivity.Ready; state = conn.GetState() {
					conn.WaitForStateChange(ctx, state)
				}
				conn.Connect()
				for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
					conn.WaitForStateChange(ctx, state)
				}
			}
			err := invoke(ctx, method, request, reply, conn, options...)
			all = append(all, sent{kind, status.Code(err)})
			return err
		})},
	}))
	defer client.Close()
	store := must(etcdstore.Open(etcdstore.Config{Client: client, Key: key, Range: must(rangekeeper.ParseCIDR("10.0.0.0/24"))}))
	must(store.Init(ctx))
	must(store.AllocateNext(ctx))
	all, isArmed = nil, true
	must(store.AllocateNext(ctx))
	must(0, store.Close(ctx)) // nothing is under way any more
	want := []sent{{"swap", codes.Unauthenticated}, {"read or confirm", codes.OK}, {"swap", codes.OK}}
	if !slices.Equal(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
}
