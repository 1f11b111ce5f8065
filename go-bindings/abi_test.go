//go:build cgo && (rangekeeper_native || rangekeeper_dynamic)

package rangekeeper

import (
	"strings"
	"testing"
)

func TestABIVersion(t *testing.T) {
	if err := checkABI(compiledABI); err != nil {
		t.Error(err)
	}
	err := checkABI(compiledABI + 41)
	if err == nil || !strings.Contains(err.Error(), "version 41,") || !strings.Contains(err.Error(), "for version 0:") {
		t.Error(err)
	}
}
