package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// agentOf is the agent that works for an assignment.
func (s *session) agentOf(a *assignment) string {
	if a.agent != "" {
		return a.agent
	}
	return s.team.Personas[a.Persona].Agent
}

// chooseAgent decides who does the next round after a failed one: the persona's
// own agent, unless that is too dear or has declined and there is another.
func (s *session) chooseAgent(a *assignment, f team.Failure) {
	if a.degraded {
		return
	}
	a.agent = ""
	if s.team.Personas[a.Persona].Fallback && team.RuleFor(f.Category).Fallback {
		a.agent = s.fallbackOf(a)
	}
}

// onExceeded is what the session can do when a budget cannot pay for an
// assignment's next call.
func (s *session) onExceeded(a *assignment) team.OnExceeded {
	wanted := s.team.Budget.OnExceeded
	if wanted == team.OnExceededDegrade && (a.degraded || s.fallbackOf(a) == "") {
		return team.OnExceededStop
	}
	return wanted
}

// fallbackOf is the agent that may work in the place of the persona's own; empty:
// there is none.
func (s *session) fallbackOf(a *assignment) string {
	return s.fallbacks[s.team.Personas[a.Persona].Agent]
}

// afterBudgetSpent has the agent's fallback go on, or parks the assignment until a
// person raises the budget, or says otherwise. What does not need that budget goes
// on meanwhile.
func (s *session) afterBudgetSpent(ctx workflow.Context, a *assignment, stop activities.BudgetStop) error {
	a.Usage = stop.Total
	if s.onExceeded(a) == team.OnExceededDegrade {
		a.degraded, a.agent, a.refused = true, s.fallbackOf(a), nil
		return nil
	}
	before := s.raises
	s.broke[a.AssignmentID] = stop
	r := s.moneyRequest(ctx, a, stop)
	r.wake, r.own = func() bool { return s.raises > before }, a.ownWork()
	if stop.Date != "" || stop.Unsettled {
		r.day = func(ctx workflow.Context) workflow.Future { return s.awaitBudget(ctx, a) }
	}
	answer, err := s.ask(ctx, a, r)
	delete(s.broke, a.AssignmentID)
	s.woken++
	switch {
	case err != nil || answer == nil:
		return err
	case answer.Verb == team.Retrying:
		if answer.Note != "" { // the round goes on as it began unless there is something to say
			a.note, s.notes[a.String()] = answer.Note, answer.Note
		}
		return nil
	}
	return &answered{*answer}
}

// moneyRequest asks a person about a budget that is spent.
func (s *session) moneyRequest(ctx workflow.Context, a *assignment, stop activities.BudgetStop) *request {
	var ways []string
	if stop.Unsettled {
		ways = append(ways, fmt.Sprintf("settle or write off the calls whose cost nobody knows (`maestro budget show %s` lists this session's), "+
			"after which the session goes on by itself, or raise the budget", s.status.Session))
	}
	if stop.Date != "" {
		ways = append(ways, "the session goes on by itself at "+budget.NextDay(stop.Date).Format("2006-01-02 15:04 UTC"))
	}
	return s.newRequest(ctx, team.HelpRequest{
		Kind: team.ForMoney, Phase: a.Phase, Persona: a.Persona, Category: team.TokenBudget, Message: stop.Message, Suggestion: strings.Join(ways, "; "),
		Answers:  []team.Verb{team.Retrying, team.Skipping, team.Supplying, team.Aborting},
		Attempts: append([]team.AttemptFailure{}, a.Failures...), Usage: a.Usage,
	})
}

// raiseCommand is what a person types to raise the budget that has stopped an
// assignment.
func (s *session) raiseCommand(stop activities.BudgetStop) string {
	flags, what := "", "--tokens N"
	if limit := s.limit(stop.Scope); limit.Tokens == 0 {
		what = "--usd N"
	} else if limit.USD > 0 {
		what = "--tokens N --usd N"
	}
	if stop.Date != "" {
		return fmt.Sprintf("maestro budget raise --team %s %s", s.team.Name, what)
	}
	if kind, which, found := strings.Cut(stop.Scope, " "); found {
		flags = fmt.Sprintf(" --%s %s", kind, which)
	} else if len(s.awaitedBudgets()) > 1 {
		flags = " --session"
	}
	return fmt.Sprintf("maestro budget raise %s%s %s", s.status.Session, flags, what)
}

// raiseUpdate says which update does the same; empty for a team's day, which is
// raised in the store.
func (s *session) raiseUpdate(stop activities.BudgetStop) string {
	if stop.Date != "" {
		return ""
	}
	key, whose := "tokens", ""
	if s.limit(stop.Scope).Tokens == 0 {
		key = "usd"
	}
	if kind, which, found := strings.Cut(stop.Scope, " "); found {
		whose = fmt.Sprintf(", %q: %q", kind, which)
	}
	return fmt.Sprintf(", or with the update `%s` and `{%q: N%s}`", RaiseUpdate, key, whose)
}

