package screen

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// Changes writes what is new and what is gone in a report since the one before it, and which ranges have changed, one
// line each.
func (s *Screen) Changes(before, now *audit.Report) {
	var rows [][]string
	differs := func(what string, some, others [][]string) {
		known := sets.New[string]()
		for _, row := range others {
			known.Insert(strings.Join(row, "\x00"))
		}
		for _, row := range some {
			if !known.Has(strings.Join(row, "\x00")) {
				rows = append(rows, append([]string{what}, row...))
			}
		}
	}
	faultsBefore, faultsNow := faultRows(before), faultRows(now)
	differs("new", faultsNow, faultsBefore)
	differs("gone", faultsBefore, faultsNow)
	differs("range", rangeTexts(now), rangeTexts(before))
	s.text(0, bold, fmt.Sprintf("%s, revision %d: %s", now.Source.Time.Format("2006-01-02 15:04:05 UTC"), now.Source.Revision, totals(now)))
	for _, line := range s.aligned(2, rows) {
		s.b.WriteString(line)
	}
}

// faultRows returns a row for each fault, object that cannot be read, and part that the source does not show.
func faultRows(r *audit.Report) (rows [][]string) {
	for _, f := range FaultsOf(r, false) {
		rows = append(rows, append([]string{f.Reason}, f.row...))
	}
	for _, u := range r.Unreadable {
		rows = append(rows, []string{"cannot be read", u.Kind, Printable(u.Key)})
	}
	for _, u := range r.Unknown {
		rows = append(rows, []string{"unknown", escaped(u.Message)})
	}
	return rows
}

func rangeTexts(r *audit.Report) (rows [][]string) {
	for _, row := range rangeRows(r.Ranges) {
		rows = append(rows, []string{row[0], row[1], fmt.Sprintf("%s, size %s, used %s, free %s", row[2], row[3], row[4], row[5])})
	}
	return rows
}
