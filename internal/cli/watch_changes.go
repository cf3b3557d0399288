package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// change is an event of a session.
type change struct {
	text string
	// at is when, as it is recorded; zero: that is not known.
	at time.Time
	// pass is the assignment's then; zero: it is the present one.
	pass int
}

// add appends a change.
func add(to []change, at time.Time, format string, args ...any) []change {
	return append(to, change{text: fmt.Sprintf(format, args...), at: at})
}

// history has what is known of a session besides its status.
type history struct {
	// passes has the pass of assignments and, without a persona, of phases.
	passes map[spec.AssignmentID]int
	// work has the times of assignments.
	work map[spec.AssignmentID]workDone
	now  time.Time
}

// newsFor is how long ago a phase may have ended for the session's present cost to be that
// of the moment, if no other has ended since.
const newsFor = 10 * time.Second

// changes lists the events of a session between two states, sorted by time. The first look is compared
// with nothing.
func changes(p terminal.Palette, before, now session.Status, known history) []change {
	first := before.Session == ""
	var phases []phaseChange
	var last time.Time
	shown := slices.Clone(now.Phases)
	for _, h := range slices.Concat(before.Help, now.Help) {
		if !slices.ContainsFunc(shown, func(p session.PhaseStatus) bool { return p.Name == h.Phase }) {
			shown = append(shown, phaseOf(session.Status{}, h.Phase))
		}
	}
	for _, phase := range shown {
		of := phaseChange{before: phaseOf(before, phase.Name), now: phase, known: known, usage: now.Usage, over: now.Status.Closed(), requests: requestChanges(before, now, phase.Name)}
		if !first {
			of.noticed = known.now
		}
		if _, ended := of.times(); ended.After(last) {
			last = ended
		}
		phases = append(phases, of)
	}
	var all []change
	for _, of := range phases {
		_, ended := of.times()
		of.counted = ended.IsZero() && !first || !ended.IsZero() && ended.Equal(last) && known.now.Sub(ended) <= newsFor
		all = append(all, of.changes(p)...)
	}
	sortByTime(all)
	var rest []change
	switch {
	case first:
		rest = add(rest, known.now, "session %s of team %s: %s", now.Session, terminal.Dash(now.Team), p.State(now.Status))
	case before.Status != now.Status:
		rest = add(rest, cmp.Or(timeOf(now.ClosedAt), known.now), "session %s: %s", now.Session, p.State(now.Status))
	}
	if now.Status == session.WaitingForBreaker && before.Reason != now.Reason {
		rest = add(rest, known.now, "%s", safetext.Line(now.Reason))
	}
	return append(all, inOrder(latest(all), rest)...)
}

// inOrder gives changes of one subject, each of which follows from those before it, times that do not go
// back, from a moment on. A change without a recorded time gets that of the one before it, or else of
// the one after it.
func inOrder(from time.Time, all []change) []change {
	for i := range all {
		if all[i].at.Before(from) {
			all[i].at = from
		}
		from = all[i].at
	}
	for i := len(all) - 2; i >= 0; i-- {
		all[i].at = cmp.Or(all[i].at, all[i+1].at)
	}
	return all
}

// latest is the time of the last change; zero: none has one.
func latest(all []change) (last time.Time) {
	for _, c := range all {
		if c.at.After(last) {
			last = c.at
		}
	}
	return last
}

// sortByTime sorts changes by their time. A change without one stays behind the one before it.
func sortByTime(all []change) {
	type placed struct {
		change
		at time.Time
	}
	order := make([]placed, len(all))
	var last time.Time
	for i, c := range all {
		last = cmp.Or(c.at, last)
		order[i] = placed{c, last}
	}
	slices.SortStableFunc(order, func(x, y placed) int { return x.at.Compare(y.at) })
	for i, c := range order {
		all[i] = c.change
	}
}

// requestChange is a request in two states; nil: it was not open.
type requestChange struct{ before, now *session.Request }