// takeRaises lets a person add to a budget at any time: by an update, which
// answers, or by a signal, which needs no worker to be at hand.
func (s *session) takeRaises(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, RaiseUpdate)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if s.awaitAdmission(ctx) != nil {
			return
		}
		for n := 1; ; n++ {
			var r Raise
			signals.Receive(ctx, &r)
			if r.ID == "" {
				// The ledger outlives the run. A reset has its signals again.
				r.ID = fmt.Sprintf("signal-%s-%d", workflow.GetInfo(ctx).OriginalRunID, n)
			}
			err := s.raisable(r)
			if err == nil {
				_, err = s.raise(ctx, r)
			}
			if err != nil {
				workflow.GetLogger(ctx).Warn("a signal to raise a budget is ignored", "error", err)
			}
		}
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, RaiseUpdate,
		func(ctx workflow.Context, r Raise) (activities.Raised, error) {
			r.ID = workflow.GetCurrentUpdateInfo(ctx).ID
			waiting := s.woken + len(s.broke)
			raised, err := s.raise(ctx, r)
			if err != nil {
				return raised, err
			}
			// Answered once everybody can see that the session goes on.
			return raised, workflow.Await(ctx, func() bool { return s.woken >= waiting })
		},
		workflow.UpdateHandlerOptions{
			Validator: s.raisable,
			Description: `Adds to a budget of the session; one that has parked because the budget is spent goes on. ` +
				`The argument says what is added: {"tokens": 50000, "usd": 1.5, "by": "your name"}; with "persona" or "phase", to that one's budget, with "session": true to the session's own. ` +
				`Without them it is the budget that the session waits for.`,
		})
}

// raise adds to a budget, and lets go on who waits for one.
func (s *session) raise(ctx workflow.Context, r Raise) (activities.Raised, error) {
	in := activities.RaiseInput{Raise: budget.Raise{
		ID: r.ID, Scope: s.scopeOf(r), By: r.By, Note: r.Note, Added: team.Amount{Tokens: r.Tokens, USD: r.USD},
	}}
	var raised activities.Raised
	if err := s.atBoundary(ctx, activities.RaiseName, in, &raised); err != nil {
		return raised, err
	}
	s.raises++
	s.caps[raised.Scope] = raised.Cap
	return raised, nil
}

// scopeOf names the budget that is raised: the one that is named or, if none is, the
// one that the session waits for.
func (s *session) scopeOf(r Raise) string {
	switch {
	case r.Persona != "":
		return budget.PersonaScope(r.Persona)
	case r.Phase != "":
		return budget.PhaseScope(r.Phase)
	case r.Session:
		return budget.SessionScope
	}
	if awaited := s.awaitedBudgets(); len(awaited) == 1 {
		return awaited[0].Scope
	}
	return budget.SessionScope
}

// awaitedBudgets are the stops for whose budgets the session waits, one for each budget.
func (s *session) awaitedBudgets() []activities.BudgetStop {
	byScope := map[string]activities.BudgetStop{}
	for _, r := range s.open {
		if stop := s.stopOf(r.HelpRequest); stop.Scope != "" {
			byScope[stop.Scope] = stop
		}
	}
	var all []activities.BudgetStop
	for _, scope := range workflow.DeterministicKeys(byScope) {
		all = append(all, byScope[scope])
	}
	return all
}

// limit is a budget's cap, raises of this incarnation included.
func (s *session) limit(scope string) team.Cap {
	if raised, ok := s.caps[scope]; ok {
		return raised
	}
	return budget.CapOf(s.team, scope)
}

// raisable refuses what would add nothing to any budget.
func (s *session) raisable(r Raise) error {
	scope := s.scopeOf(r)
	limit, of := s.limit(scope), team.Shorten(budget.Label(scope), 80)
	switch {
	case !s.admitted():
		return notRaised(notAdmittedYet)
	case s.closing:
		return notRaised("the session ends")
	case r.Persona != "" && r.Phase != "" || r.Session && (r.Persona != "" || r.Phase != ""):
		return notRaised("it names several budgets; raise one at a time")
	case r.Tokens < 0 || r.USD < 0:
		return notRaised("a budget can only be raised; give positive numbers")
	case r.Tokens == 0 && r.USD == 0:
		return notRaised("it says neither tokens nor usd")
	}
	if err := s.unclear(r); err != nil {
		return err
	}
	switch {
	case r.Tokens > 0 && limit.Tokens == 0:
		return notRaised("there is no budget of tokens for " + of + "; `maestro budget show` has those that there are")
	case r.USD > 0 && limit.USD == 0:
		return notRaised("there is no budget of USD for " + of + "; `maestro budget show` has those that there are")
	}
	return nil
}

// unclear refuses a raise that names no budget while the session waits for several,
// or for its team's day.
func (s *session) unclear(r Raise) error {
	awaited := s.awaitedBudgets()
	switch {
	case r.Persona != "" || r.Phase != "" || r.Session || len(awaited) == 0:
		return nil
	case len(awaited) == 1 && awaited[0].Date != "":
		return notRaised("the session waits for the daily budget of its team: `" + s.raiseCommand(awaited[0]) + "`")
	case len(awaited) == 1:
		return nil
	}
	var ways []string
	for _, stop := range awaited {
		ways = append(ways, "`"+s.raiseCommand(stop)+"`")
	}
	return notRaised("the session waits for several budgets; say which: " + strings.Join(ways, " or "))
}

func notRaised(why string) error {
	return temporal.NewApplicationErrorWithOptions("the budget is not raised: "+why, NotRaised,
		temporal.ApplicationErrorOptions{NonRetryable: true})
}
