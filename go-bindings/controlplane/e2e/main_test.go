package e2e

import (
	"testing"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/internal/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
