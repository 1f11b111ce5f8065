package source

import (
	"fmt"
	"io"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
)

// How long work may take without a word, and the time between two: to somebody who waits at a terminal, and in a log.
const (
	quiet      = time.Second
	quietInLog = 15 * time.Second
)

// progress says on stderr how far long work is, and what is odd. One that is nil says nothing.
type progress struct {
	w     io.Writer
	quiet time.Duration
	what  string
	last  time.Time
	shown bool
}

// newProgress returns one that writes to stderr.
func newProgress(w io.Writer) *progress {
	if _, ok := screen.Terminal(w); ok {
		return &progress{w: w, quiet: quiet}
	}
	return &progress{w: w, quiet: quietInLog}
}

// start begins a piece of work and returns the function that reports its progress.
func (p *progress) start(what string) func(done, total int64) {
	if p == nil {
		return func(int64, int64) {}
	}
	p.what, p.last, p.shown = what, time.Now(), false
	return func(done, total int64) {
		if total <= 0 || time.Since(p.last) < p.quiet {
			return
		}
		p.what, p.last, p.shown = what, time.Now(), true // another piece may have come between
		fmt.Fprintf(p.w, "rangekeeper: %s: %d%%\n", p.what, 100*done/total)
	}
}

// end reports the end of the work if any progress was reported.
func (p *progress) end() {
	if p != nil && p.shown {
		fmt.Fprintf(p.w, "rangekeeper: %s: done\n", p.what)
	}
}

// say writes a line.
func (p *progress) say(format string, args ...any) {
	if p != nil {
		fmt.Fprintf(p.w, "rangekeeper: "+format+"\n", args...)
	}
}