// requestChanges lists the requests of a phase that were opened, closed or got a ticket.
func requestChanges(before, now session.Status, phase string) []requestChange {
	var all []requestChange
	find := func(in []session.Request, id string) *session.Request {
		if i := slices.IndexFunc(in, func(h session.Request) bool { return h.ID == id }); i >= 0 {
			return &in[i]
		}
		return nil
	}
	for _, h := range before.Help {
		if h.Phase == phase && find(now.Help, h.ID) == nil && !now.Status.Closed() {
			all = append(all, requestChange{before: &h})
		}
	}
	for _, h := range now.Help {
		old := find(before.Help, h.ID)
		if h.Phase == phase && (!now.Status.Closed() || ticketText(h.Ticket) != "") {
			all = append(all, requestChange{old, &h})
		}
	}
	return all
}

// isOf reports whether a request is of a persona at work in the phase; an empty one stands for the phase.
func (c phaseChange) isOf(h session.Request, persona string) bool {
	if !slices.ContainsFunc(c.now.Assignments, func(a session.AssignmentStatus) bool { return a.Persona == h.Persona }) {
		return persona == ""
	}
	return h.Persona == persona
}

// closed and opened are the lines of a persona's requests, or of those of the phase.
func (c phaseChange) closed(persona string) (all []change) {
	for _, r := range c.requests {
		if r.now == nil && c.isOf(*r.before, persona) {
			all = add(all, time.Time{}, "%s: continues", r.before.Subject())
		}
	}
	return all
}

func (c phaseChange) opened(p terminal.Palette, persona string) (all []change) {
	for _, r := range c.requests {
		if r.now == nil || !c.isOf(*r.now, persona) {
			continue
		}
		var old session.Request
		if r.before != nil {
			old = *r.before
		} else if !c.over {
			all = add(all, r.now.Since, "%s: %s: %s", r.now.Subject(), p.Paint(terminal.Red, r.now.Need()), safetext.Clip(messageOf(*r.now), 200))
		}
		if t := ticketText(r.now.Ticket); t != "" && t != ticketText(old.Ticket) {
			all = add(all, time.Time{}, "%s: %s", r.now.Subject(), t)
		}
	}
	return all
}

// phaseOf is a phase as it was; pending if it was not known.
func phaseOf(s session.Status, name string) session.PhaseStatus {
	for _, p := range s.Phases {
		if p.Name == name {
			return p
		}
	}
	return session.PhaseStatus{Name: name, Status: session.Pending}
}

// phaseChange is a phase in two states.
type phaseChange struct {
	before, now session.PhaseStatus
	requests    []requestChange
	known       history
	// noticed is the time of changes that nothing dates; zero in the first look, where they may be old.
	noticed time.Time
	// over: the session has ended.
	over bool
	// usage is the session's at present; counted: it is also that of the phase's end.
	usage   cost.Usage
	counted bool
}

func (c phaseChange) changes(p terminal.Palette) []change {
	name := p.Paint(terminal.Bold, c.now.Name) + passText(c.known.passes[spec.AssignmentID{Phase: c.now.Name}])
	started, ended := c.times()
	var work []change
	for _, a := range c.now.Assignments {
		work = append(work, c.assignment(p, a)...)
	}
	head := c.closed("")
	if c.before.Status == session.Pending && c.now.Status != session.Pending {
		head = add(head, started, "%s: started", name)
	}
	present := c.known.passes[spec.AssignmentID{Phase: c.now.Name}]
	for i := range head { // the work of the pass followed from it
		for _, w := range work {
			if w.pass > 0 && w.pass < present {
				continue
			}
			if head[i].at.IsZero() || !w.at.IsZero() && w.at.Before(head[i].at) {
				head[i].at = w.at
			}
		}
		head[i].at = cmp.Or(head[i].at, c.noticed)
	}
	var tail []change
	if merging(c.now) && !merging(c.before) {
		tail = add(tail, time.Time{}, "%s: merging and checking its work", name)
	}
	switch {
	case c.before.Status == c.now.Status:
	case c.now.Status.Done() && !c.counted:
		tail = add(tail, ended, "%s: %s", name, p.State(c.now.Status))
	case c.now.Status.Done():
		tail = add(tail, ended, "%s: %s, %s tokens%s so far", name, p.State(c.now.Status), terminal.Number(c.usage.Tokens()), terminal.Money(c.usage))
	case c.now.Status != session.Running && c.now.Status != session.Pending:
		tail = add(tail, time.Time{}, "%s: %s", name, p.State(c.now.Status))
	}
	before := slices.Concat(head, work)
	tail = inOrder(latest(before), append(tail, c.opened(p, "")...))
	return c.dated(append(before, tail...))
}

