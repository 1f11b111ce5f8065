package etcdstoretest

import (
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
	wrong := etcdstore.LedgerKey{Client: client, Key: "/ledgers/tokens"}
	if _, err := wrong.Put(t.Context(), nil, []byte("12")); err == nil || !strings.Contains(err.Error(), "token 3132") {
		t.Error(err)
	}
}
