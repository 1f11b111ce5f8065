package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// putService stores a Service with a node port.
func putService(t *testing.T, e *embedded.Etcd, name string, port int) {
	t.Helper()
	service := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":%q},"spec":{"clusterIP":"None","ports":[{"port":80,"nodePort":%d}]}}`, name, port)
	if _, err := e.Client().Put(t.Context(), "/registry/services/specs/default/"+name, service); err != nil {
		t.Fatal(err)
	}
}

// TestChangeInUse releases and allocates ports that Services use.
func TestChangeInUse(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	runOK(t, with("allocate", "servicenodeports", "30000")...)
	runOK(t, with("allocate", "servicenodeports", "30001")...)
	putService(t, e, "web", 30001)
	putService(t, e, "copy", 30001)
	putService(t, e, "lost", 30002)

	runFails(t, exitFound, []string{"30001 is used by default/copy, default/web", "--force"}, with("release", "servicenodeports", "30000", "30001")...)
	if got, want := ports(t, e), []string{"30000", "30001"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	runFails(t, exitFound, []string{"already allocated; it is used by default/copy, default/web"}, with("allocate", "servicenodeports", "30001")...)
	runFails(t, exitFound, []string{"30002 is used by default/lost"}, with("allocate", "servicenodeports", "30002")...)
	// 30002 is not recorded, but any free value is another one.
	if got := runOK(t, with("allocate", "servicenodeports")...); !slices.Equal(got, []string{"30003"}) {
		t.Errorf("%q", got)
	}
	runFails(t, exitFound, []string{"full"}, with("allocate", "servicenodeports")...)

	if got := runOK(t, with("allocate", "servicenodeports", "30002", "--force")...); !slices.Equal(got, []string{"30002"}) {
		t.Errorf("%q", got)
	}
	if got := runOK(t, with("release", "servicenodeports", "30001", "30001", "--force")...); !slices.Equal(got, []string{"servicenodeports 30001 released"}) {
		t.Errorf("%q", got)
	}
	if got, want := ports(t, e), []string{"30000", "30002", "30003"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestChangeNamesCluster runs the commands that write on a terminal, where the cluster comes first, and for programs,
// which get values only.
func TestChangeNamesCluster(t *testing.T) {
	e, etcd := cluster(t)
	const system = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"b1c7e5e0-6f8e-4a51-9d70-0f3a2f1c9d11"}}`
	if _, err := e.Client().Put(t.Context(), "/registry/namespaces/kube-system", system); err != nil {
		t.Fatal(err)
	}
	with := func(args ...string) []string { return append(args, etcd...) }
	heading := "etcd " + e.Endpoints()[0] + " of cluster b1c7e5e0-6f8e-4a51-9d70-0f3a2f1c9d11, revision "
	for _, c := range []struct {
		args []string
		want string // after the heading
	}{
		{with("init", "servicenodeports", "30000-30003"), "servicenodeports 30000-30003 created\n"},
		{with("allocate", "servicenodeports", "30001"), "30001\n"},
		{with("release", "servicenodeports", "30001"), "servicenodeports 30001 released\n"},
	} {
		code, shown := onTerminal(t, 200, c.args...)
		if first, rest, _ := strings.Cut(shown, "\n\n"); code != exitOK || !strings.HasPrefix(first, heading) || strings.Contains(first, "\n") || rest != c.want {
			t.Errorf("%v: exit code %d, %q", c.args, code, shown)
		}
	}
	if got := runOK(t, with("allocate", "servicenodeports", "30002")...); !slices.Equal(got, []string{"30002"}) {
		t.Errorf("%q", got)
	}
}

// ports returns the node ports that are stored as allocated.
func ports(t *testing.T, e *embedded.Etcd) (all []string) {
	t.Helper()
	got, err := e.Client().Get(t.Context(), nodePortsKey)
	if err != nil {
		t.Fatal(err)
	}
	spec, data, err := clusterstate.DecodeRange(got.Kvs[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	values, err := rangekeeper.ParsePortRange(spec)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := values.Changes(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		all = append(all, change.Value.String())
	}
	return all
}

// TestChangeRaces has another client write between the read and the write: a Service that takes the value, or another
// value of the range.
func TestChangeRaces(t *testing.T) {
	for name, c := range map[string]struct {
		before func(e *embedded.Etcd)
		want   error
		left   []string
	}{
		"Service": {func(e *embedded.Etcd) { putService(t, e, "late", 30001) }, edit.ErrInUse, []string{"30001"}},
		"range": {func(e *embedded.Etcd) {
			if err := toggle(t.Context(), e.Client(), nodePortsKey, 30002); err != nil {
				t.Error(err)
			}
		}, nil, []string{"30002"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, etcd := cluster(t)
			runOK(t, append([]string{"init", "servicenodeports", "30000-30003"}, etcd...)...)
			runOK(t, append([]string{"allocate", "servicenodeports", "30001"}, etcd...)...)
			swaps := 0
			client, err := clientv3.New(clientv3.Config{
				Endpoints: e.Endpoints(),
				DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					if txn, ok := req.(*pb.TxnRequest); ok && isSwap(txn) {
						if swaps++; swaps == 1 {
							c.before(e)
						}
					}
					return invoke(ctx, method, req, reply, conn, opts...)
				})},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			s := &ranges.Store{Client: client, Prefix: clusterstate.DefaultPrefix}
			release := rangekeeper.Edit{Clear: []rangekeeper.Value{rangekeeper.PortValue(30001)}}
			_, err = edit.Change(t.Context(), s, "servicenodeports", edit.ValueReleased, release, func(*clusterstate.State) error { return nil })
			if !errors.Is(err, c.want) || swaps == 0 {
				t.Errorf("%v after %d swaps", err, swaps)
			}
			if got := ports(t, e); !slices.Equal(got, c.left) {
				t.Errorf("got %q, want %q", got, c.left)
			}
		})
	}
}

// TestNoBitmaps uses ranges of ClusterIPs in a cluster that keeps IPAddress objects.
func TestNoBitmaps(t *testing.T) {
	endpoints := strings.Join(etcdtest.Start(t, etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")).Endpoints(), ",")
	for _, args := range [][]string{
		{"allocate", "serviceips"}, {"release", "serviceips", "10.0.0.1"}, {"watch", "serviceips"},
		{"init", "serviceips", "10.0.0.0/16"}, {"init", "secondaryserviceips", "fd00::/112"},
	} {
		words := []string{"IPAddress object", "rangekeeper show kubernetes", "servicenodeports"}
		runFails(t, exitInput, words, append(args, "--endpoints", endpoints)...)
	}
	runOK(t, "allocate", "servicenodeports", "--endpoints", endpoints)
}