// assignment lists the events of an assignment, in order.
func (c phaseChange) assignment(p terminal.Palette, a session.AssignmentStatus) []change {
	old := session.AssignmentStatus{Persona: a.Persona, AssignmentSummary: session.NoWork()}
	for _, b := range c.before.Assignments {
		if b.Persona == a.Persona {
			old = b
		}
	}
	id := spec.AssignmentID{Phase: c.now.Name, Persona: a.Persona}
	all := c.closed(a.Persona)
	for _, line := range assignmentChanges(p, old, a, c.known.work[id]) {
		line.text = fmt.Sprintf("%s%s: %s", id, passText(cmp.Or(line.pass, c.known.passes[id])), line.text)
		all = append(all, line)
	}
	return c.dated(inOrder(time.Time{}, append(all, c.opened(p, a.Persona)...)))
}

// dated gives changes that nothing dates the time at which they were noticed.
func (c phaseChange) dated(all []change) []change {
	for i := range all {
		all[i].at = cmp.Or(all[i].at, c.noticed)
	}
	return all
}

// times are when the phase's first assignment began, and its last one ended; zero where
// that is not known.
func (c phaseChange) times() (started, ended time.Time) {
	for _, a := range c.now.Assignments {
		w := c.known.work[spec.AssignmentID{Phase: c.now.Name, Persona: a.Persona}]
		if !w.started.IsZero() && (started.IsZero() || w.started.Before(started)) {
			started = w.started
		}
		if w.done.After(ended) {
			ended = w.done
		}
	}
	return started, ended
}

// passText names the pass if it is not the first.
func passText(pass int) string {
	if pass <= 1 {
		return ""
	}
	return fmt.Sprintf(" (pass %d)", pass)
}

func assignmentChanges(p terminal.Palette, before, now session.AssignmentStatus, work workDone) []change {
	var all, ofRound []change
	for i := len(before.Failures); i < len(now.Failures); i++ {
		f, known := now.Failures[i], work.failure(len(now.Failures)-1-i)
		line := change{at: known.Ended(), pass: known.Pass, text: fmt.Sprintf("attempt %d failed: %s: %s",
			cmp.Or(known.Attempt, i+1), p.Paint(terminal.Red, string(f.Category)), safetext.Clip(f.Message, 200))}
		if known.Round > 0 && known.Pass == work.pass && known.Round == work.round {
			ofRound = append(ofRound, line)
		} else {
			all = append(all, line)
		}
	}
	if round := cmp.Or(work.round, now.Rounds); now.Rounds > before.Rounds && round > 1 {
		all = add(all, work.roundStarted, "round %d", round)
	}
	all = append(all, ofRound...)
	if lost := now.LostWorkers - before.LostWorkers; lost > 0 {
		all = add(all, time.Time{}, "%s lost; the work continues, no attempt is counted", textfmt.Count(lost, "worker"))
	}
	if now.Status == session.Waiting && before.Status != session.Waiting && now.Progress == "" {
		all = add(all, time.Time{}, "waits for its next round")
	}
	if now.Progress != "" && now.Progress != before.Progress {
		all = add(all, time.Time{}, "%s", p.Paint(terminal.Dim, safetext.Clip(now.Progress, 100)))
	}
	if now.Status.Done() && !before.Status.Done() {
		line := p.State(now.Status)
		if now.Summary != "" {
			line += ": " + safetext.Clip(now.Summary, 120)
		}
		all = add(all, work.done, "%s", line)
	}
	return all
}
