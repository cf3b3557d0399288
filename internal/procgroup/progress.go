package procgroup

import (
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// progressInterval is the least time between two progress lines.
	progressInterval = 250 * time.Millisecond
	// maxProgress is the length of a progress line, in bytes.
	maxProgress = 200
)

// Progress hands lines on, not faster than one every progressInterval. Of those
// that come faster the newest is kept and handed on when it is time.
type Progress struct {
	report func(line string)

	mu      sync.Mutex
	pending string
	waiting *time.Timer // not nil while a line was handed on just now
	ended   bool
}

// NewProgress reports lines to tell, the latest of each moment; nil if tell is nil.
func NewProgress(tell func(line string)) *Progress {
	if tell == nil {
		return nil
	}
	return &Progress{report: tell}
}

// Line takes a line. A nil progress drops it.
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

// flush hands the pending line on. The caller holds the lock, so that lines
// keep their order and none comes after end has returned.
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

// Close hands on what is pending. After it nothing more is handed on.
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
