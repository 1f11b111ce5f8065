package screen

import (
	"fmt"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/preflight"
)

// levelTexts are the headers of the levels of checks, and levelColors their colors.
var (
	levelTexts  = map[preflight.Level]string{preflight.Must: "Must be done first", preflight.Surprise: "May surprise", preflight.Unknown: "Unknown", preflight.OK: "OK"}
	levelColors = map[preflight.Level]string{preflight.Must: red, preflight.Surprise: yellow, preflight.Unknown: cyan, preflight.OK: bold}
)

// Preflight writes the checks by level.
func (s *Screen) Preflight(r *preflight.Report) {
	s.Source(r.Source)
	from := r.From
	if from == "" {
		from = "an unknown release"
	}
	result := "nothing must be done first"
	switch unknown := r.Summary.Unknown; {
	case r.Summary.MustBeDoneFirst > 0:
		result = Count(r.Summary.MustBeDoneFirst, "thing") + " must be done first"
	case unknown == 1:
		result = "nothing known must be done first; 1 thing is unknown"
	case unknown > 1:
		result = fmt.Sprintf("nothing known must be done first; %d things are unknown", unknown)
	}
	s.text(0, bold, fmt.Sprintf("Upgrade of kube-apiserver from %s to %s: %s", from, r.To, result))
	shown := map[string]string{} // commands, and the checks that they belong to
	for _, level := range preflight.Levels {
		checks := r.Of(level)
		if len(checks) == 0 {
			continue
		}
		s.Blank()
		fmt.Fprintf(&s.b, "%s (%d)\n", s.colored(levelColors[level], levelTexts[level]), len(checks))
		for _, check := range checks {
			s.check(check, shown)
		}
	}
}

// check writes one check with its remedy, and its command unless it is shown already.
func (s *Screen) check(c preflight.Check, shown map[string]string) {
	for i, line := range Wrapped(escaped(c.Name+": "+c.Message), s.width-2, 2) {
		if i == 0 {
			line = strings.Replace(line, c.Name, s.colored(bold, c.Name), 1)
		}
		s.b.WriteString("  " + line + "\n")
	}
	if s.all && len(c.Values) > 0 {
		s.text(4, "", "Values: "+Printable(strings.Join(c.Values, ", ")))
	}
	if c.Remedy != "" {
		s.text(4, "", "Remedy: "+c.Remedy)
	}
	if of, ok := shown[c.Command]; ok {
		s.comment(6, "the command of "+of)
		return
	}
	s.words(6, c.Words)
	if c.Command != "" {
		shown[c.Command] = c.Name
	}
}
