package etcdstore_test

import (
	"context"
	"errors"
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
	if err := createService(ctx, store, "default/web"); err != nil {
		log.Fatal(err)
	}
}

// createService allocates a ClusterIP and writes a Service with it.
func createService(ctx context.Context, store *etcdstore.Store, name string) error {
	// Before anything is read or allocated.
	connections, err := store.Connections(ctx)
	if err != nil {
		return err
	}
	got, err := store.AllocateNext(ctx)
	if err != nil {
		return err
	}
	key := "/registry/services/specs/" + name
	isNew := clientv3.Compare(clientv3.ModRevision(key), "=", 0)
	service := clientv3.OpPut(key, fmt.Sprintf(`{"spec": {"clusterIP": %q}}`, got.Value))
	answer, err := connections.Txn(ctx, append(etcdstore.Conditions(got), isNew), []clientv3.Op{service}, nil)
	switch {
	case errors.Is(err, etcdstore.ErrRestored):
		return createService(ctx, store, name) // nothing was written; a repair pass frees the value
	case err != nil:
		return err // the Service may be there, or may yet be written; if not, a repair pass frees the value
	case !answer.Succeeded:
		_, err := store.Release(ctx, got.Value, got.Owner())
		return errors.Join(fmt.Errorf("%s is there already, or %v was freed meanwhile", name, got.Value), err)
	}
	store.Written(got.Value)
	return nil
}
