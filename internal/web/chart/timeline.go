package chart

import (
	"cmp"
	"slices"
	"time"
)

// Span is a part of a lane that has begun at one time and ended at another. Busy spans are
// work, others are waits.
type Span struct {
	From, To time.Time
	Busy     bool
}

// Axis maps times to percentages of a timeline's width. Long times in which nothing was at work
// are shortened, so that minutes of work are seen beside days of waiting.
type Axis struct {
	From, To time.Time
	Gaps     []Gap
	// pieces are the times between which the axis is linear, and where they are.
	pieces []piece
}

// Gap is a time that is shortened on an axis, and its middle in percent.
type Gap struct {
	From, To time.Time
	At       float64
}

type piece struct {
	at   time.Time
	x    float64
	long time.Duration // up to the next piece
	gap  bool
}

// Tick is a labelled place of an axis.
type Tick struct {
	At   time.Time
	X    float64
	Gap  bool
	Long time.Duration
}

const (
	// gapShare is how much of the width a shortened time takes, and gapsShare all of them.
	gapShare, gapsShare = 6.0, 40.0
	// gapFactor says how much longer than all the work a wait has to be to be shortened.
	gapFactor = 0.5
)

// NewAxis covers a time, and all spans in it.
func NewAxis(from, to time.Time, spans []Span) Axis {
	for _, s := range spans {
		if s.From.Before(from) {
			from = s.From
		}
		if s.To.After(to) {
			to = s.To
		}
	}
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	a := Axis{From: from, To: to}
	idle, busy := idleTimes(from, to, spans)
	var gaps []Span
	for _, s := range idle {
		if long := s.To.Sub(s.From); long > time.Minute && float64(long) > gapFactor*float64(busy) {
			gaps = append(gaps, s)
		}
	}
	if busy <= 0 || len(gaps) == 0 {
		a.pieces = []piece{{at: from, long: to.Sub(from)}, {at: to, x: 100}}
		return a
	}
	share := min(gapShare, gapsShare/float64(len(gaps)))
	a.build(gaps, share)
	return a
}

// idleTimes are the times in which no span is busy, and busy is the rest.
func idleTimes(from, to time.Time, spans []Span) (idle []Span, busy time.Duration) {
	work := slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return !s.Busy })
	slices.SortFunc(work, func(x, y Span) int { return x.From.Compare(y.From) })
	at := from
	for _, s := range work {
		if s.From.After(at) {
			idle = append(idle, Span{From: at, To: s.From})
		}
		if s.To.After(at) {
			busy += s.To.Sub(maxTime(s.From, at))
			at = s.To
		}
	}
	if to.After(at) {
		idle = append(idle, Span{From: at, To: to})
	}
	return idle, busy
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// build divides the width between what is shortened and the rest.
func (a *Axis) build(gaps []Span, share float64) {
	var rest time.Duration
	at := a.From
	for _, g := range gaps {
		rest += g.From.Sub(at)
		at = g.To
	}
	rest += a.To.Sub(at)
	width := 100 - share*float64(len(gaps))
	x := 0.0
	at = a.From
	linear := func(to time.Time) {
		if long := to.Sub(at); long > 0 {
			a.pieces = append(a.pieces, piece{at: at, x: x, long: long})
			x += width * float64(long) / float64(max(rest, 1))
		}
	}
	for _, g := range gaps {
		linear(g.From)
		a.pieces = append(a.pieces, piece{at: g.From, x: x, long: g.To.Sub(g.From), gap: true})
		a.Gaps = append(a.Gaps, Gap{From: g.From, To: g.To, At: x + share/2})
		x += share
		at = g.To
	}
	linear(a.To)
	a.pieces = append(a.pieces, piece{at: a.To, x: 100})
}

// X is where a time is, in percent.
func (a Axis) X(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(a.pieces, t, func(p piece, t time.Time) int { return p.at.Compare(t) })
	switch {
	case found:
		return a.pieces[i].x
	case i == 0:
		return 0
	case i == len(a.pieces):
		return 100
	}
	p, next := a.pieces[i-1], a.pieces[i]
	return p.x + (next.x-p.x)*float64(t.Sub(p.at))/float64(max(p.long, 1))
}

// Share is where a span is.
func (a Axis) Share(s Span) Share {
	x := a.X(s.From)
	return Share{x, max(a.X(s.To)-x, 0)}
}

// steps are the distances of ticks that people read easily.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
}

// Ticks are labels at even times, at most most of them, and one for each shortened time.
func (a Axis) Ticks(most int) []Tick {
	var shown time.Duration
	for _, p := range a.pieces {
		if !p.gap {
			shown += p.long
		}
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if int(shown/s) <= most {
			step = s
			break
		}
	}
	var ticks []Tick
	for _, g := range a.Gaps {
		ticks = append(ticks, Tick{At: g.From, X: g.At, Gap: true, Long: g.To.Sub(g.From)})
	}
	for _, p := range a.pieces {
		if p.gap {
			continue
		}
		n := 0
		for t := p.at.Truncate(step); !t.After(p.at.Add(p.long)) && n <= most; t = t.Add(step) {
			if !t.Before(p.at) {
				ticks, n = append(ticks, Tick{At: t, X: a.X(t)}), n+1
			}
		}
	}
	return spaced(ticks)
}

// spaced leaves out ticks that would cover each other; those of gaps stay.
func spaced(ticks []Tick) []Tick {
	const apart = 7.0
	slices.SortStableFunc(ticks, func(x, y Tick) int { return cmp.Compare(x.X, y.X) })
	var out []Tick
	for _, t := range ticks {
		near := len(out) > 0 && t.X-out[len(out)-1].X < apart
		switch {
		case !near:
			out = append(out, t)
		case t.Gap && !out[len(out)-1].Gap:
			out[len(out)-1] = t
		}
	}
	return out
}
