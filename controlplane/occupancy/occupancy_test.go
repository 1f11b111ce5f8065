package occupancy

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// forms are all ways to draw, for what holds in each of them.
var forms = map[string]func(io.Writer, []Map) error{"SVG": SVG, "Text": Text}

// picture is what a reader of the SVG's elements sees.
type picture struct {
	text     []string // character data of text elements
	tooltips []string
	rects    []map[string]string
	paths    []map[string]string
	height   int
	names    map[string]int // how often an element occurs
}

func parse(t *testing.T, svg []byte) picture {
	t.Helper()
	p := picture{names: map[string]int{}}
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	var open []string
	var text strings.Builder
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			attributes := map[string]string{}
			for _, a := range token.Attr {
				attributes[a.Name.Local] = a.Value
			}
			p.names[token.Name.Local]++
			open = append(open, token.Name.Local)
			switch token.Name.Local {
			case "svg":
				p.height, _ = strconv.Atoi(attributes["height"])
			case "rect":
				p.rects = append(p.rects, attributes)
			case "path":
				p.paths = append(p.paths, attributes)
			case "text", "title":
				text.Reset()
			}
		case xml.CharData:
			text.Write(token)
		case xml.EndElement:
			switch token.Name.Local {
			case "text":
				p.text = append(p.text, text.String())
			case "title":
				p.tooltips = append(p.tooltips, text.String())
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Fatalf("elements left open: %v", open)
	}
	return p
}

func draw(t *testing.T, form string, maps ...Map) string {
	t.Helper()
	var b bytes.Buffer
	if err := forms[form](&b, maps); err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	if form == "SVG" {
		parse(t, b.Bytes())
	}
	if !utf8.Valid(b.Bytes()) {
		t.Fatalf("%s: not UTF-8", form)
	}
	return b.String()
}

var number = `\s+([0-9,]+)`

// legendCount reads a class's count from the legend, in either form.
func legendCount(t *testing.T, form, drawn, name string) *big.Int {
	t.Helper()
	pattern := `(?m)^\s+\S+\s+` + name + number
	if form == "SVG" {
		pattern = `>` + name + number
	}
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(drawn, -1)
	if len(found) != 1 {
		t.Fatalf("%s: legend has %d entries %q\n%s", form, len(found), name, drawn)
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(found[0][1], ",", ""), 10)
	if !ok {
		t.Fatalf("%s: count %q", form, found[0][1])
	}
	return n
}

// cellRows returns the rows of cells of the terminal form, and the marks of the
// static band below each.
func cellRows(drawn string) (rows, bands []string) {
	lines := strings.Split(drawn, "\n")[2:]
	for i, line := range lines {
		if strings.HasPrefix(line, "one character is") {
			break
		}
		if strings.HasPrefix(line, "^") {
			continue
		}
		rows = append(rows, line)
		if next := lines[i+1]; strings.HasPrefix(next, "^") {
			bands = append(bands, next)
		} else {
			bands = append(bands, "")
		}
	}
	return rows, bands
}

func oneCell(c rangekeeper.Cell) Map {
	return Map{Name: "serviceips", Range: "10.96.0.0/24", Mode: "bitmap", Size: c.Len, Cells: []rangekeeper.Cell{c}}
}

// TestCountsAreSums draws random values, and compares the legend with sums over
// the values themselves.
func TestCountsAreSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		size := 1 + random.IntN(3000)
		length := 1 + random.IntN(40)
		m := Map{Name: "servicenodeports", Range: "30000-32767", Size: uint64(size)}
		want := map[string]int64{}
		worst := map[int]rune{}
		for offset := range size {
			if offset%length == 0 {
				m.Cells = append(m.Cells, rangekeeper.Cell{First: uint64(offset)})
			}
			index := len(m.Cells) - 1
			c := &m.Cells[index]
			c.Len++
			switch draw := random.IntN(200); {
			case draw < 100:
				want["free"]++
				continue
			case draw < 101:
				want["leaked"]++
				c.Leaked++
				if worst[index] == 0 {
					worst[index] = 'L'
				}
				continue
			case draw < 102: // a value may be both
				want["lost"]++
				want["duplicate"]++
				c.Lost++
				c.Duplicate++
				worst[index] = 'D'
			case draw < 104:
				want["lost"]++
				c.Lost++
				if worst[index] != 'D' {
					worst[index] = 'X'
				}
			}
			want["in use"]++
			c.InUse++
		}
		for form := range forms {
			drawn := draw(t, form, m)
			for _, name := range []string{"free", "in use", "leaked", "lost", "duplicate"} {
				if got := legendCount(t, form, drawn, name); got.Cmp(big.NewInt(want[name])) != 0 {
					t.Errorf("%s: legend says %s %v, there are %d", form, name, got, want[name])
				}
			}
		}
		rows, _ := cellRows(draw(t, "Text", m))
		all := []rune(strings.Join(rows, ""))
		if len(all) != len(m.Cells) {
			t.Fatalf("%d characters for %d cells", len(all), len(m.Cells))
		}
		for i, got := range all {
			if letter := strings.ContainsRune("DXL", got); worst[i] != 0 && got != worst[i] || worst[i] == 0 && letter {
				t.Errorf("cell %d %+v is %c, its worst is %c", i, m.Cells[i], got, worst[i])
			}
		}
	}
}

