package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/tui"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// view returns the session as the live view shows it.
func (l *lookout) view(g *guide, v sessionstatus.Session) tui.Session {
	work, passes := l.work(), l.passes(v)
	s := tui.Session{
		ID: v.Session, Team: v.Team, State: v.Status.Status, Run: v.Run, Requirement: v.Requirement,
		Usage: v.Usage, Limit: v.Limit, Spent: v.Spent, Reason: v.Reason,
	}
	if v.StartedAt != nil {
		s.Started = *v.StartedAt
	}
	if v.ClosedAt != nil {
		s.Closed = *v.ClosedAt
	}
	var waits []string
	for i, p := range v.Phases {
		phase := tui.Phase{Name: p.Name, State: p.Status, SentBack: l.sentBack(p.Name, timeOf(v.StartedAt)), Left: !v.Course.Selects(p.Name)}
		if needs, ok := l.progress.Needs[p.Name]; ok {
			phase.Needs = needs
		} else if i > 0 { // the graph is unknown
			phase.Needs = []string{v.Phases[i-1].Name}
		}
		for _, as := range p.Assignments {
			phase.Assignments = append(phase.Assignments, viewAssignment(v, work, passes, p.Name, as))
			if p.Status == session.Pending && as.Status == session.Running {
				phase.State = session.Running // the status document follows
			}
			if as.Awaits != nil {
				waits = append(waits, as.Awaits.String())
			}
		}
		if p.Status == session.Running && waitsForPerson(p) {
			phase.State = session.HelpIsNeeded
		}
		s.Phases = append(s.Phases, phase)
	}
	for _, note := range notesOf(v) {
		if !slices.ContainsFunc(waits, func(w string) bool { return strings.Contains(note, w) }) { // the view lists breakers itself
			s.Notes = append(s.Notes, note)
		}
	}
	s.Requests, s.Budgets = g.viewRequests(v.Status), ownBudget(v)
	return s
}

// waitsForPerson reports whether all unfinished work of a phase waits for a person.
func waitsForPerson(p session.PhaseStatus) bool {
	still := false
	for _, as := range p.Assignments {
		if as.Status == session.Running || as.Status == session.Waiting {
			return false
		}
		still = still || as.Status == session.HelpIsNeeded
	}
	return still
}

func viewAssignment(
	v sessionstatus.Session, all map[spec.AssignmentID]control.AssignmentProgress, passes map[spec.AssignmentID]int, phase string, as session.AssignmentStatus,
) tui.Assignment {
	id := spec.AssignmentID{Phase: phase, Persona: as.Persona}
	work, known := all[id]
	if !known {
		work = control.AssignmentProgress{Round: as.Rounds, Attempt: min(as.Attempts, 1)}
	}
	out := tui.Assignment{
		Persona: as.Persona, State: as.Status, Agent: as.Agent, Pass: passes[id], Round: work.Round, Attempt: work.Attempt,
		Usage: as.Usage, Progress: as.Progress, Summary: as.Summary, Failures: as.Failures, LostWorkers: as.LostWorkers, Awaits: as.Awaits,
	}
	for _, at := range work.Attempts {
		out.Worked += at.Worked(at.StartedAt)
	}
	if at, ok := v.Live[id]; ok {
		out.Since = at.Since
		if out.Pass > work.Pass {
			out.Round, out.Attempt = 1, 1
		}
		out.Round = max(out.Round, 1) // the record may be a moment behind
		out.Attempt = cmp.Or(at.Number, max(out.Attempt, 1))
	}
	if as.Status == session.Pending {
		out.Pass, out.Round, out.Attempt = 0, 0, 0
	}
	return out
}

// viewRequests lists the open requests with the commands that answer them. For a session
// that ended without completing it has the command that resumes it.
func (g *guide) viewRequests(s session.Status) []tui.Request {
	goOn := tui.Command{Text: g.target.commandLine("resume " + s.Session), Does: "resumes with the finished work restored"}
	var all []tui.Request
	for _, h := range s.Help {
		r := tui.Request{Title: h.Subject() + " " + h.Need() + ": " + messageOf(h), Until: h.Until}
		for _, w := range h.Commands(s.Session, s.Help) {
			r.Commands = append(r.Commands, tui.Command{Text: g.target.commandLine(w.Line), Does: w.Does})
		}
		if s.Status.Closed() {
			r.Commands = []tui.Command{goOn}
		} else {
			addKeyActions(&r, h)
		}
		all = append(all, r)
	}
	switch {
	case len(all) > 0:
	case s.Status == session.AwaitingApproval:
		for _, p := range s.Phases {
			if p.Status == session.AwaitingApproval {
				all = append(all, tui.Request{
					Title:    "phase " + p.Name + " is done; the session pauses after it (--pause-after)",
					Commands: []tui.Command{{Text: g.target.commandLine("resume " + s.Session), Does: "continues the session"}},
				})
			}
		}
	case s.Status == session.Failed, s.Status == session.WasCancelled:
		title := safetext.Line(s.Reason)
		if title == "" {
			title = "the session ended without completing"
		}
		all = append(all, tui.Request{Title: title, Commands: []tui.Command{goOn}})
	}
	return all
}
