package etcdstoretest

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore/ledgerstoretest"
)

func TestLedgerKey(t *testing.T) {
	client := startEtcd(t).Client()
	ledgerstoretest.Check(t, func(name string) ledgerstore.Store {
		return etcdstore.LedgerKey{Client: client, Key: "/ledgers/" + name}
	})
	key := etcdstore.LedgerKey{Client: client, Key: "/ledgers/large"}
	sends := must(clientv3.New(clientv3.Config{Endpoints: client.Endpoints(), MaxCallSendMsgSize: 10_000_000}))
	defer sends.Close()
	for _, large := range []struct {
		client *clientv3.Client
		size   int
		by     string
	}{
		{client, 1_600_000, "etcdserver: request is too large"},
		{client, 3_000_000, "trying to send message larger than max"},
		{sends, 3_000_000, "received message larger than max"}, // by etcd's gRPC server
	} {
		key.Client = large.client
		_, err := key.Put(t.Context(), make([]byte, large.size), nil)
		if !errors.Is(err, ledgerstore.ErrTooLarge) || !strings.Contains(err.Error(), large.by) {
			t.Errorf("%d bytes: %v, want %q", large.size, err, large.by)
		}
	}
	wrong := etcdstore.LedgerKey{Client: client, Key: "/ledgers/tokens"}
	if _, err := wrong.Put(t.Context(), nil, []byte("12")); err == nil || !strings.Contains(err.Error(), "token 3132") {
		t.Error(err)
	}
}
