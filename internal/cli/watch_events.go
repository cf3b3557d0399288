package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// event is what a line tells of a session.
type event struct {
	// key identifies the event in all states of the session.
	key, text string
	// at is the recorded time; zero if it is unknown.
	at time.Time
	// after is the time of the event before it, for one without a time.
	after time.Time
}

func (e event) place() time.Time { return cmp.Or(e.at, e.after) }

// events lists what a state of a session tells.
type events struct {
	session.Status
	palette terminal.Palette
	// passes has the pass of assignments and, under an id without a persona, of phases; work has the attempts of assignments.
	passes map[spec.AssignmentID]int
	work   map[spec.AssignmentID]workDone
	// live is false in the first state that is seen: its phases may have ended long ago.
	live bool
}

// all returns the events in the order of their times.
func (e events) all() []event {
	var all []event
	phases := slices.Clone(e.Phases)
	for _, h := range e.Help {
		if !slices.ContainsFunc(phases, func(p session.PhaseStatus) bool { return p.Name == h.Phase }) {
			phases = append(phases, session.PhaseStatus{Name: h.Phase, Status: session.Pending})
		}
	}
	for _, p := range phases {
		all = append(all, e.phase(p)...)
	}
	sortByTime(all)
	return all
}

// sortByTime sorts events. One without a time stays behind the one before it.
func sortByTime(all []event) {
	for i := 1; i < len(all); i++ {
		all[i].after = cmp.Or(all[i].after, all[i-1].place())
	}
	slices.SortStableFunc(all, func(x, y event) int { return x.place().Compare(y.place()) })
}

func (e events) phase(p session.PhaseStatus) []event {
	id := spec.AssignmentID{Phase: p.Name}
	pass := passText(e.passes[id])
	name := e.palette.Paint(terminal.Bold, p.Name) + pass
	var all, work []event
	var began, ended time.Time
	starts := map[int]time.Time{} // of passes
	for _, a := range p.Assignments {
		of := spec.AssignmentID{Phase: p.Name, Persona: a.Persona}
		before := e.passes[of]
		if !a.Status.Done() { // its record may be of the pass before
			before = max(before, e.passes[id])
		}
		work = append(append(work, e.earlier(of, before)...), e.assignment(of, a)...)
		for _, at := range e.work[of].attempts {
			if first, known := starts[at.Pass]; !known || at.StartedAt.Before(first) {
				starts[at.Pass] = at.StartedAt
			}
		}
		if w := e.work[of]; !w.started.IsZero() && (began.IsZero() || w.started.Before(began)) {
			began = w.started
		}
		if w := e.work[of]; w.done.After(ended) {
			ended = w.done
		}
	}
	for n := 1; n < e.passes[id]; n++ {
		if at, known := starts[n]; known && !e.live {
			all = append(all, event{key: p.Name + passText(n) + " started", text: e.palette.Paint(terminal.Bold, p.Name) + passText(n) + ": started", at: at})
		}
	}
	if p.Status != session.Pending {
		all = append(all, event{key: p.Name + pass + " started", text: name + ": started", at: began})
	}
	all = append(all, work...)
	sortByTime(all)
	if merging(p) {
		all = append(all, event{key: p.Name + pass + " merging", text: name + ": merging and checking its work", at: ended})
	}
	if p.Status != session.Running && p.Status != session.Pending {
		line := name + ": " + e.palette.State(p.Status)
		if p.Status.Done() && e.live {
			line += fmt.Sprintf(", %s tokens%s so far", terminal.Number(e.Usage.Tokens()), terminal.Money(e.Usage))
		}
		all = append(all, event{key: p.Name + pass + " " + string(p.Status), text: line, at: ended})
	}
	for _, h := range e.Help {
		if h.Phase == p.Name {
			all = append(all, e.request(h)...)
		}
	}
	return all
}

// earlier tells what an assignment did before a pass, except for failed attempts.
func (e events) earlier(id spec.AssignmentID, before int) (all []event) {
	var last control.Attempt
	if e.live { // they were told
		return nil
	}
	for _, at := range e.work[id].attempts {
		name := id.String() + passText(at.Pass)
		switch {
		case at.Pass >= before:
			return all
		case at.Round > 1 && (at.Round != last.Round || at.Pass != last.Pass):
			all = append(all, event{key: fmt.Sprint(name, " round ", at.Round), text: fmt.Sprintf("%s: round %d", name, at.Round), at: at.StartedAt})
		}
		if at.Status != session.Failed {
			all = append(all, event{key: name + " done", text: name + ": " + e.palette.State(at.Status), at: at.Ended()})
		}
		last = at
	}
	return all
}

func (e events) assignment(id spec.AssignmentID, a session.AssignmentStatus) (all []event) {
	work := e.work[id]
	add := func(key string, at time.Time, pass int, format string, args ...any) {
		name := id.String() + passText(cmp.Or(pass, e.passes[id]))
		all = append(all, event{key: name + " " + key, text: name + ": " + fmt.Sprintf(format, args...), at: at})
	}
	for i, f := range a.Failures {
		known := work.failure(len(a.Failures) - 1 - i)
		add(fmt.Sprint("failure ", i), known.Ended(), known.Pass, "attempt %d failed: %s: %s",
			cmp.Or(known.Attempt, i+1), e.palette.Paint(terminal.Red, string(f.Category)), safetext.Clip(f.Message, 200))
	}
	if round := cmp.Or(work.round, a.Rounds); round > 1 {
		add(fmt.Sprint("round ", round), work.roundStarted, 0, "round %d", round)
	}
	sortByTime(all)
	if a.LostWorkers > 0 {
		add(fmt.Sprint("lost ", a.LostWorkers), time.Time{}, 0, "%s lost; the work continues, no attempt is counted", textfmt.Count(a.LostWorkers, "worker"))
	}
	switch {
	case a.Progress != "":
		add(a.Progress, time.Time{}, 0, "%s", e.palette.Paint(terminal.Dim, safetext.Clip(a.Progress, 100)))
	case a.Status == session.Waiting:
		add(fmt.Sprint("waits after ", len(a.Failures)), time.Time{}, 0, "waits for its next round")
	}
	if a.Status.Done() {
		line := e.palette.State(a.Status)
		if a.Summary != "" {
			line += ": " + safetext.Clip(a.Summary, 120)
		}
		add("done", work.done, 0, "%s", line)
	}
	return all
}

// request lists what a state tells of a request: that it is open, and its ticket.
func (e events) request(h session.Request) (all []event) {
	if !e.Status.Status.Closed() {
		all = append(all, event{key: h.ID, text: fmt.Sprintf("%s: %s: %s", h.Subject(), e.palette.Paint(terminal.Red, h.Need()), safetext.Clip(messageOf(h), 200)), at: h.Since})
	}
	if t := ticketText(h.Ticket); t != "" {
		all = append(all, event{key: h.ID + t, text: h.Subject() + ": " + t})
	}
	return all
}

// passText names the pass if it is not the first.
func passText(pass int) string {
	if pass <= 1 {
		return ""
	}
	return fmt.Sprintf(" (pass %d)", pass)
}
