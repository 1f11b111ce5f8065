package screen

import (
	"fmt"

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

// counts writes how many faults there are of each of these severities.
func (s *Screen) counts(by audit.BySeverity, severities []audit.Severity) {
	width := 6
	for _, severity := range severities {
		width = max(width, len(countText(*by.Of(severity))))
	}
	for _, severity := range severities {
		n := *by.Of(severity)
		color := ""
		if n.Found > 0 {
			color = severityColors[severity]
		}
		fmt.Fprintf(&s.b, "%*s  %s\n", width, countText(n), s.colored(color, severityText(severity, n)))
	}
}

// countText is a count for people: one of which the source shows nothing is no 0.
func countText(n audit.Count) string {
	if n.IsUnknown() {
		return "?"
	}
	return n.String()
}

func severityText(severity audit.Severity, n audit.Count) string {
	if n.Found == 1 {
		return severityTexts[severity][0]
	}
	return severityTexts[severity][1]
}
