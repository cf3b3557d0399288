package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// publisher has the status, and publishes it in the session's search attributes, its memo
// and its page in the Web UI.
type publisher struct {
	team     *spec.Team
	status   *session.Status
	schedule *schedule
	ending   *ending
	limits   *limits
	alerts   *alerts
	// attributes reports whether the namespace has Maestro's search attributes.
	attributes bool
	// published is when they were set last, with which status. behind: they show other phases
	// than are at work.
	published time.Time
	shown     session.State
	behind    bool
	// pause is ready when a delayed change may be published; nil: there is none.
	pause workflow.Future
	// pages are the pages of open requests; rows are the rows of the work on the page.
	pages func() []string
	rows  []workRow
}

// workRow is the row of an assignment on the page. It is rendered again only if it changes.
type workRow struct {
	workFacts
	text string
}

type workFacts struct {
	phase, persona string
	state          session.State
	attempts       int
	tokens         int64
	spent          cost.USD
	summary        string
}

// admitted reports whether the session has loaded its team.
func (p *publisher) admitted() bool { return p.status.Session != "" }

// phase returns the status of a phase, for changing.
func (p *publisher) phase(name string) *session.PhaseStatus {
	i := slices.IndexFunc(p.status.Phases, func(ps session.PhaseStatus) bool { return ps.Name == name })
	return &p.status.Phases[i]
}

// setPhase sets a phase's state in the status.
func (p *publisher) setPhase(name string, state session.State) { p.phase(name).Status = state }

// update sets an assignment's state in the status, and shows it.
func (p *publisher) update(ctx workflow.Context, a *assignment, state session.State) {
	now := session.AssignmentStatus{Persona: a.Persona, AssignmentSummary: a.AssignmentSummary, Awaits: a.awaits}
	now.Status, now.Agent = state, cmp.Or(a.Substitute, a.Agent)
	*p.status.Assignment(a.AssignmentID) = now
	p.status.Usage = p.status.Sum()
	p.alerts.checkUsage(ctx)
	if len(p.status.Help) > 0 || a.awaits != nil || p.status.Status == session.WaitingForBreaker {
		refresh(p.status)
	}
	p.show(ctx)
}

