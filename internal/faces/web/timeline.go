package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// Course is what a timeline is made from.
type Course struct {
	Status session.Status
	control.Work
}

// Timeline is when a session's assignments were at work and when they waited.
type Timeline struct {
	Lanes []Lane
	Ticks []TimelineTick
	// Now is where the present is, in percent; zero for a session that has ended.
	Now float64
}

// Lane is an assignment, or the approval of a phase.
type Lane struct {
	Name, URL string
	Bars      []Bar
}

// Bar is an attempt or a wait, with its place in percent of the width.
type Bar struct {
	From, Width float64
	Tone        string
	Wait        bool
	// Label says all of it, for a tooltip and the list of the timeline.
	Label string

	from, to time.Time
}

// TimelineTick is a label of the scale.
type TimelineTick struct {
	X     float64
	Text  string
	Gap   bool
	Place string // of the text: start, middle or end
}

// shortestWait is shown: shorter waits are those of the machinery.
const shortestWait = time.Second

// timelineOf is the timeline of a session at a moment; one without lanes if nothing has begun.
func timelineOf(c Course, now time.Time) Timeline {
	end := now
	if c.Status.ClosedAt != nil {
		end = *c.Status.ClosedAt
	}
	var t Timeline
	add := func(name, url string, bars []Bar) {
		if len(bars) > 0 {
			sortBars(bars)
			t.Lanes = append(t.Lanes, Lane{name, url, bars})
		}
	}
	for _, p := range c.Status.Phases {
		for _, a := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: a.Persona}
			bars := append(c.attempts(id, a.Status, end), c.present(id, a, end)...)
			add(id.String(), assignmentURL(c.Status.Session, p.Name, a.Persona), c.withWaits(id, bars))
		}
		add(p.Name+", approval", phaseURL(c.Status.Session, p.Name), c.approvals(p.Name, end))
	}
	if len(t.Lanes) == 0 {
		return t
	}
	from := t.Lanes[0].Bars[0].from
	if c.Status.StartedAt != nil {
		from = *c.Status.StartedAt
	}
	t.scale(from, end)
	if !c.Status.Status.Closed() {
		t.Now = 100
	}
	return t
}

func sortBars(bars []Bar) {
	slices.SortStableFunc(bars, func(a, b Bar) int { return a.from.Compare(b.from) })
}

// scale places bars and labels.
func (t *Timeline) scale(from, to time.Time) {
	var all []Bar
	for _, lane := range t.Lanes {
		all = append(all, lane.Bars...)
	}
	axis := newAxis(from, to, all)
	for i := range t.Lanes {
		for j := range t.Lanes[i].Bars {
			b := &t.Lanes[i].Bars[j]
			b.From = axis.x(b.from)
			b.Width = axis.x(b.to) - b.From
			b.Label += fmt.Sprintf(", from %s, %s", b.from.UTC().Format(time.TimeOnly), terminal.Span(b.to.Sub(b.from).Round(time.Second)))
		}
	}
	t.Ticks = axis.ticks()
}

// axis maps times to the width of a timeline. It is linear in each of its pieces.
type axis []piece

// piece is a time in which something was at work, or nothing was.
type piece struct {
	at   time.Time
	long time.Duration
	idle bool
	// gap: it is shortened. weight is its part of the width.
	gap    bool
	weight float64
}

// newAxis covers a time, and all bars. Long times in which nothing was at work are shortened, so that minutes of work
// are seen beside days of waiting.
func newAxis(from, to time.Time, bars []Bar) (a axis) {
	sortBars(bars)
	from = slices.MinFunc([]time.Time{from, bars[0].from}, time.Time.Compare)
	busy := time.Duration(0)
	at := from
	add := func(until time.Time, idle bool) {
		long := until.Sub(at)
		if long <= 0 {
			return
		}
		if a = append(a, piece{at: at, long: long, idle: idle}); !idle {
			busy += long
		}
		at = until
	}
	for _, b := range bars {
		if to = slices.MaxFunc([]time.Time{to, b.to}, time.Time.Compare); !b.Wait {
			add(b.from, true)
			add(b.to, false)
		}
	}
	add(to, true)
	for i := range a {
		p := &a[i]
		p.gap = p.idle && busy > 0 && p.long > max(busy/2, time.Minute)
		if p.weight = float64(p.long); p.gap {
			p.weight = float64(busy) / 15
		}
	}
	return a
}

