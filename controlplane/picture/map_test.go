package picture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// forms are all ways to draw, for what holds in each of them.
var forms = map[string]func(io.Writer, []Map) error{
	"HTML": func(w io.Writer, maps []Map) error { return HTML(w, Page{Maps: maps}) },
	"Text": Text,
}

// drawnPage is what a reader of the page's elements sees.
type drawnPage struct {
	title    string
	cells    []map[string]string // attributes of the cells of maps
	elements map[string]int      // how often an element occurs
}

func parse(t *testing.T, page string) drawnPage {
	t.Helper()
	p := drawnPage{elements: map[string]int{}}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		p.elements[node.Data]++
		attributes := map[string]string{}
		for _, attribute := range node.Attr {
			attributes[attribute.Key] = attribute.Val
		}
		switch {
		case node.Data == "h3":
			p.title = node.FirstChild.Data
		case node.Data == "i" && attributes["title"] != "":
			if node.FirstChild != nil {
				attributes["mark"] = node.FirstChild.Data
			}
			p.cells = append(p.cells, attributes)
		}
	}
	return p
}

func draw(t *testing.T, form string, maps ...Map) string {
	t.Helper()
	var b bytes.Buffer
	if err := forms[form](&b, maps); err != nil {
		t.Fatalf("%s: %v", form, err)
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
	if form == "HTML" {
		pattern = `</i>` + name + number
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
		{rangekeeper.Cell{Len: 9, InUse: 4, Leaked: 5, Lost: 2, Duplicate: 1}, duplicate, "offset 0 to offset 8: 1 duplicate, 2 lost, 5 leaked, 4 in use"},
		{rangekeeper.Cell{Len: 9, InUse: 4, Leaked: 3, Lost: 2}, lost, "offset 0 to offset 8: 2 lost, 3 leaked, 4 in use, 2 free"},
		{rangekeeper.Cell{Len: 9, InUse: 4, Leaked: 3}, leaked, "offset 0 to offset 8: 3 leaked, 4 in use, 2 free"},
		{rangekeeper.Cell{Len: 1, InUse: 1}, whole, "offset 0: 1 in use"},
		{rangekeeper.Cell{Len: 9}, free, "offset 0 to offset 8: 9 free"},
	} {
		p := parse(t, draw(t, "HTML", oneCell(c.cell)))
		if len(p.cells) != 1 || p.cells[0]["title"] != c.title || p.cells[0]["class"] != fmt.Sprintf("cell c%d", c.want) {
			t.Errorf("%+v: %q, want %q", c.cell, p.cells, c.title)
		}
		if mark := p.cells[0]["mark"]; c.want >= leaked && mark != string(characters[c.want]) || c.want < leaked && mark != "" {
			t.Errorf("%+v: mark %q", c.cell, mark)
		}
	}
}

// TestTooltips name the values of each cell, and no more than a tooltip has room for.
func TestTooltips(t *testing.T) {
	m := Map{Name: "serviceips", Range: "10.96.0.0/24", Size: 130, StaticBand: 2, ValueAt: func(offset uint64) string { return fmt.Sprintf("10.96.0.%d", offset+1) }}
	m.Cells = []rangekeeper.Cell{{Len: 1, InUse: 1}, {First: 1, Len: 99, InUse: 15}, {First: 100, Len: 30, Leaked: 1}}
	m.Users = []User{{0, "10.96.0.1", "default/kubernetes"}}
	for i := range uint64(15) {
		m.Users = append(m.Users, User{i + 10, m.ValueAt(i + 10), "a/b"})
	}
	m.Users = append(m.Users, User{129, "10.96.0.130", "leaked"})
	p := parse(t, draw(t, "HTML", m))
	if len(p.cells) != 3 {
		t.Fatalf("%q", p.cells)
	}
	want := "10.96.0.2 to 10.96.0.100: 15 in use, 84 free; 1 in the static band"
	for i := range namedValues {
		want += fmt.Sprintf("\n10.96.0.%d a/b", i+11)
	}
	for i, want := range []string{
		"10.96.0.1: 1 in use; 1 in the static band\n10.96.0.1 default/kubernetes",
		want + "\nand 3 more",
		"10.96.0.101 to 10.96.0.130: 1 leaked, 29 free\n10.96.0.130 leaked",
	} {
		if p.cells[i]["title"] != want {
			t.Errorf("got %q\nwant %q", p.cells[i]["title"], want)
		}
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
	}{
		{254, 1, 16, 16},
		{1000, 10, 25, 3},
		{1000, 10, 655, 66},
		{1000, 10, 0, 0},
		{1048574, 1024, 256, 1},
		{1000, 10, 1000, 100},
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

		marked := 0
		for _, cell := range parse(t, draw(t, "HTML", m)).cells {
			if strings.HasSuffix(cell["class"], " band") {
				marked++
			}
		}
		if marked != c.marked {
			t.Errorf("band %d of %d: %d cells are marked, want %d", c.band, c.size, marked, c.marked)
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
	p, plain := parse(t, draw(t, "HTML", m)), parse(t, draw(t, "HTML", oneCell(rangekeeper.Cell{Len: 4, InUse: 1})))
	if !maps.Equal(p.elements, plain.elements) {
		t.Errorf("elements from a name: %v, not %v", p.elements, plain.elements)
	}
	if want := "a<script>&\"'�[31m��]]>"; !strings.Contains(p.title, want) {
		t.Errorf("title %q lacks %q", p.title, want)
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
	outcome, err := pass.Finish()
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
	if index, err = audit.AddServiceCIDR("fd00::/64", true); err != nil {
		t.Fatal(err)
	}
	wide, err := audit.Finish()
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
