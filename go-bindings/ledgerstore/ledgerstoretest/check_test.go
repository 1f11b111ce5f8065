package ledgerstoretest_test

import (
	"testing"

	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore/ledgerstoretest"
)

func TestMemory(t *testing.T) {
	stores := map[string]*ledgerstore.Memory{}
	ledgerstoretest.Check(t, func(name string) ledgerstore.Store {
		if stores[name] == nil {
			stores[name] = new(ledgerstore.Memory)
		}
		return stores[name]
	})
}
