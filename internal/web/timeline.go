package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/web/chart"
)

// Course is what a timeline is made from.
type Course struct {
	Status  session.Status
	Records map[spec.AssignmentID]session.Record
	// Answers are those that people have given.
	Answers []session.Answer
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

// Bar is an attempt or a wait.
type Bar struct {
	chart.Share
	Tone string
	Wait bool
	// Label says all of it, for a tooltip and the list of the timeline.
	Label string

	span chart.Span
	what string
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
	var spans []chart.Span
	for _, p := range c.Status.Phases {
		for _, a := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: a.Persona}
			lane := Lane{Name: id.String(), URL: assignmentURL(c.Status.Session, p.Name, a.Persona)}
			lane.Bars = append(c.attempts(id, a.Status, end), c.present(id, a, end)...)
			lane.Bars = c.withWaits(id, lane.Bars)
			t.add(lane, &spans)
		}
		t.add(Lane{Name: p.Name + ", approval", URL: phaseURL(c.Status.Session, p.Name), Bars: c.approvals(p.Name, end)}, &spans)
	}
	if len(t.Lanes) == 0 {
		return t
	}
	from := spans[0].From
	if c.Status.StartedAt != nil {
		from = *c.Status.StartedAt
	}
	t.scale(chart.NewAxis(from, end, spans))
	if !c.Status.Status.Closed() {
		t.Now = 100
	}
	return t
}

func (t *Timeline) add(lane Lane, spans *[]chart.Span) {
	if len(lane.Bars) == 0 {
		return
	}
	slices.SortStableFunc(lane.Bars, func(a, b Bar) int { return a.span.From.Compare(b.span.From) })
	for _, b := range lane.Bars {
		*spans = append(*spans, b.span)
	}
	t.Lanes = append(t.Lanes, lane)
}

// scale places bars and labels.
func (t *Timeline) scale(axis chart.Axis) {
	for i := range t.Lanes {
		for j := range t.Lanes[i].Bars {
			b := &t.Lanes[i].Bars[j]
			b.Share = axis.Share(b.span)
			b.Label = fmt.Sprintf("%s, from %s, %s", b.what, b.span.From.UTC().Format("15:04:05"), terminal.Span(b.span.To.Sub(b.span.From).Round(time.Second)))
		}
	}
	for _, tick := range axis.Ticks(6) {
		text := tick.At.UTC().Format("15:04:05")
		switch {
		case tick.Gap:
			text = "⋯ " + terminal.Age(tick.Long)
		case axis.To.Sub(axis.From) > 12*time.Hour:
			text = tick.At.UTC().Format("Jan 2 15:04")
		}
		place := "middle"
		switch {
		case tick.X < 6:
			place = "start"
		case tick.X > 94:
			place = "end"
		}
		t.Ticks = append(t.Ticks, TimelineTick{X: tick.X, Text: text, Gap: tick.Gap, Place: place})
	}
}

// attempts are the bars of an assignment's record.
func (c Course) attempts(id spec.AssignmentID, now session.State, end time.Time) []Bar {
	var bars []Bar
	for i, round := range c.Records[id].Rounds {
		add := func(from, to time.Time, tone, what string) {
			for _, p := range round.PausesIn(from, to) {
				if p.To.Sub(p.From) < shortestWait || from.IsZero() {
					continue
				}
				bars = append(bars, Bar{Tone: tone, what: what + ", a part of it", span: chart.Span{From: from, To: p.From, Busy: true}}, pauseBar(p))
				from = p.To
			}
			if !from.IsZero() && !to.Before(from) {
				bars = append(bars, Bar{Tone: tone, what: what, span: chart.Span{From: from, To: to, Busy: true}})
			}
		}
		name := func(attempt int) string { return fmt.Sprintf("round %d, attempt %d", i+1, attempt) }
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
		case round.Started && !round.AttemptAt.IsZero() && !round.GaveUp && !round.Stale() && now == session.Waiting:
			add(round.AttemptAt, end, "slow", name(last)+" has begun, and waits")
		case round.Started && !round.AttemptAt.IsZero() && !round.GaveUp && !round.Stale():
			add(round.AttemptAt, end, "active", name(last)+" runs"+lost(round.Lost))
		}
	}
	return bars
}

// pauseBar is the bar of a wait within an attempt.
func pauseBar(p session.Pause) Bar {
	b := Bar{Tone: "slow", Wait: true, what: "waited for its " + p.For.Awaited(), span: chart.Span{From: p.From, To: p.To}}
	if p.For == failures.TokenBudget {
		b.Tone, b.what = "ask", "waited for a larger budget"
	}
	return b
}

func lost(n int) string {
	if n == 0 {
		return ""
	}
	return " again after " + textfmt.Count(n, "lost worker")
}

// present is what an assignment waits for now.
func (c Course) present(id spec.AssignmentID, a session.AssignmentStatus, end time.Time) []Bar {
	wait := func(from time.Time, tone, what string) []Bar {
		if from.IsZero() || !end.After(from) {
			return nil
		}
		return []Bar{{Tone: tone, Wait: true, what: what, span: chart.Span{From: from, To: end}}}
	}
	for _, h := range c.Status.Help {
		if h.Phase != id.Phase || h.Persona != id.Persona || h.Kind.OfPhase() || c.Status.Status.Closed() {
			continue
		}
		if h.Kind.NoticeOnly() {
			return wait(h.Since, "slow", "waits for its "+h.Category.Awaited())
		}
		return wait(h.Since, "ask", "waits for a person: "+h.Need())
	}
	if a.Awaits != nil {
		return wait(a.Awaits.Since, "slow", "waits for breaker "+safetext.Line(a.Awaits.Breaker))
	}
	if rounds := c.Records[id].Rounds; len(rounds) > 0 && !a.Status.Done() {
		if o := rounds[len(rounds)-1].Outage; o != nil {
			return wait(o.Since, "slow", "waits for its "+o.Failure.Category.Awaited())
		}
	}
	return nil
}

// withWaits adds the waits between attempts, with their causes.
func (c Course) withWaits(id spec.AssignmentID, bars []Bar) []Bar {
	sorted := slices.Clone(bars)
	slices.SortStableFunc(sorted, func(a, b Bar) int { return a.span.From.Compare(b.span.From) })
	var at time.Time
	for i, b := range sorted {
		if i > 0 && b.span.From.Sub(at) >= shortestWait {
			from := at
			for _, answer := range c.answersTo(id, at, b.span.From) {
				bars = append(bars, Bar{Tone: "ask", Wait: true, what: "waited for a person: " + safetext.Line(cmp.Or(answer.By, "somebody")) + " answered " + string(answer.Action), span: chart.Span{From: from, To: answer.At}})
				from = answer.At
			}
			if b.span.From.Sub(from) >= shortestWait {
				bars = append(bars, Bar{Tone: "quiet", Wait: true, what: "waited for the next attempt", span: chart.Span{From: from, To: b.span.From}})
			}
		}
		if b.span.To.After(at) {
			at = b.span.To
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
			bars = append(bars, Bar{Tone: "ask", Wait: true, what: "waited for approval by " + safetext.Line(cmp.Or(a.By, "somebody")), span: chart.Span{From: from, To: a.At}})
		}
	}
	for _, h := range c.Status.Help {
		if h.Phase == phase && h.Kind.OfPhase() && !h.Since.IsZero() && end.After(h.Since) && !c.Status.Status.Closed() {
			bars = append(bars, Bar{Tone: "ask", Wait: true, what: "waits for approval", span: chart.Span{From: h.Since, To: end}})
		}
	}
	return bars
}