// announce publishes the status at once, after a change that people wait for.
func (p *publisher) announce(ctx workflow.Context) {
	refresh(p.status)
	p.publish(ctx)
	p.saveMemo(ctx)
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
// before one about a finished phase, and a notice last; nil: there is none.
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

// publishEvery is how often a change of the phases at work is published.
const publishEvery = 10 * time.Second

// publish sets the search attributes, which is an event: at once if the status has changed,
// otherwise at most every [publishEvery].
func (p *publisher) publish(ctx workflow.Context) {
	p.show(ctx)
	if !p.attributes {
		return
	}
	state := p.state()
	if state == p.shown && workflow.Now(ctx).Before(p.published.Add(publishEvery)) {
		p.behind = true
		return
	}
	p.published, p.shown, p.behind = workflow.Now(ctx), state, false
	p.setAttributes(ctx, state)
}

// hasPending reports whether catchUp has something to do.
func (p *publisher) hasPending(ctx workflow.Context) bool {
	return p.behind && ctx.Err() == nil && (p.pause == nil || p.pause.IsReady())
}

// catchUp publishes a change that publish has delayed, or starts the timer for it.
func (p *publisher) catchUp(ctx workflow.Context) {
	if !p.hasPending(ctx) {
		return
	}
	if p.pause == nil {
		p.pause = workflow.NewTimer(ctx, p.published.Add(publishEvery).Sub(workflow.Now(ctx)))
		return
	}
	p.pause = nil
	p.publish(ctx)
}

// state returns the session's state for people.
func (p *publisher) state() session.State {
	if p.status.Status == session.Running && p.allDone() {
		return session.Completed
	}
	return p.status.Status
}

// maxAttribute bounds the names in a search attribute, in bytes. Temporal terminates a session with an attribute
// of more than 2,048.
const maxAttribute = 2000

// openPhases names the phases that are at work or ready, as many as an attribute can have.
func (p *publisher) openPhases() []string {
	var open []string
	size := 0
	for _, ps := range p.status.Phases {
		if ph := p.schedule.byName[ps.Name]; ph != nil && p.schedule.open(ph) {
			if size += len(ps.Name) + len(`"",`); size > maxAttribute {
				break
			}
			open = append(open, ps.Name)
		}
	}
	return open
}

func (p *publisher) setAttributes(ctx workflow.Context, state session.State) {
	open := p.openPhases()
	phases := AttributePhase.ValueSet(open)
	if len(open) == 0 {
		phases = AttributePhase.ValueUnset()
	}
	err := workflow.UpsertTypedSearchAttributes(ctx,
		AttributeTeam.ValueSet(p.team.Name), AttributeStatus.ValueSet(string(state)), phases,
		AttributeTokens.ValueSet(p.status.Usage.Tokens()))
	if err != nil {
		workflow.GetLogger(ctx).Warn("search attributes are out of date", "error", err)
	}
}

// allDone reports whether every phase that was to run is done, and the session does not fail.
func (p *publisher) allDone() bool { return !p.ending.failed() && p.schedule.done() }

// saveMemo writes the session's status to its memo, for listings.
func (p *publisher) saveMemo(ctx workflow.Context) {
	err := workflow.UpsertMemo(ctx, map[string]any{MemoStatus: MemoSummary{
		Status: p.status.Status, Reason: textfmt.Shorten(p.status.Reason, session.MaxMessage),
		Checkpoint: p.status.Checkpoint, Usage: p.status.Usage,
	}})
	if err != nil {
		workflow.GetLogger(ctx).Warn("the memo is out of date", "error", err)
	}
}

// show writes the session's page in the Web UI: first the open requests, then the status.
// It costs no event.
func (p *publisher) show(ctx workflow.Context) {
	lines := p.pages()
	lines = append(lines, fmt.Sprintf("## Session %s of team %s: %s", p.status.Session, p.status.Team, p.status.Status), "")
	if p.status.Reason != "" && len(p.status.Help) == 0 {
		lines = append(lines, safetext.Code(p.status.Reason), "")
	}
	lines = append(lines, "| work | state | attempts | cost | summary or last failure |", "|---|---|---|---|---|")
	i := 0
	for _, ps := range p.status.Phases {
		for _, a := range ps.Assignments {
			lines = append(lines, p.row(i, workFacts{ps.Name, a.Persona, a.Status, a.Attempts, a.Usage.Tokens(), a.Usage.CostUSD, summaryOf(a)}))
			i++
		}
	}
	lines = append(lines, "", p.spending(), "")
	lines = append(lines, fmt.Sprintf("For live progress: `maestro watch %s`; for the files so far: `maestro artifacts list %s`.",
		p.status.Session, p.status.Session))
	workflow.SetCurrentDetails(ctx, strings.Join(lines, "\n"))
}

// row is a row of the page, by its number.
func (p *publisher) row(i int, f workFacts) string {
	if i == len(p.rows) {
		p.rows = append(p.rows, workRow{})
	}
	if r := &p.rows[i]; r.workFacts != f {
		*r = workRow{f, fmt.Sprintf("| %s/%s | %s | %d | %d tokens, %s USD | %s |",
			f.phase, f.persona, strings.ReplaceAll(string(f.state), "_", " "), f.attempts, f.tokens, f.spent.Rounded(), cell(f.summary))}
	}
	return p.rows[i].text
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
func (p *publisher) spending() string {
	used, limit := p.status.Usage, p.limits.of(budget.SessionScope)
	text := fmt.Sprintf("Used so far: %d tokens, %s USD.", used.Tokens(), used.CostUSD.Rounded())
	if limit.Tokens > 0 {
		text += fmt.Sprintf(" Budget: %d tokens.", limit.Tokens)
	}
	if limit.USD > 0 {
		text += fmt.Sprintf(" Budget: %s USD.", limit.USD)
	}
	var passed float64
	for _, at := range p.team.Budget.WarnAt {
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
