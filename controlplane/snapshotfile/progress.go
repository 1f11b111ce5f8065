package snapshotfile

import (
	"context"
	"io"
)

// progressStep is the number of bytes between two reports: often enough for a
// reader, and cheap next to the work.
const progressStep = 4 << 20

// progress counts bytes of work over all steps of one operation. The total
// grows when a step is added whose size was not known before.
type progress struct {
	report      func(done, total int64)
	done, total int64
	reported    int64
}

func (p *progress) expect(n int64) { p.total += n }

func (p *progress) add(n int64) {
	p.done += n
	if p.report != nil && p.done-p.reported >= progressStep {
		p.flush()
	}
}

// finish makes the counters agree: a step may touch fewer bytes than expected.
func (p *progress) finish() {
	p.done = p.total
	if p.report != nil {
		p.flush()
	}
}

func (p *progress) flush() {
	p.reported = p.done
	p.report(p.done, p.total)
}

// meteredReader counts the bytes read and ends with the context's error once the
// context is done.
type meteredReader struct {
	ctx      context.Context
	r        io.Reader
	progress *progress
}

func (m meteredReader) Read(b []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(b)
	m.progress.add(int64(n))
	return n, err
}
