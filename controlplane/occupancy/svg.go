package occupancy

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// All lengths are pixels at the picture's natural size.
const (
	width  = 1000
	margin = 20
	// pitch is the distance from one cell to the next; 64 of them fill the width.
	pitch = (width - 2*margin) / columns
	// side is the length of a cell's sides.
	side = pitch - 2
	// rowPitch leaves room for the mark of the static band below a row.
	rowPitch   = side + 6
	bandHeight = 3
	// bandMinimum keeps a band visible that is a sliver of its cell.
	bandMinimum = 4
	lineHeight  = 22
	// glyph is a generous guess at the width of one character of the legend, as
	// the viewer chooses the font.
	glyph = 6.8
	// textLimit is the number of characters of a name or a range that fit into the title.
	textLimit = 44
)

// styles are light to dark for the share in use. The three faults are of the
// Okabe-Ito palette, which colour-blind people can distinguish, and
// bear a letter besides.
const styles = `text{font-family:sans-serif;font-size:13px;fill:#222}
.name{font-size:17px;font-weight:bold}
.range{font-weight:normal}
.mark{font-size:10px;font-weight:bold;text-anchor:middle;fill:#000}
.c0{fill:#e6e6e6}
.c1{fill:#bdd7ee}
.c2{fill:#7fb2dd}
.c3{fill:#3f82bd}
.c4{fill:#0b4a82}
.c5{fill:#f0e442}
.c6{fill:#e69f00}
.c7{fill:#d55e00}
.c5,.c6,.c7{stroke:#222;stroke-width:1}
.band{fill:#000}
`

// SVG draws the maps as one picture, 1000 pixels wide, which needs no font or
// script from elsewhere. It writes nothing if a map's cells contradict one
// another.
func SVG(w io.Writer, maps []Map) error {
	if err := check(maps); err != nil {
		return err
	}
	d := drawing{y: margin}
	if len(maps) == 0 {
		d.line("No ranges.")
	}
	for i := range maps {
		d.draw(&maps[i])
	}
	_, err := fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Occupancy of ranges">
<style>%s</style>
<rect width="%d" height="%d" fill="#fff"/>
%s</svg>
`, width, d.y, width, d.y, styles, width, d.y, d.body.String())
	return err
}

// drawing grows downwards: y is the upper edge of the next element.
type drawing struct {
	body strings.Builder
	y    int
}

func (d *drawing) draw(m *Map) {
	fmt.Fprintf(&d.body, `<text class="name" x="%d" y="%d">%s <tspan class="range" dx="6">%s</tspan></text>`+"\n",
		margin, d.y+16, escaped(shortened(m.Name)), escaped(shortened(m.Range)))
	d.y += lineHeight + 2
	d.line(m.totals())
	if len(m.Cells) == 0 {
		d.line(m.nothingToDraw())
	} else {
		d.cells(m)
		d.legend(m)
	}
	d.y += margin
}

func (d *drawing) line(text string) {
	fmt.Fprintf(&d.body, `<text x="%d" y="%d">%s</text>`+"\n", margin, d.y+14, escaped(text))
	d.y += lineHeight
}

func (d *drawing) cells(m *Map) {
	// The free cells have no tooltip and are one path.
	var empty, band strings.Builder
	for i, c := range m.Cells {
		x, y := margin+i%columns*pitch, d.y+i/columns*rowPitch
		if n := m.bandOf(c); n > 0 {
			length := max(bandMinimum, float64(n)/float64(c.Len)*pitch)
			fmt.Fprintf(&band, "M%d %dh%.1fv%dh-%.1fz", x, y+side+1, length, bandHeight, length)
		}
		class := classOf(c)
		if class == free {
			fmt.Fprintf(&empty, "M%d %dh%dv%dh-%dz", x, y, side, side, side)
			continue
		}
		fmt.Fprintf(&d.body, "<g><title>%s</title>", escaped(m.tooltip(c)))
		d.cell(class, x, y)
		d.body.WriteString("</g>\n")
	}
	if empty.Len() > 0 {
		fmt.Fprintf(&d.body, `<path class="c%d" d="%s"/>`+"\n", free, empty.String())
	}
	if band.Len() > 0 {
		fmt.Fprintf(&d.body, `<path class="band" d="%s"/>`+"\n", band.String())
	}
	d.y += (len(m.Cells)+columns-1)/columns*rowPitch + 6
}

func (d *drawing) cell(class class, x, y int) {
	fmt.Fprintf(&d.body, `<rect class="c%d" x="%d" y="%d" width="%d" height="%d"/>`, class, x, y, side, side)
	if class >= leaked {
		fmt.Fprintf(&d.body, `<text class="mark" x="%g" y="%d">%c</text>`, float64(x)+side/2.0, y+side-3, characters[class])
	}
}

func (m *Map) tooltip(cell rangekeeper.Cell) string {
	c := countsOf(cell)
	var s strings.Builder
	s.WriteString(offsets(cell.First, cell.Len))
	for _, part := range []struct {
		n    uint64
		name string
	}{{c.duplicate, "duplicate"}, {c.lost, "lost"}, {c.leaked, "leaked"}, {c.inUse, "in use"}, {c.free, "free"}} {
		if part.n > 0 {
			fmt.Fprintf(&s, ", %s %s", grouped(part.n), part.name)
		}
	}
	if n := m.bandOf(cell); n > 0 {
		fmt.Fprintf(&s, "; %s in the static band", grouped(n))
	}
	return s.String()
}

// legend lists every class with its count of values, in as many lines as that
// needs.
func (d *drawing) legend(m *Map) {
	sum := m.counts()
	x := margin
	entry := func(text string, swatches ...class) {
		textWidth := int(float64(utf8.RuneCountInString(text))*glyph) + pitch
		if entryWidth := max(len(swatches), 1)*pitch + 4 + textWidth; x > margin && x+entryWidth > width-margin {
			x = margin
			d.y += lineHeight
		}
		for _, class := range swatches {
			d.cell(class, x, d.y+3)
			x += pitch
		}
		if len(swatches) == 0 {
			fmt.Fprintf(&d.body, `<rect class="band" x="%d" y="%d" width="%d" height="%d"/>`, x, d.y+8, side, bandHeight)
			x += pitch
		}
		fmt.Fprintf(&d.body, `<text x="%d" y="%d">%s</text>`+"\n", x+4, d.y+14, escaped(text))
		x += 4 + textWidth
	}
	entry("free "+grouped(sum.free), free)
	entry("in use "+grouped(sum.inUse)+" (up to 25, 50, 75, 100% of a cell of "+m.cellSize()+")", quarter, half, threeQuarters, whole)
	entry("duplicate "+grouped(sum.duplicate), duplicate)
	entry("lost "+grouped(sum.lost), lost)
	entry("leaked "+grouped(sum.leaked), leaked)
	if m.StaticBand > 0 {
		entry(m.bandLegend())
	}
	d.y += lineHeight
}

// shortened keeps a title within the picture.
func shortened(s string) string {
	if utf8.RuneCountInString(s) <= textLimit {
		return s
	}
	return string([]rune(s)[:textLimit-1]) + "…"
}

func escaped(s string) string {
	var b strings.Builder
	// A strings.Builder takes every write.
	_ = xml.EscapeText(&b, []byte(printable(s)))
	return b.String()
}
