package workflows

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/team"
)

// note takes an assignment's new state into the status.
func (s *session) note(ctx workflow.Context, a *assignment, state team.State) {
	status := s.status.Assignment(a.AssignmentID)
	*status = team.AssignmentStatus{
		Persona: a.Persona, Status: state, Agent: cmp.Or(a.agent, a.Agent), Rounds: a.Rounds, Attempts: a.Attempts, LostWorkers: a.Lost,
		Usage: a.Usage, Failures: a.Failures, Summary: a.Summary,
		Awaits: a.awaits,
	}
	s.status.Usage = s.status.Sum()
	if len(s.open) > 0 || a.awaits != nil || s.status.Status == team.WaitingForBreaker {
		s.standing()
	}
	s.show(ctx)
}

// publish tells visibility where the session stands: one event a phase.
func (s *session) publish(ctx workflow.Context) {
	s.show(ctx)
	if !s.attributes {
		return
	}
	state := s.status.Status
	var open []string
	for _, p := range s.status.Phases {
		if s.todo[p.Name] && s.inputs[p.Name] != "" {
			open = append(open, p.Name)
		}
	}
	if state == team.Running && s.allDone() {
		state = team.Completed
	}
	phases := AttributePhase.ValueSet(open)
	if len(open) == 0 {
		phases = AttributePhase.ValueUnset()
	}
	err := workflow.UpsertTypedSearchAttributes(ctx,
		AttributeTeam.ValueSet(s.team.Name), AttributeStatus.ValueSet(string(state)), phases,
		AttributeTokens.ValueSet(s.status.Usage.Tokens()))
	if err != nil {
		workflow.GetLogger(ctx).Warn("search attributes lag behind", "error", err)
	}
}

// allDone tells whether every phase that was to run is recorded, and nothing is
// in dispute or waits for a person.
func (s *session) allDone() bool {
	return !s.stopping() && len(s.todo) == 0 && len(s.parked)+len(s.disputes)+len(s.unapproved) == 0
}

// remember leaves the end of the session in its memo, for listings.
func (s *session) remember(ctx workflow.Context) {
	err := workflow.UpsertMemo(ctx, map[string]any{MemoStatus: MemoSummary{
		Status: s.status.Status, Reason: team.Shorten(s.status.Reason, team.MaxMessage),
		Checkpoint: s.head, Usage: s.status.Usage,
	}})
	if err != nil {
		workflow.GetLogger(ctx).Warn("the memo lags behind", "error", err)
	}
}

// show writes the page that the Web UI has on the session, for somebody who has
// never seen it: what a person is needed for, and then where the session stands. It
// costs no event.
func (s *session) show(ctx workflow.Context) {
	var lines []string
	for _, r := range s.open {
		lines = append(lines, s.requestPage(r)...)
	}
	lines = append(lines, fmt.Sprintf("## Session %s of team %s: %s", s.status.Session, s.status.Team, s.status.Status), "")
	if s.status.Reason != "" && len(s.open) == 0 {
		lines = append(lines, safetext.Code(s.status.Reason), "")
	}
	lines = append(lines, "| work | state | attempts | cost | summary or last failure |", "|---|---|---|---|---|")
	for _, p := range s.status.Phases {
		for _, a := range p.Assignments {
			lines = append(lines, fmt.Sprintf("| %s/%s | %s | %d | %d tokens, %s USD | %s |",
				p.Name, a.Persona, strings.ReplaceAll(string(a.Status), "_", " "), a.Attempts, a.Usage.Tokens(), a.Usage.CostUSD, cell(remark(a))))
		}
	}
	lines = append(lines, "", s.spending(), "")
	lines = append(lines, fmt.Sprintf("For live progress: `maestro watch %s`; for the files so far: `maestro artifacts list %s`.",
		s.status.Session, s.status.Session))
	workflow.SetCurrentDetails(ctx, strings.Join(lines, "\n"))
}

func remark(a team.AssignmentStatus) string {
	if a.Status.Done() || len(a.Failures) == 0 {
		return a.Summary
	}
	last := a.Failures[len(a.Failures)-1]
	return string(last.Category) + ": " + last.Message
}

// spending is a sentence on what was used of what is allowed; a warning once
// one of the budget's thresholds is passed.
func (s *session) spending() string {
	used, limit := s.status.Usage, s.limit(budget.SessionScope)
	text := fmt.Sprintf("Used so far: %d tokens, %s USD.", used.Tokens(), used.CostUSD)
	if limit.Tokens > 0 {
		text += fmt.Sprintf(" Budget: %d tokens.", limit.Tokens)
	}
	if limit.USD > 0 {
		text += fmt.Sprintf(" Budget: %s USD.", limit.USD)
	}
	var passed float64
	for _, at := range s.team.Budget.WarnAt {
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
func cell(text string) string { return safetext.Code(team.Shorten(safetext.Line(text), 120)) }