func TestShareInUse(t *testing.T) {
	const huge = math.MaxUint64
	for _, c := range []struct {
		inUse, length uint64
		want          class
	}{
		{0, 1, free}, {1, 1, whole},
		{1, 4, quarter}, {2, 4, half}, {3, 4, threeQuarters}, {4, 4, whole},
		{1, 1000, quarter}, {250, 1000, quarter}, {251, 1000, half}, {500, 1000, half}, {501, 1000, threeQuarters},
		{750, 1000, threeQuarters}, {751, 1000, whole}, {999, 1000, whole},
		{1, huge, quarter}, {huge / 4, huge, quarter}, {huge/4 + 1, huge, half}, {huge / 2, huge, half},
		{huge/2 + 1, huge, threeQuarters}, {huge - 1, huge, whole}, {huge, huge, whole},
	} {
		if got := classOf(rangekeeper.Cell{Len: c.length, InUse: c.inUse}); got != c.want {
			t.Errorf("%d of %d in use: class %d, want %d", c.inUse, c.length, got, c.want)
		}
	}
}

func TestWorstWins(t *testing.T) {
	for _, c := range []struct {
		cell  rangekeeper.Cell
		want  class
		title string
	}{
		{rangekeeper.Cell{Len: 9, InUse: 4, Leaked: 5, Lost: 2, Duplicate: 1}, duplicate, "offsets 0 to 8, 1 duplicate, 2 lost, 5 leaked, 4 in use"},
		{rangekeeper.Cell{Len: 9, InUse: 4, Leaked: 3, Lost: 2}, lost, "offsets 0 to 8, 2 lost, 3 leaked, 4 in use, 2 free"},
		{rangekeeper.Cell{Len: 9, InUse: 4, Leaked: 3}, leaked, "offsets 0 to 8, 3 leaked, 4 in use, 2 free"},
		{rangekeeper.Cell{Len: 1, InUse: 1}, whole, "offset 0, 1 in use"},
	} {
		p := parse(t, []byte(draw(t, "SVG", oneCell(c.cell))))
		if len(p.tooltips) != 1 || p.tooltips[0] != c.title {
			t.Errorf("%+v: tooltips %q, want %q", c.cell, p.tooltips, c.title)
		}
		// The first rect is the background, the second the only cell.
		if got, want := p.rects[1]["class"], fmt.Sprintf("c%d", c.want); got != want {
			t.Errorf("%+v: drawn as %s, want %s", c.cell, got, want)
		}
	}
	if p := parse(t, []byte(draw(t, "SVG", oneCell(rangekeeper.Cell{Len: 9})))); len(p.tooltips) != 0 {
		t.Errorf("an empty cell has tooltips %q", p.tooltips)
	}
}

func equalCells(size, length uint64) []rangekeeper.Cell {
	var cells []rangekeeper.Cell
	for first := uint64(0); first < size; first += length {
		cells = append(cells, rangekeeper.Cell{First: first, Len: min(length, size-first)})
	}
	return cells
}

