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

// carryOut executes one round, in as many activities as its agent's breaker and
// the budgets make of it. An activity that was turned away, or that ran out of
// money, uses up no round and no attempt: the next one goes on where it was.
func (s *session) carryOut(ctx workflow.Context, a *assignment) (team.RoundResult, error) {
	id := fmt.Sprintf("%s.%s.%d", a.Phase, a.Persona, a.rounds)
	e := execution{id: id}
	a.refused = nil
	for {
		result, err := s.round(ctx, a, e)
		turned, away := detail[activities.TurnedAway](err, team.BreakerOpen)
		stop, broke := detail[activities.BudgetStop](err, team.BudgetSpent)
		if !away && !broke {
			return result, err
		}
		a.waits++
		lease := ""
		if away {
			lease, err = s.afterTurnedAway(ctx, a, turned)
		} else {
			err = s.afterBudgetSpent(ctx, a, stop)
		}
		if err != nil {
			return result, err
		}
		e = execution{id: fmt.Sprintf("%s.%d", id, a.waits), after: e.id, lease: lease}
	}
}

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
	if stop.Date != "" {
		r.day = func(ctx workflow.Context) workflow.Future { return s.awaitDay(ctx, a) }
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
	suggestion := ""
	if stop.Date != "" {
		suggestion = "the session goes on by itself at " + budget.NextDay(stop.Date).Format("2006-01-02 15:04 UTC")
	}
	return s.newRequest(ctx, team.HelpRequest{
		Kind: team.ForMoney, Phase: a.Phase, Persona: a.Persona, Category: team.TokenBudget, Message: stop.Message, Suggestion: suggestion,
		Answers:  []team.Verb{team.Retrying, team.Skipping, team.Supplying, team.Aborting},
		Attempts: append([]team.AttemptFailure{}, a.Failures...), Usage: a.Usage,
	})
}

// raiseCommand is what a person types to raise the budget that has stopped an
// assignment.
func (s *session) raiseCommand(stop activities.BudgetStop) string {
	if stop.Date != "" {
		return fmt.Sprintf("maestro budget raise --team %s --tokens N", s.team.Name)
	}
	flags, what := "", "--tokens N"
	if limit := s.limit(stop.Scope); limit.Tokens == 0 {
		what = "--usd N"
	} else if limit.USD > 0 {
		what = "--tokens N --usd N"
	}
	if kind, which, found := strings.Cut(stop.Scope, " "); found {
		flags = fmt.Sprintf(" --%s %s", kind, which)
	}
	return fmt.Sprintf("maestro budget raise %s%s %s", s.status.Session, flags, what)
}

// raiseUpdate is the update that does the same.
func (s *session) raiseUpdate(stop activities.BudgetStop) string {
	if stop.Date != "" {
		return fmt.Sprintf("the update `%s` and `{\"tokens\": N}` to workflow %s", RaiseDayUpdate, DailyBudgetID(s.in.Store, s.team.Name))
	}
	key, whose := "tokens", ""
	if s.limit(stop.Scope).Tokens == 0 {
		key = "usd"
	}
	if kind, which, found := strings.Cut(stop.Scope, " "); found {
		whose = fmt.Sprintf(", %q: %q", kind, which)
	}
	return fmt.Sprintf("the update `%s` and `{%q: N%s}`", RaiseUpdate, key, whose)
}

// takeRaises lets a person add to a budget at any time: by an update, which
// answers, or by a signal, which needs no worker to be at hand.
func (s *session) takeRaises(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, RaiseUpdate)
	workflow.Go(ctx, func(ctx workflow.Context) {
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
				`The argument says what is added: {"tokens": 50000, "usd": 1.5, "by": "your name"}; with "persona" or "phase", to that one's budget.`,
		})
}

// raise adds to a budget, and lets go on who waits for one.
func (s *session) raise(ctx workflow.Context, r Raise) (activities.Raised, error) {
	in := activities.RaiseInput{Raise: budget.Raise{
		ID: r.ID, Scope: r.scope(), By: r.By, Note: r.Note, Added: team.Amount{Tokens: r.Tokens, USD: r.USD},
	}}
	var raised activities.Raised
	if err := s.atBoundary(ctx, activities.RaiseName, in, &raised); err != nil {
		return raised, err
	}
	s.raises++
	s.caps[raised.Scope] = raised.Cap
	return raised, nil
}

// scope names the budget that is raised.
func (r Raise) scope() string {
	switch {
	case r.Persona != "":
		return budget.PersonaScope(r.Persona)
	case r.Phase != "":
		return budget.PhaseScope(r.Phase)
	}
	return budget.SessionScope
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
	limit, of := s.limit(r.scope()), team.Shorten(r.scope(), 80)
	switch {
	case r.Persona != "" && r.Phase != "":
		return notRaised("it names a persona and a phase; raise one budget at a time")
	case r.Tokens < 0 || r.USD < 0:
		return notRaised("a budget can only be raised; give positive numbers")
	case r.Tokens == 0 && r.USD == 0:
		return notRaised("it says neither tokens nor usd")
	case r.Tokens > 0 && limit.Tokens == 0:
		return notRaised("there is no budget of tokens for the " + of + "; `maestro budget show` has those that there are")
	case r.USD > 0 && limit.USD == 0:
		return notRaised("there is no budget of USD for the " + of + "; `maestro budget show` has those that there are")
	}
	return nil
}

func notRaised(why string) error {
	return temporal.NewApplicationErrorWithOptions("the budget is not raised: "+why, NotRaised,
		temporal.ApplicationErrorOptions{NonRetryable: true})
}
