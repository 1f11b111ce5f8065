package source

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
)

// How long work may take without a word, and the time between two: to somebody who waits at a terminal, and in a log.
const (
	quiet      = time.Second
	quietInLog = 15 * time.Second
)

// progress says on stderr how far long work is, and what is odd. It speaks on time also while the work reports nothing,
// as while a server does not answer. One that is nil says nothing.
type progress struct {
	w     io.Writer
	quiet time.Duration

	mu sync.Mutex
	// what is the present piece of work, and done and total are what it has reported last.
	what        string
	done, total int64
	shown       bool
	// stop ends the clock; nil while no work is under way.
	stop, stopped chan struct{}
}

// newProgress returns one that writes to stderr.
func newProgress(w io.Writer) *progress {
	if _, ok := screen.Terminal(w); ok {
		return &progress{w: w, quiet: quiet}
	}
	return &progress{w: w, quiet: quietInLog}
}

// start begins a piece of work, which may be a part of another one, and returns the function that reports its progress.
func (p *progress) start(what string) func(done, total int64) {
	if p == nil {
		return func(int64, int64) {}
	}
	report := func(done, total int64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.what, p.done, p.total = what, done, total
		if p.stop == nil { // also after another piece that has come between
			p.shown, p.stop, p.stopped = false, make(chan struct{}), make(chan struct{})
			go p.tick(p.stop, p.stopped)
		}
	}
	report(0, 0)
	return report
}

// tick says how far the work is until it is stopped.
func (p *progress) tick(stop, stopped chan struct{}) {
	defer close(stopped)
	clock := time.NewTicker(p.quiet)
	defer clock.Stop()
	for {
		select {
		case <-stop:
			return
		case <-clock.C:
			p.tell()
		}
	}
}

func (p *progress) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown = true; p.total > 0 {
		fmt.Fprintf(p.w, "rangekeeper: %s: %d%%\n", p.what, 100*p.done/p.total)
	} else {
		fmt.Fprintf(p.w, "rangekeeper: %s\n", p.what)
	}
}

// end reports the end of the work if any progress was reported.
func (p *progress) end() {
	if p == nil || p.stop == nil {
		return
	}
	close(p.stop)
	<-p.stopped
	p.stop = nil
	if p.shown {
		fmt.Fprintf(p.w, "rangekeeper: %s: done\n", p.what)
	}
}

// say writes a line.
func (p *progress) say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "rangekeeper: "+format+"\n", args...)
}
