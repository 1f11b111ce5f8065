package rangekeeper

import (
	"os"
	"regexp"
	"testing"
)

// A function has both directives, as one alone has no effect. TestNoAllocationInHotPath finds a hot function without them, and
// cgo refuses a name that the header does not declare.
func TestCgoDirectives(t *testing.T) {
	directives := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^#cgo (noescape|nocallback) (\w+)$`).FindAllStringSubmatch(string(must(os.ReadFile("cgo.go"))), -1) {
		directives[match[2]] += match[1]
	}
	if len(directives) == 0 {
		t.Error("there are no directives")
	}
	for name, both := range directives {
		if both != "noescapenocallback" {
			t.Errorf("%s has %q", name, both)
		}
	}
}
