package etcdstore_test

import (
	"context"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

func Example() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	clusterIPs, err := rangekeeper.ParseCIDR("10.96.0.0/12")
	if err != nil {
		log.Fatal(err)
	}
	store, err := etcdstore.Open(etcdstore.Config{
		Client: client, Key: "/registry/ranges/serviceips",
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
	// Here the Service is written, before got.UseUntil, in a transaction with etcdstore.Conditions(got); after that
	// store.Written(got.Value). If it was certainly not written:
	freed, err := store.Release(ctx, got.Value, got.Owner())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", freed)
}
