package cli

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelpOfTerminal reads the help of all commands on a terminal. Lists of commands and examples are not broken, nor are words.
func TestHelpOfTerminal(t *testing.T) {
	const width = 80
	for _, c := range append(newRoot(&program, nil, nil).Commands(), newRoot(&program, nil, nil)) {
		if c.Name() == "completion" || c.Name() == "help" { // cobra's texts
			continue
		}
		args := []string{c.Name(), "--help"}
		if !c.HasParent() {
			args = args[1:]
		}
		_, shown := onTerminal(t, width, args...)
		for line := range strings.Lines(shown) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && !unbroken.MatchString(line) {
				t.Errorf("%v: %d columns: %q", args, n, line)
			}
		}
	}
	if _, piped, _ := run(t, "audit", "--help"); !strings.Contains(piped, "show the findings about Services of this namespace only; all Services are audited, and leaks and IPAddress objects are in no namespace\n") {
		t.Errorf("flags are broken without a terminal:\n%s", piped)
	}
}

// unbroken are lines of examples and of lists of commands, and paths that have no spaces.
var unbroken = regexp.MustCompile(`^  [a-z]+ |^    --|state[.]db\s*$`)
