package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/runbook"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

const (
	// shortList is the number of rows of a list that is not shown in full.
	shortList = 5
	// textWidth is the width of text where there is no terminal.
	textWidth = 80
	// widestColumn is the width up to which cells are aligned.
	widestColumn = 40
)

// screen is text for people. On a terminal it keeps to the terminal's width and has colours; elsewhere rows have one line
// each, for grep.
type screen struct {
	b     strings.Builder
	width int
	// breaksRows says that a row that is longer than width goes on in the next line.
	breaksRows, hasColor bool
	// all says that lists are shown in full.
	all bool
}

func newScreen(w io.Writer, all bool) *screen {
	s := &screen{width: textWidth, all: all}
	file, ok := terminal(w)
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

// terminal returns the terminal that is written to, if it is one.
func terminal(w io.Writer) (*os.File, bool) {
	file, ok := w.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

func (s *screen) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, s.b.String())
	return err
}

// blank separates what comes from what is there.
func (s *screen) blank() {
	if s.b.Len() > 0 {
		s.b.WriteByte('\n')
	}
}

const (
	bold   = "1"
	red    = "1;31"
	yellow = "33"
	cyan   = "36"
)

var severityColors = map[audit.Severity]string{audit.BreaksTraffic: red, audit.DuplicateRisk: yellow, audit.Exhausted: yellow, audit.Wasted: cyan}

