package etcdstoretest

import (
	"errors"
	"strings"
	"testing"

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
	for _, size := range []int{1_600_000, 3_000_000} { // etcd refuses one, and its client does not send the other
		if _, err := key.Put(t.Context(), make([]byte, size), nil); !errors.Is(err, ledgerstore.ErrTooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	wrong := etcdstore.LedgerKey{Client: client, Key: "/ledgers/tokens"}
	if _, err := wrong.Put(t.Context(), nil, []byte("12")); err == nil || !strings.Contains(err.Error(), "token 3132") {
		t.Error(err)
	}
}
