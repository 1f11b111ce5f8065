package etcdstore_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"os"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/etcdstore"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: dir}) // any etcd will do
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()
	clusterIPs, err := rangekeeper.ParseCIDR("10.96.0.0/12")
	if err != nil {
		log.Fatal(err)
	}
	store, err := etcdstore.Open(etcdstore.Config[netip.Addr]{
		Client: etcd.Client(), Key: "/registry/ranges/serviceips",
		Range: clusterIPs, Strategy: rangekeeper.Contiguous,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	if _, err := store.Init(ctx); err != nil {
		log.Fatal(err)
	}
	got, err := store.AllocateNext(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Value)
	// Here the Service is written, before got.UseUntil. If that fails:
	freed, err := store.Release(ctx, got.Value, rangekeeper.OwnedSince(got.Revision))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", freed)
	// Output:
	// 10.96.0.1
	// released: true
}
