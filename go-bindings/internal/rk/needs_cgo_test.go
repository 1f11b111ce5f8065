package rk

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Without cgo a program that asks for the native back end does not compile, for a reason that it names.
func TestNativeNeedsCgo(t *testing.T) {
	// Without cgo a build has the core as Go, too.
	if _, err := os.Stat("../wasm/core/core.go"); err != nil {
		t.Skipf("%v: `make purego` writes it", err)
	}
	for _, tag := range []string{"rangekeeper_native", "rangekeeper_dynamic"} {
		build := exec.Command("go", "build", "-tags", tag, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		output, err := build.CombinedOutput()
		if err == nil || !strings.Contains(string(output), "need cgo: set CGO_ENABLED=1") || strings.Contains(string(output), "undefined") {
			t.Errorf("%s: %v\n%s", tag, err, output)
		}
	}
}
