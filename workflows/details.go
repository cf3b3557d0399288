package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// admitted reports whether the session has loaded its team.
func (s *sessionRun) admitted() bool { return s.Status.Session != "" }

// phaseStatus returns the status of a phase, for changing.
func (s *sessionRun) phaseStatus(name string) *session.PhaseStatus {
	i := slices.IndexFunc(s.Status.Phases, func(ps session.PhaseStatus) bool { return ps.Name == name })
	return &s.Status.Phases[i]
}

// setPhase sets a phase's state in the status.
func (s *sessionRun) setPhase(name string, state session.State) { s.phaseStatus(name).Status = state }

// setAssignment sets an assignment's state in the status, and shows it.
func (s *sessionRun) setAssignment(ctx workflow.Context, a *assignment, state session.State) {
	now := session.AssignmentStatus{Persona: a.Persona, AssignmentSummary: a.AssignmentSummary, Awaits: a.awaits}
	now.Status, now.Agent = state, cmp.Or(a.Substitute, a.Agent)
	*s.Status.Assignment(a.AssignmentID) = now
	s.Status.Usage = s.Status.Sum()
	s.alertOfUsage(ctx)
	if len(s.Status.Help) > 0 || a.awaits != nil || s.Status.Status == session.WaitingForBreaker {
		refresh(&s.Status)
	}
	s.showPage(ctx)
}

// refresh sets the session's state: it waits for a person or a breaker, or works.
func refresh(s *session.Status) {
	s.Reason = ""
	s.Stand()
	if s.Status == session.WaitingForBreaker {
		return
	}
	if h := mostUrgent(s.Help); h != nil {
		who := h.Phase
		if h.Persona != "" {
			who += "/" + h.Persona
		}
		s.Reason = who + ": " + h.Message
		switch {
		case h.Kind.NoticeOnly():
			s.Reason += "; it continues by itself"
		case h.Command != "":
			s.Reason += fmt.Sprintf("; continue with `%s`", h.Command)
		}
	}
}

// mostUrgent returns the open request that a person should answer first: one about failed work
// before one about a finished phase, and a notice last; nil if there is none.
func mostUrgent(help []session.Request) *session.Request {
	rank := func(k session.RequestKind) int {
		switch {
		case k.NoticeOnly():
			return 2
		case k.OfPhase():
			return 1
		}
		return 0
	}
	var first *session.Request
	for i := range help {
		if first == nil || rank(help[i].Kind) < rank(first.Kind) {
			first = &help[i]
		}
	}
	return first
}

// allDone reports whether every phase that was to run is done, and the session does not fail.
func (s *sessionRun) allDone() bool { return !s.ending.failed() && s.Schedule.done() }

// showPage writes the session's page in the Web UI: first the open requests, then the status.
// It costs no event.
func (s *sessionRun) showPage(ctx workflow.Context) {
	lines := s.requestPages()
	lines = append(lines, fmt.Sprintf("## Session %s of team %s: %s", s.Status.Session, s.Status.Team, s.Status.Status), "")
	if s.Status.Reason != "" && len(s.Status.Help) == 0 {
		lines = append(lines, safetext.Code(s.Status.Reason), "")
	}
	lines = append(lines, "| work | state | attempts | cost | summary or last failure |", "|---|---|---|---|---|")
	for _, ps := range s.Status.Phases {
		for _, a := range ps.Assignments {
			lines = append(lines, fmt.Sprintf("| %s/%s | %s | %d | %d tokens, %s USD | %s |", ps.Name, a.Persona,
				strings.ReplaceAll(string(a.Status), "_", " "), a.Attempts, a.Usage.Tokens(), a.Usage.CostUSD.Rounded(), cell(summaryOf(a))))
		}
	}
	lines = append(lines, "", s.spending(), "")
	lines = append(lines, fmt.Sprintf("For live progress: `maestro watch %s`; for the files so far: `maestro artifacts list %s`.",
		s.Status.Session, s.Status.Session))
	workflow.SetCurrentDetails(ctx, strings.Join(lines, "\n"))
}

// summaryOf returns the summary of an assignment, or its last failure.
func summaryOf(a session.AssignmentStatus) string {
	if a.Status.Done() || len(a.Failures) == 0 {
		return a.Summary
	}
	last := a.Failures[len(a.Failures)-1]
	return string(last.Category) + ": " + last.Message
}

// spending returns a sentence on the session's usage and budget, with a warning if a
// threshold of the budget is exceeded.
func (s *sessionRun) spending() string {
	used, limit := s.Status.Usage, s.limitOf(budget.SessionScope)
	text := fmt.Sprintf("Used so far: %d tokens, %s USD.", used.Tokens(), used.CostUSD.Rounded())
	if limit.Tokens > 0 {
		text += fmt.Sprintf(" Budget: %d tokens.", limit.Tokens)
	}
	if limit.USD > 0 {
		text += fmt.Sprintf(" Budget: %s USD.", limit.USD)
	}
	var passed float64
	for _, at := range s.Team.Budget.WarnAt {
		tokens := limit.Tokens > 0 && float64(used.Tokens()) >= at*float64(limit.Tokens)
		money := limit.USD > 0 && float64(used.CostUSD) >= at*float64(limit.USD)
		if tokens || money {
			passed = max(passed, at)
		}
	}
	if passed > 0 {
		text += fmt.Sprintf(" **Warning: more than %.0f%% of the budget is spent.**", passed*100)
	}
	return text
}

// cell is a text in a table of a page.
func cell(text string) string { return safetext.Code(textfmt.Shorten(safetext.Line(text), 120)) }
