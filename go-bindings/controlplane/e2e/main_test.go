package e2e

import (
	"testing"

	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/go-bindings/controlplane/internal/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, nil) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// onEachVersion runs a test on servers of each release.
func onEachVersion(t *testing.T, test func(t *testing.T, version apiservertest.Version)) {
	for _, version := range apiservertest.Versions {
		t.Run(string(version), func(t *testing.T) { test(t, version) })
	}
}