func TestStaticBand(t *testing.T) {
	for _, c := range []struct {
		size, length uint64
		band         uint32
		marked       int // cells
		bars         float64
	}{
		{254, 1, 16, 16, 16 * pitch},
		{1000, 10, 25, 3, 2.5 * pitch},
		{1000, 10, 655, 66, 65.5 * pitch},
		{1000, 10, 0, 0, 0},
		{1048574, 1024, 256, 1, bandMinimum},
		{1000, 10, 1000, 100, 100 * pitch},
	} {
		m := Map{Size: c.size, StaticBand: c.band, Cells: equalCells(c.size, c.length)}
		drawn := draw(t, "Text", m)
		rows, bands := cellRows(drawn)
		left := c.marked
		for i, row := range rows {
			width := utf8.RuneCountInString(row)
			if want := min(left, width); len(bands[i]) != want {
				t.Errorf("band %d of %d: row %d has %d marks, want %d", c.band, c.size, i, len(bands[i]), want)
			}
			left -= len(bands[i])
		}
		named := fmt.Sprintf("static band: offsets 0 to %d\n", c.band-1)
		if c.band > 0 && !strings.Contains(strings.ReplaceAll(drawn, ",", ""), named) {
			t.Errorf("the legend lacks %q:\n%s", named, drawn)
		}
		if c.band == 0 && strings.Contains(drawn, "static band") {
			t.Errorf("a range without a static band mentions one:\n%s", drawn)
		}

		var bars float64
		for _, path := range parse(t, []byte(draw(t, "SVG", m))).paths {
			if path["class"] != "band" {
				continue
			}
			for _, bar := range regexp.MustCompile(`h([0-9.]+)v`).FindAllStringSubmatch(path["d"], -1) {
				length, err := strconv.ParseFloat(bar[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				bars += length
			}
		}
		if math.Abs(bars-c.bars) > 0.1*float64(c.marked) {
			t.Errorf("band %d of %d: bars of %v pixels, want %v", c.band, c.size, bars, c.bars)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	for form := range forms {
		if drawn := draw(t, form); !strings.Contains(strings.ToLower(drawn), "no ranges") {
			t.Errorf("%s without maps:\n%s", form, drawn)
		}
		drawn := draw(t, form, Map{Name: "serviceips", Range: "10.96.0.0/32"})
		if !strings.Contains(drawn, "size 0, used 0, free 0") || !strings.Contains(drawn, "The range is empty.") {
			t.Errorf("%s of an empty range:\n%s", form, drawn)
		}
		drawn = draw(t, form, Map{Name: "serviceips", Range: "10.96.0.0/24", Mode: "stale", Size: 254, Used: 3, Free: 251, StaticBand: 16})
		if !strings.Contains(drawn, "mode stale, size 254, used 3, free 251") || !strings.Contains(drawn, "no counts") {
			t.Errorf("%s without cells:\n%s", form, drawn)
		}
	}
}

func TestHugeRange(t *testing.T) {
	const size = math.MaxUint64
	m := Map{Name: "wide", Range: "::/64", Mode: "ipaddress", Size: size, Used: 5, Free: size - 5, StaticBand: math.MaxUint32}
	length := uint64(size/CellCount + 1)
	for i := range uint64(CellCount) {
		m.Cells = append(m.Cells, rangekeeper.Cell{First: i * length, Len: min(length, size-i*length)})
	}
	m.Cells[3].InUse = 5
	m.Cells[1023].Leaked = 7
	free := new(big.Int).SetUint64(size)
	free.Sub(free, big.NewInt(12))
	for form := range forms {
		drawn := draw(t, form, m)
		if got := legendCount(t, form, drawn, "free"); got.Cmp(free) != 0 {
			t.Errorf("%s: free %v, want %v", form, got, free)
		}
		if !strings.Contains(drawn, "18,446,744,073,709,551,615") {
			t.Errorf("%s lacks the size:\n%s", form, drawn)
		}
	}
	drawn := draw(t, "Text", oneCell(rangekeeper.Cell{Len: size, InUse: size, Lost: size, Duplicate: size}))
	if got := legendCount(t, "Text", drawn, "in use"); got.Cmp(new(big.Int).SetUint64(size)) != 0 {
		t.Errorf("in use %v", got)
	}
}

// TestForeignText: names come from keys of a store.
func TestForeignText(t *testing.T) {
	m := oneCell(rangekeeper.Cell{Len: 4, InUse: 1})
	m.Name = "a<script>&\"'\x1b[31m\u202e\x00]]>"
	m.Range = "\xff" + strings.Repeat("w", 300)
	m.Mode = "<b>"
	p := parse(t, []byte(draw(t, "SVG", m)))
	for _, name := range []string{"script", "b"} {
		if p.names[name] > 0 {
			t.Errorf("element %s from a name", name)
		}
	}
	if want := "a<script>&\"'�[31m��]]>"; !strings.Contains(p.text[0], want) {
		t.Errorf("title %q lacks %q", p.text[0], want)
	}
	if n := utf8.RuneCountInString(p.text[0]); n > 2*textLimit+1 {
		t.Errorf("the title has %d characters", n)
	}
	if drawn := draw(t, "Text", m); strings.ContainsAny(drawn, "\x1b\x00\u202e") {
		t.Errorf("control characters in %q", drawn)
	}
}

func TestBadCells(t *testing.T) {
	type cell = rangekeeper.Cell
	for want, m := range map[string]Map{
		"static band has 17 values":             {Size: 16, StaticBand: 17},
		"cell 0 begins at offset 1":             {Size: 8, Cells: []cell{{First: 1, Len: 7}}},
		"cell 1 begins at offset 3":             {Size: 8, Cells: []cell{{Len: 4}, {First: 3, Len: 5}}},
		"cell 1 has no values":                  {Size: 8, Cells: []cell{{Len: 8}, {First: 8}}},
		"cell 0 has 9 values, but only 8":       {Size: 8, Cells: []cell{{Len: 9}}},
		"cell 0 has 1 values, but only 0":       {Cells: []cell{{Len: 1}}},
		"the cells end at offset 4 of 8":        {Size: 8, Cells: []cell{{Len: 4}}},
		"but 5 in use and 4 leaked":             {Size: 8, Cells: []cell{{Len: 8, InUse: 5, Leaked: 4}}},
		"but 9 in use":                          {Size: 8, Cells: []cell{{Len: 8, InUse: 9}}},
		"but 1 in use and 18446744073709551615": {Size: 8, Cells: []cell{{Len: 8, InUse: 1, Leaked: math.MaxUint64}}},
		"but 3 lost":                            {Size: 8, Cells: []cell{{Len: 8, InUse: 2, Lost: 3}}},
		"but 0 lost and 3 duplicate":            {Size: 8, Cells: []cell{{Len: 8, InUse: 2, Duplicate: 3}}},
	} {
		m.Name, m.Range = "serviceips", "10.96.0.0/12"
		for form, drawTo := range forms {
			var b bytes.Buffer
			err := drawTo(&b, []Map{oneCell(cell{Len: 1}), m})
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"serviceips" ("10.96.0.0/12")`) {
				t.Errorf("%s: error %v, want one with %q", form, err, want)
			}
			if b.Len() > 0 {
				t.Errorf("%s: wrote %d bytes before it failed with %v", form, b.Len(), err)
			}
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	for form, drawTo := range forms {
		if err := drawTo(fullDisk{}, nil); !errors.Is(err, errFull) {
			t.Errorf("%s: error %v", form, err)
		}
	}
}

// TestInsideThePicture: nothing may lie outside of what is shown.
func TestInsideThePicture(t *testing.T) {
	big := Map{Name: strings.Repeat("n", 200), Range: strings.Repeat("r", 200), Size: 5000, StaticBand: 70, Cells: equalCells(5000, 1)}
	for i := range big.Cells {
		big.Cells[i].InUse, big.Cells[i].Lost = 1, 1
	}
	p := parse(t, []byte(draw(t, "SVG", big, oneCell(rangekeeper.Cell{Len: 3}), Map{})))
	for _, rect := range p.rects {
		x, _ := strconv.Atoi(rect["x"])
		y, _ := strconv.Atoi(rect["y"])
		w, _ := strconv.Atoi(rect["width"])
		h, _ := strconv.Atoi(rect["height"])
		if w <= 0 || h <= 0 || x+w > width || y+h > p.height {
			t.Errorf("rect %v in a picture of %d×%d", rect, width, p.height)
		}
	}
	if len(p.rects) < len(big.Cells) {
		t.Errorf("%d rects for %d cells", len(p.rects), len(big.Cells))
	}
}

// TestCellsOfTheCore draws what the core counts.
func TestCellsOfTheCore(t *testing.T) {
	r, err := rangekeeper.ParseCIDR("10.96.0.0/12")
	if err != nil {
		t.Fatal(err)
	}
	pass, err := rangekeeper.NewAudit()
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	index, err := pass.AddBitmap(r, rangekeeper.Stored{Range: r.String(), Data: []byte{0b1101}})
	if err != nil {
		t.Fatal(err)
	}
	var services rangekeeper.Services
	// Stored are offsets 0, 2 and 3, which are addresses .1, .3 and .4.
	for _, address := range []string{"10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.3", "10.111.255.254"} {
		services.Add(address, []string{address})
	}
	if err := pass.Observe(&services); err != nil {
		t.Fatal(err)
	}
	outcome, err := pass.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer outcome.Close()
	cells, err := outcome.Occupancy(index, CellCount)
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(r.Size())
	for form := range forms {
		drawn := draw(t, form, Map{Name: "serviceips", Range: r.String(), Mode: "bitmap", Size: size, Used: 3, Free: size - 3,
			StaticBand: r.StaticBand(), Cells: cells})
		for name, want := range map[string]int64{"in use": 4, "lost": 2, "leaked": 1, "duplicate": 1, "free": 1<<20 - 2 - 5} {
			if got := legendCount(t, form, drawn, name); got.Cmp(big.NewInt(want)) != 0 {
				t.Errorf("%s: %s %v, want %d", form, name, got, want)
			}
		}
	}

	audit, err := rangekeeper.NewIPAddressAudit(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer audit.Close()
	if index, err = audit.AddServiceCIDR("fd00::/64"); err != nil {
		t.Fatal(err)
	}
	wide, err := audit.Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	if cells, err = wide.Occupancy(index, CellCount); err != nil {
		t.Fatal(err)
	}
	about := wide.Range(index)
	rows, _ := cellRows(draw(t, "Text", Map{Name: "wide", Range: "fd00::/64", Mode: "ipaddress", Size: about.Size, Free: about.Size, Cells: cells}))
	if len(rows) != CellCount/columns {
		t.Errorf("%d rows", len(rows))
	}
}
