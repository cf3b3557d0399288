package procgroup

import (
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// progressInterval is the least time between two progress lines.
	progressInterval = 250 * time.Millisecond
	// maxProgress is the length of a progress line, in bytes.
	maxProgress = 200
)

// Progress reports lines, at most one every progressInterval. Of those
// that come faster, the newest is kept and reported after the interval.
type Progress struct {
	report func(line string)

	mu      sync.Mutex
	pending string
	waiting *time.Timer // not nil for progressInterval after a line was reported
	ended   bool
}

// NewProgress returns a progress that calls report; nil if report is nil.
func NewProgress(report func(line string)) *Progress {
	if report == nil {
		return nil
	}
	return &Progress{report: report}
}

// Line adds a line. A nil progress drops it.
func (p *Progress) Line(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = textfmt.Shorten(text, maxProgress)
	if p.waiting == nil && !p.ended {
		p.flush()
	}
}

// flush reports the pending line. The caller holds the lock, so that lines
// keep their order and none is reported after Close has returned.
func (p *Progress) flush() {
	p.waiting = nil
	if p.pending == "" {
		return
	}
	p.report(p.pending)
	p.pending = ""
	p.waiting = time.AfterFunc(progressInterval, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			p.flush()
		}
	})
}

// Close reports the pending line. Later lines are dropped.
func (p *Progress) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting != nil {
		p.waiting.Stop()
	}
	if p.pending != "" && !p.ended {
		p.report(p.pending)
	}
	p.ended = true
}
