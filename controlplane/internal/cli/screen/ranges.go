package screen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// Use writes how a range is used, with its runs.
func (s *Screen) Use(use *audit.RangeUse) {
	s.Source(use.Source)
	for i, r := range use.Ranges {
		if i > 0 {
			s.Blank()
		}
		s.table(0, rangeHeader, rangeRows([]audit.Range{r.Range}))
		if r.StaticBand != nil && *r.StaticBand > 0 {
			s.Blank()
			s.text(0, "", "Static band: the lowest "+Count(int(*r.StaticBand), "value"))
		}
		s.runs("Free runs", r.Free)
		s.runs("Used runs", r.Used)
	}
	s.unknown(use.Unknown)
}

func (s *Screen) runs(title string, runs []audit.Run) {
	var rows [][]string
	for _, run := range runs {
		rows = append(rows, []string{run.First, run.Last, fmt.Sprint(run.Len)})
	}
	if len(rows) > 0 {
		s.Blank()
		s.text(0, "", title)
		s.table(0, []string{"FIRST", "LAST", "COUNT"}, rows)
	}
}

// Free writes the free values of a range.
func (s *Screen) Free(free *audit.FreeList) {
	s.Source(free.Source)
	var rows [][]string
	for _, b := range free.Bands {
		rows = append(rows, []string{b.Name, b.Range, b.Band, AmountText(b.Free, "at most "), strings.Join(b.Next, ", ")})
	}
	s.table(0, []string{"RANGE", "VALUES", "BAND", "FREE", "NEXT"}, rows)
	s.unknown(free.Unknown)
}

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
	s.table(0, rangeHeader, rangeRows(ranges))
	if slices.ContainsFunc(ranges, func(r audit.Range) bool { return r.Mode == audit.ModeStale }) {
		s.text(0, "", "stale: a bitmap of ClusterIPs of an older release, which no API server reads any more. It does no harm, and is not audited.")
	}
}
