package screen

import (
	"fmt"
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// rangeHeader is that of rangeRows.
var rangeHeader = []string{"RANGE", "VALUES", "MODE", "SIZE", "USED", "FREE"}

func rangeRow(r audit.Range) []string {
	size, used, free, values := fmt.Sprint(r.Size.N), AmountText(r.Used, "at least "), AmountText(r.Free, "at most "), r.Range
	if r.Size.Unseen {
		size, free = "?", "?"
	}
	if values == "" && r.Mode == audit.ModeUnseen {
		values = "?"
	}
	mode := string(r.Mode)
	if r.NotReady {
		mode += ", not ready"
	}
	return []string{r.Name, values, mode, size, used, free}
}

// AmountText returns an amount, or its bound if the source does not show it.
func AmountText(a audit.Amount, bound string) string {
	if a.Unseen {
		return bound + fmt.Sprint(a.N)
	}
	return fmt.Sprint(a.N)
}

func rangeRows(ranges []audit.Range) (rows [][]string) {
	for _, r := range ranges {
		rows = append(rows, rangeRow(r))
	}
	return rows
}

func (s *Screen) ranges(ranges []audit.Range) {
	s.rows(0, append([][]string{rangeHeader}, rangeRows(ranges)...))
	if slices.ContainsFunc(ranges, func(r audit.Range) bool { return r.Mode == audit.ModeStale }) {
		s.text(0, "", "stale: a bitmap of ClusterIPs of an older release, which no API server reads any more. It does no harm, and is not audited.")
	}
}