func (s *screen) colored(color, text string) string {
	if !s.hasColor || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// text writes words, in as many lines as they need.
func (s *screen) text(indent int, color, text string) {
	for _, line := range wrapped(text, s.width-indent, 0) {
		fmt.Fprintf(&s.b, "%*s%s\n", indent, "", s.colored(color, line))
	}
}

// wrapped breaks a text into lines, all but the first indented. A word is never broken.
func wrapped(text string, width, indent int) []string {
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

// rows writes rows in columns. The first is the header if there is one.
func (s *screen) rows(indent int, rows [][]string) {
	for _, text := range s.aligned(indent, rows) {
		s.b.WriteString(text)
	}
}

// aligned returns the text of each row, with the columns of all rows aligned.
func (s *screen) aligned(indent int, rows [][]string) (texts []string) {
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
			lines = wrapped(strings.TrimRight(line.String(), " "), s.width-indent, 4)
			for _, rest := range wrapped(row[last], s.width-indent-4, 0) {
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

// list writes faults with the Services that claim their values below them, and of many faults the first ones only.
func (s *screen) list(indent int, faults []fault) {
	rest := 0
	if !s.all && len(faults) > shortList+1 { // one row takes no more room than its count
		rest = len(faults) - shortList
		faults = faults[:shortList]
	}
	var rows, claimants [][]string
	for i, f := range faults {
		rows = append(rows, f.row)
		if i > 0 && f.value == faults[i-1].value { // the same claimants
			faults[i].claimants = nil
		}
		claimants = append(claimants, faults[i].claimants...)
	}
	below := s.aligned(indent+2, claimants)
	for i, text := range s.aligned(indent, rows) {
		s.b.WriteString(text)
		n := len(faults[i].claimants)
		s.b.WriteString(strings.Join(below[:n], ""))
		below = below[n:]
	}
	if rest > 0 {
		fmt.Fprintf(&s.b, "%*sand %d more (-o wide shows all)\n", indent, "", rest)
	}
}

// fault is one row of a list: a finding or a leak.
type fault struct {
	severity audit.Severity
	// reason is that of a finding, or runbook.Leak.
	reason, value string
	// subject is what rangekeeper explain takes.
	subject string
	row     []string
	// claimants are rows of all Services that claim the value of a finding, or of an unreadable object what is wrong with it.
	claimants [][]string
}

// objectOf names the object of a finding, beside its value.
func objectOf(f audit.Finding) string {
	if f.Kind == audit.KindIPAddress && f.Name == f.Value {
		return f.Kind
	}
	if f.Namespace == "" {
		return f.Kind + " " + f.Name
	}
	return f.Namespace + "/" + f.Name
}

func faultOf(f audit.Finding, wide bool) fault {
	row := []string{cmp.Or(printable(f.Value), `""`), printable(objectOf(f)), f.Range}
	var claimants [][]string
	for _, claimant := range claimantsOf(f) {
		claimants = append(claimants, append([]string{row[0]}, claimant...))
	}
	if wide {
		row = append(row, f.Message)
	}
	return fault{f.Severity, f.Reason, f.Value, f.Subject(), row, claimants}
}

// claimantsOf returns name, age and what to do of each claimant of a finding's value.
func claimantsOf(f audit.Finding) (rows [][]string) {
	for _, c := range f.Claimants {
		rows = append(rows, []string{printable(c.Namespace + "/" + c.Name), cmp.Or(c.CreationTimestamp, "unknown age"), doesAbout(f, c)})
	}
	return rows
}

// doesAbout says what a claimant does about the value. A ClusterIP never changes.
func doesAbout(f audit.Finding, c audit.Claimant) string {
	switch {
	case c.Tied:
		return "created in the same second: one of these keeps it"
	case len(f.Claimants) == 1:
		return "claims it twice: " + map[bool]string{true: "change one field", false: "recreate"}[f.Reason == rangekeeper.ReasonPortAlreadyAllocated.String()]
	case c.Keeps:
		return "keeps it"
	case f.Reason == rangekeeper.ReasonPortAlreadyAllocated.String():
		return "change or recreate"
	}
	return "recreate"
}

func leakFault(l audit.Leak) fault {
	return fault{l.Severity, runbook.Leak, l.Value, l.Value, []string{l.Value, l.Range}, nil}
}

// faults writes a list for each reason, in the order of the runbook, which has the worst ones first.
func (s *screen) faults(faults []fault, program string) {
	byReason := map[string][]fault{}
	for _, f := range faults {
		byReason[f.reason] = append(byReason[f.reason], f)
	}
	for _, name := range runbook.Names() {
		list := byReason[name]
		if len(list) == 0 {
			continue
		}
		entry, _ := runbook.Named(name)
		fmt.Fprintf(&s.b, "  %s: %s\n", s.colored(severityColors[list[0].severity], fmt.Sprintf("%s (%d)", name, len(list))), entry.Title)
		s.list(4, list)
		if reason := list[0].reason; reason == rangekeeper.ReasonClusterIPAlreadyAllocated.String() || reason == rangekeeper.ReasonPortAlreadyAllocated.String() {
			text := "A stock kube-apiserver frees the value of a duplicate that goes: first see rangekeeper explain " + reason
			if reason == rangekeeper.ReasonPortAlreadyAllocated.String() {
				text += ". Services whose protocols differ break no traffic"
			}
			s.text(4, "", called(program, text))
		}
	}
}

// severityTexts are those of one and of several faults.
var severityTexts = map[audit.Severity][2]string{
	audit.BreaksTraffic: {"breaks traffic now", "break traffic now"},
	audit.DuplicateRisk: {"may be handed out twice", "may be handed out twice"},
	audit.Exhausted:     {"range is full or nearly full", "ranges are full or nearly full"},
	audit.Wasted:        {"is wasted", "are wasted"},
}

// counts writes how many faults there are of each of these severities.
func (s *screen) counts(by audit.BySeverity, severities []audit.Severity) {
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

// rangeHeader is that of rangeRows.
var rangeHeader = []string{"RANGE", "VALUES", "MODE", "SIZE", "USED", "FREE"}

func rangeRow(r audit.Range) []string {
	size, used, free, values := fmt.Sprint(r.Size.N), amountText(r.Used, "at least "), amountText(r.Free, "at most "), r.Range
	if r.Size.Unseen {
		size, free, values = "?", "?", "?"
	}
	mode := string(r.Mode)
	if r.NotReady {
		mode += ", not ready"
	}
	return []string{r.Name, values, mode, size, used, free}
}

// amountText returns an amount, or its bound if the source does not show it.
func amountText(a audit.Amount, bound string) string {
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

func (s *screen) ranges(ranges []audit.Range) {
	s.rows(0, append([][]string{rangeHeader}, rangeRows(ranges)...))
}

// step is a command that comes next, or without words what happens by itself.
type step struct {
	why string
	// words are not broken, each may have a flag with its value.
	words []string
}

// next writes the next commands, and the page of the runbook.
func (s *screen) next(steps []step, page string) {
	s.blank()
	s.b.WriteString(s.colored(bold, "Next") + "\n")
	for _, step := range steps {
		s.comment(2, step.why)
		s.words(2, step.words)
	}
	if page != "" {
		s.b.WriteString("Runbook: " + page + "\n")
	}
}

// comment writes words as a comment of a shell, in as many lines as they need.
func (s *screen) comment(indent int, text string) {
	for _, line := range wrapped(text, s.width-indent-2, 0) {
		fmt.Fprintf(&s.b, "%*s# %s\n", indent, "", line)
	}
}

// words writes a command, in as many lines as it needs. A word is never broken.
func (s *screen) words(indent int, words []string) {
	if len(words) == 0 {
		return
	}
	line := strings.Repeat(" ", indent) + words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > s.width-2 {
			s.b.WriteString(line + " \\\n")
			line = strings.Repeat(" ", indent+3)
		}
		line += " " + word
	}
	s.b.WriteString(line + "\n")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// quoted is a word for a shell.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// worst returns the first fault of the most severe reason.
func worst(faults []fault) fault {
	order := runbook.Names()
	return slices.MinFunc(faults, func(a, b fault) int {
		return slices.Index(order, a.reason) - slices.Index(order, b.reason)
	})
}
