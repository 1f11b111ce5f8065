package cli

import (
	"strings"
	"testing"
)

// TestHelp has flags without a break where there is no terminal. The programs' tests read the help of terminals.
func TestHelp(t *testing.T) {
	if _, piped, _ := run(t, "audit", "--help"); !strings.Contains(piped, "show the findings about Services of this namespace only; all Services are audited\n") {
		t.Errorf("flags are broken without a terminal:\n%s", piped)
	}
}
