package screen

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Step is a command that comes next, or without words what happens by itself.
type Step struct {
	Why string
	// Words are not broken, each may have a flag with its value.
	Words []string
}

// next writes the next commands, and the page of the runbook.
func (s *Screen) next(steps []Step, page string) {
	s.Blank()
	s.b.WriteString(s.colored(bold, "Next") + "\n")
	for _, step := range steps {
		s.comment(2, step.Why)
		s.words(2, step.Words)
	}
	if page != "" {
		s.b.WriteString("Runbook: " + page + "\n")
	}
}

// comment writes words as a comment of a shell, in as many lines as they need.
func (s *Screen) comment(indent int, text string) {
	for _, line := range Wrapped(text, s.width-indent-2, 0) {
		fmt.Fprintf(&s.b, "%*s# %s\n", indent, "", line)
	}
}

// words writes a command, in as many lines as it needs. A word is never broken.
func (s *Screen) words(indent int, words []string) {
	if len(words) == 0 {
		return
	}
	line := strings.Repeat(" ", indent) + words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > s.width-2 {
			s.b.WriteString(line + " \\\n")
			line = strings.Repeat(" ", indent+3)
		}
		line += " " + word
	}
	s.b.WriteString(line + "\n")
}
