// Package screen shows documents: as text for people, as pages, as gauges, as JSON and YAML. It reads no cluster.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	// shortList is the number of rows of a list that is not shown in full.
	shortList = 5
	// textWidth is the width of text where there is no terminal.
	textWidth = 80
	// widestColumn is the width up to which cells are aligned.
	widestColumn = 40
)

// Screen is text for people. On a terminal it keeps to the terminal's width and has colours; elsewhere rows have one
// line each, for grep.
type Screen struct {
	b     strings.Builder
	width int
	// breaksRows says that a row that is longer than width goes on in the next line.
	breaksRows, hasColor bool
	// all says that lists are shown in full.
	all bool
}

// New returns an empty screen for a writer. With all it shows lists in full.
func New(w io.Writer, all bool) *Screen {
	s := &Screen{width: textWidth, all: all}
	file, ok := Terminal(w)
	if !ok {
		return s
	}
	s.breaksRows = true
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		s.width = width
	}
	s.hasColor = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// Terminal returns the terminal that is written to, if it is one.
func Terminal(w io.Writer) (*os.File, bool) {
	if messages, ok := w.(Messages); ok {
		w = messages.Writer
	}
	file, ok := w.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

// Print writes what the screen has.
func (s *Screen) Print(w io.Writer) error {
	_, err := io.WriteString(w, s.b.String())
	return err
}

// Blank separates what comes from what is there.
func (s *Screen) Blank() {
	if s.b.Len() > 0 && !strings.HasSuffix(s.b.String(), "\n\n") {
		s.b.WriteByte('\n')
	}
}

const (
	bold   = "1"
	red    = "1;31"
	yellow = "33"
	cyan   = "36"
)

func (s *Screen) colored(color, text string) string {
	if !s.hasColor || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// text writes words, in as many lines as they need.
func (s *Screen) text(indent int, color, text string) {
	for _, line := range Wrapped(text, s.width-indent, 0) {
		fmt.Fprintf(&s.b, "%*s%s\n", indent, "", s.colored(color, line))
	}
}

// Title writes a line in bold.
func (s *Screen) Title(text string) { s.text(0, bold, text) }

// Wrapped breaks a text into lines, all but the first indented. A word is never broken.
func Wrapped(text string, width, indent int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, strings.TrimRight(line, " "))
			line = strings.Repeat(" ", indent) + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// table writes rows in columns below a header. On a terminal that is too narrow for these each row is a block with a
// line for each cell.
func (s *Screen) table(indent int, header []string, rows [][]string) {
	unbroken := Screen{width: s.width}
	lines := unbroken.aligned(indent, append([][]string{header}, rows...))
	if !s.breaksRows || utf8.RuneCountInString(lines[0]) <= s.width+1 { // with its newline
		s.b.WriteString(strings.Join(s.aligned(indent, append([][]string{header}, rows...)), ""))
		return
	}
	for i, row := range rows {
		if i > 0 {
			s.Blank()
		}
		var cells [][]string
		for j, cell := range row {
			cells = append(cells, []string{header[j], cell})
		}
		s.b.WriteString(strings.Join(s.aligned(indent, cells), ""))
	}
}

// aligned returns the text of each row, with the columns of all rows aligned.
func (s *Screen) aligned(indent int, rows [][]string) (texts []string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = min(max(widths[i], utf8.RuneCountInString(cell)), widestColumn)
		}
	}
	for _, row := range rows {
		var line strings.Builder
		last := len(row) - 1
		for i, cell := range row[:last] {
			line.WriteString(cell + strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)+2))
		}
		lines := []string{strings.TrimRight(line.String()+row[last], " ")}
		if s.breaksRows && utf8.RuneCountInString(lines[0]) > s.width-indent {
			lines = Wrapped(strings.TrimRight(line.String(), " "), s.width-indent, 4)
			for _, rest := range Wrapped(row[last], s.width-indent-4, 0) {
				lines = append(lines, "    "+rest)
			}
		}
		var text strings.Builder
		for _, line := range lines {
			fmt.Fprintf(&text, "%*s%s\n", indent, "", line)
		}
		texts = append(texts, text.String())
	}
	return texts
}

// TerminalWidth returns the width of the terminal that is written to, 0 where there is none.
func TerminalWidth(w io.Writer) int {
	if s := New(w, false); s.breaksRows {
		return s.width
	}
	return 0
}