// x is where a time is, in percent.
func (a axis) x(t time.Time) float64 {
	x, whole := 0.0, 0.0
	for _, p := range a {
		x += p.weight * float64(min(max(t.Sub(p.at), 0), p.long)) / float64(p.long)
		whole += p.weight
	}
	return x / max(whole, 1) * 100
}

// ticks label times about each sixth of the width, and each time that is shortened.
func (a axis) ticks() (ticks []TimelineTick) {
	format, apart := time.TimeOnly, 17.0 // as wide as the text is where the timeline is narrow
	if n := len(a); n > 0 && a[n-1].at.Add(a[n-1].long).Sub(a[0].at) > 12*time.Hour {
		format, apart = "Jan 2 15:04", 22
	}
	for _, p := range a {
		from, to := a.x(p.at), a.x(p.at.Add(p.long))
		if p.gap {
			ticks = append(ticks, TimelineTick{X: (from + to) / 2, Text: "⋯ " + terminal.Age(p.long), Gap: true})
			continue
		}
		for x := from; x < to; x += apart + 4 {
			at := p.at.Add(time.Duration(float64(p.long) * (x - from) / (to - from)))
			ticks = append(ticks, TimelineTick{X: x, Text: at.UTC().Format(format)})
		}
	}
	return spaced(ticks, apart)
}

// spaced leaves out ticks that would cover each other; those of gaps stay.
func spaced(ticks []TimelineTick, apart float64) (out []TimelineTick) {
	for _, t := range ticks {
		switch {
		case t.X < apart:
			t.Place = "start"
		case t.X > 100-apart:
			t.Place = "end"
		default:
			t.Place = "middle"
		}
		switch n := len(out); {
		case n == 0 || t.X-out[n-1].X >= apart:
			out = append(out, t)
		case t.Gap && !out[n-1].Gap:
			out[n-1] = t
		}
	}
	return out
}

// attempts are the bars of an assignment's record.
func (c Course) attempts(id spec.AssignmentID, now session.State, end time.Time) []Bar {
	var bars []Bar
	rounds := c.Records[id].Rounds
	for _, round := range rounds {
		add := func(from, to time.Time, tone, what string) {
			for _, p := range round.PausesIn(from, to) {
				if p.To.Sub(p.From) < shortestWait || from.IsZero() {
					continue
				}
				bars = append(bars, Bar{Tone: tone, Label: what + ", a part of it", from: from, to: p.From}, pauseBar(p))
				from = p.To
			}
			if !from.IsZero() && !to.Before(from) {
				bars = append(bars, Bar{Tone: tone, Label: what, from: from, to: to})
			}
		}
		name := func(attempt int) string {
			return attemptName(control.Attempt{AttemptRef: control.AttemptRef{
				AssignmentID: id, Pass: round.Pass, Round: round.Round,
				Attempt: attempt,
			}, Again: rounds[len(rounds)-1].Pass > 1})
		}
		for _, a := range round.Attempts {
			add(a.StartedAt, a.EndedAt, "bad", name(a.Attempt)+" failed: "+string(a.Failure.Category))
		}
		switch last := len(round.Attempts) + 1; {
		case round.Result != nil && round.Supplied:
			add(round.Result.StartedAt, round.Result.EndedAt, "good", "files of a person, checked")
		case round.Result != nil:
			from := round.Result.StartedAt
			if n := len(round.Attempts); n > 0 && round.Attempts[n-1].EndedAt.After(from) {
				from = round.Attempts[n-1].EndedAt
			}
			add(from, round.Result.EndedAt, "good", name(last)+" succeeded")
		case round.AtWork && !round.AttemptAt.IsZero() && !round.GaveUp && !round.Stale() && now == session.Waiting:
			add(round.AttemptAt, end, "slow", name(last)+" has begun, and waits")
		case round.AtWork && !round.AttemptAt.IsZero() && !round.GaveUp && !round.Stale():
			add(round.AttemptAt, end, "active", name(last)+" runs"+lost(round.Lost))
		}
	}
	return bars
}

