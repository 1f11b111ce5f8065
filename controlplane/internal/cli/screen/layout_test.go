package screen

import (
	"slices"
	"strings"
	"testing"
)

// TestStepsPaste pastes the next steps of a narrow terminal: a line is a comment, a command, or goes on a command.
func TestStepsPaste(t *testing.T) {
	s := &Screen{width: 40}
	s.next([]Step{{"a comment that is much too long for one line of a narrow terminal", []string{"rangekeeper", "audit", "--etcd-snapshot a.db"}}}, "")
	goesOn := false
	for _, line := range strings.Split(strings.TrimSpace(s.b.String()), "\n")[1:] {
		text := strings.TrimSpace(line)
		if !goesOn && !strings.HasPrefix(text, "# ") && !strings.HasPrefix(text, "rangekeeper ") || len(line) > 42 {
			t.Errorf("%q in\n%s", line, s.b.String())
		}
		goesOn = strings.HasSuffix(text, "\\")
	}
}

// TestWrapped breaks texts.
func TestWrapped(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, indent int
		want          []string
	}{
		{"", 5, 0, []string{""}},
		{"a bb ccc", 4, 0, []string{"a bb", "ccc"}},
		{"a bb ccc", 4, 2, []string{"a bb", "  ccc"}},
		{"überlang ab", 8, 0, []string{"überlang", "ab"}},
		{"much-too-long a", 3, 0, []string{"much-too-long", "a"}},
	} {
		if got := Wrapped(c.text, c.width, c.indent); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d: %q", c.text, c.width, got)
		}
	}
}

// TestEscaped keeps control characters from the terminal, and leaves quotes as they are.
func TestEscaped(t *testing.T) {
	for sentence, want := range map[string]string{
		`starts with "x\x00"`: `starts with "x\x00"`,
		"a \x1b[31m b\n":      `a \x1b[31m b\n`,
		`C:\"x"`:              `C:\"x"`,
		"Grüße":               "Grüße",
	} {
		if got := escaped(sentence); got != want {
			t.Errorf("%q is %s, want %s", sentence, got, want)
		}
	}
}
