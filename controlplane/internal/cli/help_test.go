package cli

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpOfTerminal reads the help of all commands on a terminal, also as kubectl's plugin, whose name makes examples longer.
func TestHelpOfTerminal(t *testing.T) {
	const width = 80
	for _, c := range append(newRoot(nil, nil).Commands(), newRoot(nil, nil)) {
		if c.Name() == "completion" || c.Name() == "help" { // cobra's texts
			continue
		}
		args := []string{c.Name(), "--help"}
		if !c.HasParent() {
			args = args[1:]
		}
		_, shown := onTerminal(t, width, args...)
		for line := range strings.Lines(shown) {
			if c.Example != "" {
				line = strings.Replace(line, "  rangekeeper ", "  kubectl rangekeeper ", 1)
			}
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%v: %d columns: %q", args, n, line)
			}
		}
	}
	if _, piped, _ := run(t, "audit", "--help"); !strings.Contains(piped, "show the findings about Services of this namespace only; all Services are audited, and leaks and IPAddress objects are in no namespace\n") {
		t.Errorf("flags are broken without a terminal:\n%s", piped)
	}
}

// TestInvocation has the names that kubectl runs the program by.
func TestInvocation(t *testing.T) {
	for _, c := range []struct {
		words   []string
		program string
		args    []string
	}{
		{[]string{"bin/rangekeeper", "audit"}, "rangekeeper", []string{"audit"}},
		{[]string{"/usr/bin/kubectl-rangekeeper", "audit"}, "kubectl rangekeeper", []string{"audit"}},
		{[]string{"/usr/bin/kubectl_complete-rangekeeper", "audit", "-o", ""}, "kubectl rangekeeper", []string{cobra.ShellCompRequestCmd, "audit", "-o", ""}},
	} {
		if program, args := invocation(c.words); program != c.program || !slices.Equal(args, c.args) {
			t.Errorf("%q: %q %q", c.words, program, args)
		}
	}
}
