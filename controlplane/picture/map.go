// Package picture draws maps of ranges: where values are free or in use, and
// where something is wrong. It only draws; the counts come from the core.
package picture

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// CellCount is the number of cells to ask the core for: 16 rows of a map. Maps with
// more or fewer cells have more or fewer rows.
const CellCount = 16 * columns

// columns is the number of cells in a row, in every form of a map.
const columns = 64

// Map is one range to draw.
type Map struct {
	// Name, Range and Mode are shown without unprintable characters.
	Name, Range, Mode string
	// Size, Used and Free count values; Used are those that are stored.
	Size, Used, Free uint64
	// HasBounds says that at least Used are stored and at most Free are free. A size of 0 is not known then.
	HasBounds bool
	// StaticBand is the number of offsets in the static band, the lowest ones.
	StaticBand uint32
	// Cells cover the offsets from 0 to Size in order. None at all is fine: the
	// range then gets its title only.
	Cells []rangekeeper.Cell
	// ValueAt names the value at an offset, and Users are the values to name, by offset. Only a page needs them.
	ValueAt func(offset uint64) string
	Users   []User
}

// class is the look of a cell: the worst fault in it, or else the share of
// its values that are in use.
type class int

const (
	free    class = iota
	quarter       // up to a quarter is in use
	half
	threeQuarters
	whole
	leaked
	lost
	duplicate
	classes // how many there are
)

func classOf(c rangekeeper.Cell) class {
	switch {
	case c.Duplicate > 0:
		return duplicate
	case c.Lost > 0:
		return lost
	case c.Leaked > 0:
		return leaked
	case c.InUse == 0:
		return free
	}
	// In 128 bits: four times a count may need more than 64.
	hi, lo := bits.Mul64(c.InUse, 4)
	share, rest := bits.Div64(hi, lo, c.Len)
	if rest > 0 {
		share++
	}
	return free + class(share)
}

// counts are values, not cells. Lost and duplicate ones are in use as well.
type counts struct {
	free, inUse, leaked, lost, duplicate uint64
}

func countsOf(c rangekeeper.Cell) counts {
	return counts{c.Len - c.InUse - c.Leaked, c.InUse, c.Leaked, c.Lost, c.Duplicate}
}

func (m *Map) counts() counts {
	var sum counts
	for _, cell := range m.Cells {
		c := countsOf(cell)
		sum.free += c.free
		sum.inUse += c.inUse
		sum.leaked += c.leaked
		sum.lost += c.lost
		sum.duplicate += c.duplicate
	}
	return sum
}

// bandOf says how many values of a cell lie in the static band.
func (m *Map) bandOf(c rangekeeper.Cell) uint64 {
	if band := uint64(m.StaticBand); band > c.First {
		return min(band-c.First, c.Len)
	}
	return 0
}

// check finds the maps that cannot be drawn truly. After it no sum or
// difference of counts overflows.
func check(maps []Map) error {
	for i := range maps {
		m := &maps[i]
		if err := m.check(); err != nil {
			return fmt.Errorf("occupancy map of range %q (%q): %w", m.Name, m.Range, err)
		}
	}
	return nil
}

func (m *Map) check() error {
	if uint64(m.StaticBand) > m.Size {
		return fmt.Errorf("the static band has %d values, the range only %d", m.StaticBand, m.Size)
	}
	if len(m.Cells) == 0 {
		return nil
	}
	var next uint64
	for i, c := range m.Cells {
		switch {
		case c.First != next:
			return fmt.Errorf("cell %d begins at offset %d instead of %d", i, c.First, next)
		case c.Len == 0:
			return fmt.Errorf("cell %d has no values", i)
		case c.Len > m.Size-next:
			return fmt.Errorf("cell %d has %d values, but only %d are left of the range", i, c.Len, m.Size-next)
		case c.InUse > c.Len || c.Leaked > c.Len-c.InUse:
			return fmt.Errorf("cell %d has %d values, but %d in use and %d leaked", i, c.Len, c.InUse, c.Leaked)
		case c.Lost > c.InUse || c.Duplicate > c.InUse:
			return fmt.Errorf("cell %d has %d values in use, but %d lost and %d duplicate", i, c.InUse, c.Lost, c.Duplicate)
		}
		next += c.Len
	}
	if next != m.Size {
		return fmt.Errorf("the cells end at offset %d of %d", next, m.Size)
	}
	return nil
}

// nothingToDraw replaces the cells when there are none.
func (m *Map) nothingToDraw() string {
	switch {
	case m.Size == 0 && m.HasBounds:
		return "The range is not known."
	case m.Size == 0:
		return "The range is empty."
	}
	return "There are no counts for this range."
}

// totals is the line below the name.
func (m *Map) totals() string {
	var s strings.Builder
	if m.Mode != "" {
		fmt.Fprintf(&s, "mode %s, ", printable(m.Mode))
	}
	switch {
	case m.Size == 0 && m.HasBounds:
		fmt.Fprintf(&s, "used at least %s", grouped(m.Used))
	case m.HasBounds:
		fmt.Fprintf(&s, "size %s, used at least %s, free at most %s", grouped(m.Size), grouped(m.Used), grouped(m.Free))
	default:
		fmt.Fprintf(&s, "size %s, used %s, free %s", grouped(m.Size), grouped(m.Used), grouped(m.Free))
	}
	return s.String()
}

// cellSize says how much a cell stands for; only the last one may be shorter.
func (m *Map) cellSize() string {
	if m.Cells[0].Len == 1 {
		return "1 value"
	}
	return grouped(m.Cells[0].Len) + " values"
}

func (m *Map) bandLegend() string {
	return "static band: " + offsets(0, uint64(m.StaticBand))
}

// offsets names a stretch that is not empty.
func offsets(first, length uint64) string {
	if length == 1 {
		return "offset " + grouped(first)
	}
	return "offsets " + grouped(first) + " to " + grouped(first+length-1)
}

// grouped writes a number with a comma before each three digits.
func grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// printable replaces characters that control a terminal or turn the text around: names
// come from keys of a store, which may hold any bytes.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