// pauseBar is the bar of a wait within an attempt.
func pauseBar(p session.Pause) Bar {
	switch p.For {
	case failures.TokenBudget:
		return wait("ask", "waited for a larger budget", p.From, p.To)
	case failures.Pending:
		return wait("slow", "waited for others: "+safetext.Line(p.Text), p.From, p.To)
	default:
	}
	return wait("slow", "waited for its "+p.For.Awaited(), p.From, p.To)
}

func wait(tone, label string, from, to time.Time) Bar {
	return Bar{Tone: tone, Wait: true, Label: label, from: from, to: to}
}

func lost(n int) string {
	if n == 0 {
		return ""
	}
	return " again after " + textfmt.Count(n, "lost worker")
}

// present is what an assignment waits for now.
func (c Course) present(id spec.AssignmentID, a session.AssignmentStatus, end time.Time) []Bar {
	since := func(from time.Time, tone, label string) []Bar {
		if from.IsZero() || !end.After(from) {
			return nil
		}
		return []Bar{wait(tone, label, from, end)}
	}
	for _, h := range c.Status.Help {
		if h.Phase != id.Phase || h.Persona != id.Persona || h.Kind.OfPhase() || c.Status.Status.Closed() {
			continue
		}
		if h.Kind.NoticeOnly() {
			return since(h.Since, "slow", "waits for its "+h.Category.Awaited())
		}
		return since(h.Since, "ask", "waits for a person: "+h.Need())
	}
	if a.Awaits != nil {
		return since(a.Awaits.Since, "slow", "waits for breaker "+safetext.Line(a.Awaits.Breaker))
	}
	if rounds := c.Records[id].Rounds; len(rounds) > 0 && !a.Status.Done() {
		switch o := rounds[len(rounds)-1].Outage; {
		case o == nil:
		case o.Pending():
			var bars []Bar
			for _, p := range rounds[len(rounds)-1].PausesIn(o.Since, end) {
				bars = append(bars, pauseBar(p))
			}
			return bars
		default:
			return since(o.Since, "slow", "waits for its "+o.Failure.Category.Awaited())
		}
	}
	return nil
}

// withWaits adds the waits between attempts, with their causes.
func (c Course) withWaits(id spec.AssignmentID, bars []Bar) []Bar {
	sortBars(bars)
	var at time.Time
	for i, b := range bars {
		if i > 0 && b.from.Sub(at) >= shortestWait {
			from := at
			for _, answer := range c.answersTo(id, at, b.from) {
				bars = append(bars, wait("ask", "waited for a person: "+safetext.Line(cmp.Or(answer.By, "somebody"))+" answered "+
					string(answer.Action), from, answer.At))
				from = answer.At
			}
			if b.from.Sub(from) >= shortestWait {
				bars = append(bars, wait("quiet", "waited for the next attempt", from, b.from))
			}
		}
		if b.to.After(at) {
			at = b.to
		}
	}
	return bars
}

// answersTo are the answers about an assignment in a time, in order.
func (c Course) answersTo(id spec.AssignmentID, from, to time.Time) []session.Answer {
	var found []session.Answer
	for _, a := range c.Answers {
		if a.Phase == id.Phase && (a.Persona == id.Persona || a.Persona == "") && a.At.After(from) && !a.At.After(to) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b session.Answer) int { return a.At.Compare(b.At) })
	return found
}

// approvals are the waits for the approval of a phase.
func (c Course) approvals(phase string, end time.Time) []Bar {
	var bars []Bar
	var from time.Time
	for id, r := range c.Records {
		for _, round := range r.Rounds {
			if id.Phase == phase && round.Result != nil && round.Result.EndedAt.After(from) {
				from = round.Result.EndedAt
			}
		}
	}
	for _, a := range c.Answers {
		if a.Phase == phase && a.Action == session.AnswerApprove && !from.IsZero() && a.At.After(from) {
			bars = append(bars, wait("ask", "waited for approval by "+safetext.Line(cmp.Or(a.By, "somebody")), from, a.At))
		}
	}
	for _, h := range c.Status.Help {
		if h.Phase == phase && h.Kind.OfPhase() && !h.Since.IsZero() && end.After(h.Since) && !c.Status.Status.Closed() {
			bars = append(bars, wait("ask", "waits for approval", h.Since, end))
		}
	}
	return bars
}
