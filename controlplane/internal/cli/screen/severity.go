package screen

import (
	"fmt"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

var severityColors = map[audit.Severity]string{audit.BreaksTraffic: red, audit.DuplicateRisk: yellow, audit.Exhausted: yellow, audit.Wasted: cyan}

// severityTexts are those of one and of several faults.
var severityTexts = map[audit.Severity][2]string{
	audit.BreaksTraffic: {"breaks traffic now", "break traffic now"},
	audit.DuplicateRisk: {"may be handed out twice", "may be handed out twice"},
	audit.Exhausted:     {"range is full or nearly full", "ranges are full or nearly full"},
	audit.Wasted:        {"is wasted", "are wasted"},
}

// counts writes how many faults of each of these severities were found, and what the source does not show of them.
func (s *Screen) counts(by audit.BySeverity, severities []audit.Severity, unknown []audit.Unknown) {
	const width = 6
	for _, severity := range severities {
		n := *by.Of(severity)
		color := ""
		if n.Found > 0 {
			color = severityColors[severity]
		}
		what := audit.NotShown(unknown, severity)
		fmt.Fprintf(&s.b, "%*s  %s\n", width, countText(n, what), s.colored(color, severityText(severity, n)))
		if len(what) > 0 {
			s.text(width+2, "", notShownText(what))
		}
	}
}

// countText is a count for people: one of which nothing was looked at is no 0.
func countText(n audit.Count, notShown []string) string {
	if n.IsUnknown() && len(notShown) == 0 {
		return "?"
	}
	return fmt.Sprint(n.Found)
}

func notShownText(what []string) string { return "not shown: " + strings.Join(what, "; ") }

func severityText(severity audit.Severity, n audit.Count) string {
	if n.Found == 1 {
		return severityTexts[severity][0]
	}
	return severityTexts[severity][1]
}
