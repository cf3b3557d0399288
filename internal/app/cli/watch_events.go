package cli

import (
	"fmt"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// event is what a line tells of a session. The key identifies it in all states of the session.
type event struct{ key, text string }

// events lists what a state of a session tells.
type events struct {
	session.Status
	palette terminal.Palette
	// live is false in the first state that is seen: its phases may have ended long ago.
	live bool
}

// all returns the events in the order of the team file.
func (e events) all() (all []event) {
	for _, p := range e.Phases {
		all = append(all, e.phase(p)...)
	}
	for _, h := range e.Help {
		if !slices.ContainsFunc(e.Phases, func(p session.PhaseStatus) bool { return p.Name == h.Phase }) {
			all = append(all, e.request(h)...)
		}
	}
	return all
}

func (e events) phase(p session.PhaseStatus) (all []event) {
	last := 0
	for _, a := range p.Assignments {
		last = max(last, a.Pass)
	}
	pass := passText(last)
	add := func(key, text string) {
		all = append(all, event{p.Name + pass + " " + key, e.palette.Paint(terminal.Bold, p.Name) + pass + ": " + text})
	}
	if p.Status != session.Pending {
		add("started", "started")
	}
	for _, a := range p.Assignments {
		all = append(all, e.assignment(spec.AssignmentID{Phase: p.Name, Persona: a.Persona}, a)...)
	}
	if text := p.PullRequest.String(); text != "" {
		add(text, safetext.Line(text))
	}
	if merging(p) {
		add("merging", "merging and checking its work")
	}
	if p.Status != session.Running && p.Status != session.Pending {
		text := e.palette.State(p.Status)
		if p.Status.Done() && e.live {
			text += fmt.Sprintf(", %s tokens%s so far", terminal.Number(e.Usage.Tokens()), terminal.Money(e.Usage))
		}
		add(string(p.Status), text)
	}
	for _, h := range e.Help {
		if h.Phase == p.Name {
			all = append(all, e.request(h)...)
		}
	}
	return all
}

func (e events) assignment(id spec.AssignmentID, a session.AssignmentStatus) (all []event) {
	name := id.String() + passText(a.Pass)
	add := func(key, format string, args ...any) {
		all = append(all, event{name + " " + key, name + ": " + fmt.Sprintf(format, args...)})
	}
	for i, f := range a.Failures { // those of all passes
		key := fmt.Sprintf("%s failure %d", id, i+1)
		category := e.palette.Paint(terminal.Red, string(f.Category))
		all = append(all, event{key, fmt.Sprintf("%s: attempt %d failed: %s: %s", id, i+1, category, safetext.Clip(f.Message, 200))})
	}
	if a.LostWorkers > 0 {
		lost := textfmt.Count(a.LostWorkers, "worker")
		add(fmt.Sprint("lost ", a.LostWorkers), "%s lost; the work continues, no attempt is counted", lost)
	}
	switch {
	case a.Progress != "":
		text := session.WithoutNextLook(a.Progress)
		add(text, "%s", e.palette.Paint(terminal.Dim, safetext.Clip(text, 100)))
	case a.Status == session.Waiting:
		add(fmt.Sprint("waits after ", len(a.Failures)), "waits for its next round")
	}
	if a.Status.Done() {
		text := e.palette.State(a.Status)
		if a.Summary != "" {
			text += ": " + safetext.Clip(a.Summary, 120)
		}
		add("done", "%s", text)
	}
	return all
}

// request lists what a state tells of a request: that it is open, and its ticket.
func (e events) request(h session.Request) (all []event) {
	if !e.Status.Status.Closed() {
		need := e.palette.Paint(terminal.Red, h.Need())
		all = append(all, event{h.ID, fmt.Sprintf("%s: %s: %s", h.Subject(), need, safetext.Clip(messageOf(h), 200))})
	}
	if t := ticketText(h.Ticket); t != "" {
		all = append(all, event{h.ID + t, h.Subject() + ": " + t})
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
