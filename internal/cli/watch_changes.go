package cli

import (
	"cmp"
	"fmt"
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
}

// add appends a change.
func add(to []change, at time.Time, format string, args ...any) []change {
	return append(to, change{fmt.Sprintf(format, args...), at})
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

// changes lists the events of a session between two states, in the order of
// its phases. The first look is compared with nothing.
func changes(p terminal.Palette, before, now session.Status, known history) []change {
	var all []change
	if before.Session == "" {
		all = add(all, known.now, "session %s of team %s: %s", now.Session, terminal.Dash(now.Team), p.State(now.Status))
	}
	var phases []phaseChange
	var last time.Time
	for _, phase := range now.Phases {
		of := phaseChange{before: phaseOf(before, phase.Name), now: phase, known: known, usage: now.Usage}
		if _, ended := of.times(); ended.After(last) {
			last = ended
		}
		phases = append(phases, of)
	}
	for _, of := range phases {
		_, ended := of.times()
		of.counted = ended.IsZero() && before.Session != "" || !ended.IsZero() && ended.Equal(last) && known.now.Sub(ended) <= newsFor
		all = append(all, of.changes(p)...)
	}
	all = append(all, requestChanges(p, before, now)...)
	if before.Session != "" && before.Status != now.Status {
		all = add(all, timeOf(now.ClosedAt), "session %s: %s", now.Session, p.State(now.Status))
	}
	if now.Status == session.WaitingForBreaker && before.Reason != now.Reason {
		all = add(all, time.Time{}, "%s", safetext.Line(now.Reason))
	}
	return all
}

// requestChanges lists requests that were opened, tickets that
// were created for them, and requests that were closed.
func requestChanges(p terminal.Palette, before, now session.Status) []change {
	var all []change
	open := map[string]session.Request{}
	for _, h := range before.Help {
		open[h.ID] = h
	}
	for _, h := range now.Help {
		old, known := open[h.ID]
		delete(open, h.ID)
		if !known && !now.Status.Closed() {
			all = add(all, h.Since, "%s: %s: %s", h.Subject(), p.Paint(terminal.Red, h.Need()), safetext.Clip(messageOf(h), 200))
		}
		if t := ticketText(h.Ticket); t != "" && t != ticketText(old.Ticket) {
			all = add(all, time.Time{}, "%s: %s", h.Subject(), t)
		}
	}
	for _, h := range before.Help {
		if _, gone := open[h.ID]; gone && !now.Status.Closed() {
			all = add(all, time.Time{}, "%s: continues", h.Subject())
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
	known       history
	// usage is the session's at present; counted: it is also that of the phase's end.
	usage   cost.Usage
	counted bool
}

func (c phaseChange) changes(p terminal.Palette) []change {
	var all []change
	name := p.Paint(terminal.Bold, c.now.Name) + passText(c.known.passes[spec.AssignmentID{Phase: c.now.Name}])
	started, ended := c.times()
	if c.before.Status == session.Pending && c.now.Status != session.Pending {
		all = add(all, started, "%s: started", name)
	}
	for _, a := range c.now.Assignments {
		old := session.AssignmentStatus{Persona: a.Persona, AssignmentSummary: session.NoWork()}
		for _, b := range c.before.Assignments {
			if b.Persona == a.Persona {
				old = b
			}
		}
		id := spec.AssignmentID{Phase: c.now.Name, Persona: a.Persona}
		for _, line := range assignmentChanges(p, old, a, c.known.work[id]) {
			all = add(all, line.at, "%s%s: %s", id, passText(c.known.passes[id]), line.text)
		}
	}
	if merging(c.now) && !merging(c.before) {
		all = add(all, time.Time{}, "%s: merging and checking its work", name)
	}
	if c.before.Status == c.now.Status {
		return all
	}
	switch {
	case c.now.Status.Done() && !c.counted:
		all = add(all, ended, "%s: %s", name, p.State(c.now.Status))
	case c.now.Status.Done():
		all = add(all, ended, "%s: %s, %s tokens%s so far", name, p.State(c.now.Status), terminal.Number(c.usage.Tokens()), terminal.Money(c.usage))
	case c.now.Status != session.Running && c.now.Status != session.Pending:
		all = add(all, time.Time{}, "%s: %s", name, p.State(c.now.Status))
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
	var all []change
	if now.Rounds > before.Rounds && now.Rounds > 1 {
		all = add(all, work.roundStarted, "round %d", cmp.Or(work.round, now.Rounds))
	}
	for i := len(before.Failures); i < len(now.Failures); i++ {
		f, known := now.Failures[i], work.failure(len(now.Failures)-1-i)
		all = add(all, known.Ended(), "attempt %d failed: %s: %s", cmp.Or(known.Attempt, i+1), p.Paint(terminal.Red, string(f.Category)), safetext.Clip(f.Message, 200))
	}
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
