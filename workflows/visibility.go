package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// publish sets the search attributes, which is an event: at once if the status has changed,
// otherwise at most every [publishEvery].
func (s *sessionRun) publish(ctx workflow.Context) {
	s.showPage(ctx)
	if !s.SearchAttributes {
		return
	}
	state := s.visibleState()
	if state == s.page.shown && workflow.Now(ctx).Before(s.page.published.Add(publishEvery)) {
		s.page.behind = true
		return
	}
	s.page.published, s.page.shown, s.page.behind = workflow.Now(ctx), state, false
	s.setAttributes(ctx, state)
}

// publishDelayed publishes a change that publish has delayed, or starts the timer for it.
func (s *sessionRun) publishDelayed(ctx workflow.Context) {
	if !s.publishIsDue(ctx) {
		return
	}
	if s.page.timer == nil {
		s.page.timer = workflow.NewTimer(ctx, s.page.published.Add(publishEvery).Sub(workflow.Now(ctx)))
		return
	}
	s.page.timer = nil
	s.publish(ctx)
}

func (s *sessionRun) setAttributes(ctx workflow.Context, state session.State) {
	open := s.openPhases()
	phases := AttributePhase.ValueSet(open)
	if len(open) == 0 {
		phases = AttributePhase.ValueUnset()
	}
	err := workflow.UpsertTypedSearchAttributes(ctx,
		AttributeTeam.ValueSet(s.Team.Name), AttributeStatus.ValueSet(string(state)), phases,
		AttributeTokens.ValueSet(s.Status.Usage.Tokens()))
	if err != nil {
		workflow.GetLogger(ctx).Warn("search attributes are out of date", "error", err)
	}
}

// saveMemo writes the session's status to its memo, for listings.
func (s *sessionRun) saveMemo(ctx workflow.Context) {
	err := workflow.UpsertMemo(ctx, map[string]any{MemoStatus: MemoSummary{
		Status: s.Status.Status, Reason: textfmt.Shorten(s.Status.Reason, session.MaxMessage),
		Checkpoint: s.Status.Checkpoint, Usage: s.Status.Usage,
	}})
	if err != nil {
		workflow.GetLogger(ctx).Warn("the memo is out of date", "error", err)
	}
}

// published is what a run has published of the status: in search attributes, and on the session's page in the
// Web UI.
type published struct {
	// published is when the search attributes were set last, with which status. behind: they show other
	// phases than are at work.
	published time.Time
	shown     session.State
	behind    bool
	// timer is ready when a delayed change may be published; nil if there is none.
	timer workflow.Future
}

// publishNow publishes the status at once, after a change that people wait for.
func (s *sessionRun) publishNow(ctx workflow.Context) {
	refresh(&s.Status)
	s.publish(ctx)
	s.saveMemo(ctx)
}

// publishEvery is how often a change of the phases at work is published.
const publishEvery = 10 * time.Second

// publishIsDue reports whether publishDelayed has something to do.
func (s *sessionRun) publishIsDue(ctx workflow.Context) bool {
	return s.page.behind && ctx.Err() == nil && (s.page.timer == nil || s.page.timer.IsReady())
}

// visibleState returns the session's state for people.
func (s *sessionRun) visibleState() session.State {
	if s.Status.Status == session.Running && s.allDone() {
		return session.Completed
	}
	return s.Status.Status
}

// maxAttribute bounds the names in a search attribute, in bytes. Temporal terminates a session with an attribute
// of more than 2,048.
const maxAttribute = 2000

// openPhases names the phases that are at work or ready, as many as an attribute can have.
func (s *sessionRun) openPhases() []string {
	var open []string
	size := 0
	for _, ps := range s.Status.Phases {
		if ph := s.Schedule.byName[ps.Name]; ph != nil && s.Schedule.open(ph) {
			if size += len(ps.Name) + len(`"",`); size > maxAttribute {
				break
			}
			open = append(open, ps.Name)
		}
	}
	return open
}
