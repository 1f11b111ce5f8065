package picture

import (
	"fmt"
	"io"
	"strings"
)

// characters stand for a cell on a terminal, and the letters among them in a
// picture too, so that nobody needs to distinguish colours.
var characters = [classes]rune{
	free:          '.',
	quarter:       '░',
	half:          '▒',
	threeQuarters: '▓',
	whole:         '█',
	leaked:        'L',
	lost:          'X',
	duplicate:     'D',
}

// Text draws the maps for a terminal: 64 characters per row, one for each cell,
// and the legend. It writes nothing if a map's cells contradict one another.
func Text(w io.Writer, maps []Map) error {
	if err := check(maps); err != nil {
		return err
	}
	var b strings.Builder
	if len(maps) == 0 {
		b.WriteString("no ranges\n")
	}
	for i := range maps {
		if i > 0 {
			b.WriteByte('\n')
		}
		maps[i].text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *Map) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s  %s\n%s\n", printable(m.Name), printable(m.Range), m.totals())
	if len(m.Cells) == 0 {
		fmt.Fprintln(b, m.nothingToDraw())
		return
	}
	for from := 0; from < len(m.Cells); from += columns {
		row := m.Cells[from:min(from+columns, len(m.Cells))]
		inBand := 0
		for _, c := range row {
			b.WriteRune(characters[classOf(c)])
			if m.bandOf(c) > 0 {
				inBand++
			}
		}
		b.WriteByte('\n')
		if inBand > 0 {
			// The band is the lowest offsets, so it fills a row from the left.
			fmt.Fprintln(b, strings.Repeat("^", inBand))
		}
	}
	sum := m.counts()
	fmt.Fprintf(b, "one character is a cell of %s; a letter marks the worst in it\n", m.cellSize())
	fmt.Fprintf(b, "  .     free       %s\n", grouped(sum.free))
	fmt.Fprintf(b, "  ░▒▓█  in use     %s (share of the cell: up to 25, 50, 75, 100%%)\n", grouped(sum.inUse))
	fmt.Fprintf(b, "  D     duplicate  %s (in use by more than one Service)\n", grouped(sum.duplicate))
	fmt.Fprintf(b, "  X     lost       %s (in use, but not stored)\n", grouped(sum.lost))
	fmt.Fprintf(b, "  L     leaked     %s (stored, but not in use)\n", grouped(sum.leaked))
	if m.StaticBand > 0 {
		fmt.Fprintf(b, "  ^     %s\n", m.bandLegend())
	}
}
