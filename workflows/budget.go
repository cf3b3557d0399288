package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// limitOf is the cap of a budget, with the raises so far.
func (s *sessionRun) limitOf(scope string) spec.Cap {
	if raised, ok := s.RaisedCaps[scope]; ok {
		return raised
	}
	return budget.CapOf(s.Team, scope)
}

// budgetRaise returns the raise for the budget that has stopped an assignment.
func (s *sessionRun) budgetRaise(stop activities.BudgetStop) session.BudgetRaise {
	limit := s.limitOf(stop.Scope)
	b := session.BudgetRaise{Scope: session.BudgetOfSession, Tokens: limit.Tokens > 0, USD: limit.Tokens == 0 || limit.USD > 0}
	if stop.Date != "" {
		b.Scope, b.Name = session.BudgetOfDay, s.Team.Name
	} else if kind, which, found := strings.Cut(stop.Scope, " "); found {
		b.Scope, b.Name = session.BudgetScope(kind), which
	}
	return b
}

// waitForBudget makes an assignment wait until the exceeded budget is raised. If a person gives another
// answer, the error is *answeredError. Work that does not need that budget continues meanwhile. If a request about the
// budget is open already, the assignment waits for its end: one cause is one request.
func (s *sessionRun) waitForBudget(ctx workflow.Context, a *assignment, stop activities.BudgetStop) error {
	for open := s.openBudgetRequest(a, stop); open != nil; open = s.openBudgetRequest(a, stop) {
		if again, err := s.joinBudgetRequest(ctx, a, open); again || err != nil {
			return err
		}
	}
	r := s.openRequest(ctx, &request{
		Request: s.budgetRequest(a, stop), Stop: &stop, OwnWork: a.ownWork(),
		RaisesBefore: s.RaiseCount,
	})
	r.obsolete = func() bool { return s.RaiseCount > r.RaisesBefore }
	if stop.Date != "" || stop.Unsettled {
		r.funded = func(ctx workflow.Context) workflow.Future { return s.awaitFunds(ctx, a, stop) }
	}
	s.waitingForBudgets++
	answer, err := s.ask(ctx, a, r)
	s.waitingForBudgets--
	s.resumedFromBudgets++
	switch {
	case err != nil || answer == nil:
		return err
	case answer.Action == session.AnswerRetry:
		if answer.Note != "" { // the round continues as it began unless there is something to say
			a.Note = answer.Note
		}
		return nil
	}
	return &answeredError{*answer}
}

// afterBudgetSpent switches to the agent's fallback, or waits until a person raises the budget.
func (s *sessionRun) afterBudgetSpent(ctx workflow.Context, a *assignment, stop activities.BudgetStop) error {
	a.setUsage(stop.RoundReport)
	if s.onExceeded(a) == spec.OnExceededDegrade {
		a.Degraded, a.Substitute, a.Refused = true, s.fallbackOf(a), nil
		return nil
	}
	return s.waitForBudget(ctx, a, stop)
}

// openBudgetRequest is the open request of other work about the same budget; nil if there is none, or the assignment has its own.
func (s *sessionRun) openBudgetRequest(a *assignment, stop activities.BudgetStop) *request {
	var other *request
	for _, r := range s.Requests {
		if r.Stop == nil || r.closed || r.Stop.Scope != stop.Scope || r.Stop.Date != stop.Date {
			continue
		}
		if r.Phase == a.Phase && r.Persona == a.Persona {
			return nil
		}
		other = cmp.Or(other, r)
	}
	return other
}

// joinBudgetRequest makes an assignment wait for the end of a request about the budget that it needs, too. again: it tries again,
// because the budget was raised, a person wants the work tried again, or nobody has to answer any more. After
// other answers, which are about the other work only, it needs a request of its own.
func (s *sessionRun) joinBudgetRequest(ctx workflow.Context, a *assignment, r *request) (again bool, err error) {
	if err := s.saveWait(ctx, a, session.HelpIsNeeded, nil); err != nil {
		return false, err
	}
	s.waitingForBudgets++
	raises := s.RaiseCount
	err = workflow.Await(ctx, func() bool {
		return s.RaiseCount > raises || !slices.Contains(s.Requests, r) || s.ending.stopping()
	})
	s.waitingForBudgets--
	s.resumedFromBudgets++
	switch {
	case err != nil:
		return false, err
	case s.ending.stopping():
		return false, errStopped
	}
	again = s.RaiseCount > raises || r.Answer == nil || r.Answer.Action == session.AnswerRetry
	if again {
		err = s.saveWait(ctx, a, session.Running, nil)
	}
	return again, err
}

// awaitFunds starts an activity that ends when the budget that has stopped an assignment may
// permit it: it was raised, a call was released or settled, or the day is over.
func (s *sessionRun) awaitFunds(ctx workflow.Context, a *assignment, stop activities.BudgetStop) workflow.Future {
	ctx = waitContext(ctx, fmt.Sprintf("%s.%s.budget.%d", a.Phase, a.Persona, a.Continuations),
		fmt.Sprintf("%s waits for the budget of %s", a.AssignmentID, budget.Label(stop.Scope)))
	return awaitBudget.start(ctx, activities.AwaitBudgetInput{
		AssignmentID: a.AssignmentID, Scope: stop.Scope, Team: s.Team.Name, Date: stop.Date, Least: stop.Least,
	})
}

// budgetRequest returns the request about an exceeded budget.
func (s *sessionRun) budgetRequest(a *assignment, stop activities.BudgetStop) session.Request {
	var ways []string
	if stop.Unsettled {
		ways = append(ways, fmt.Sprintf("settle or write off the calls with unknown cost (`maestro budget show %s` lists this "+
			"session's), "+
			"then the session continues by itself, or raise the budget", s.Status.Session))
	}
	if stop.Date != "" {
		ways = append(ways, "the session continues by itself at "+budget.NextDay(stop.Date).Format("2006-01-02 15:04 UTC"))
	}
	raise := s.budgetRaise(stop)
	return session.Request{
		Kind: session.ForBudget, Raise: &raise, Phase: a.Phase, Persona: a.Persona, Category: failures.TokenBudget,
		Message: stop.Message, Suggestion: strings.Join(ways, "; "),
		Actions:  session.ForBudget.Rule().Actions,
		Attempts: append([]session.AttemptFailure{}, a.Failures...), Usage: a.Usage, SkipEffect: a.skipEffect(),
	}
}

// registerRaises registers the handlers that add to a budget at any time: an update, which returns
// a result, and a signal, which works without a running worker.
func (s *sessionRun) registerRaises(ctx workflow.Context) error {
	received := 0
	onSignal(ctx, &s.signals, RaiseUpdate, s.admitted, func(ctx workflow.Context, r Raise) {
		received++
		if r.ID == "" {
			// Raises are kept after a reset, which applies signals again.
			r.ID = fmt.Sprintf("signal-%s-%d", workflow.GetInfo(ctx).OriginalRunID, received)
		}
		err := s.validateRaise(r)
		if err == nil {
			_, err = s.raise(ctx, r)
		}
		if err != nil {
			workflow.GetLogger(ctx).Warn("ignoring a signal to raise a budget", "error", err)
		}
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, RaiseUpdate,
		func(ctx workflow.Context, r Raise) (activities.Raised, error) {
			r.ID = workflow.GetCurrentUpdateInfo(ctx).ID
			all := s.resumedFromBudgets + s.waitingForBudgets
			raised, err := s.raise(ctx, r)
			if err != nil {
				return raised, err
			}
			// Return after the visible status has changed.
			return raised, workflow.Await(ctx, func() bool { return s.resumedFromBudgets >= all })
		},
		workflow.UpdateHandlerOptions{
			Validator: s.validateRaise,
			Description: `Raises a budget of the session; a session that waits because the budget is spent continues. ` +
				`The argument has the amount to add: {"tokens": 50000, "usd": 1.5, "by": "your name"}; with "persona" or "phase" for that budget, with "session": true for the session's own. ` +
				`Without them, the budget that the session waits for is raised.`,
		})
}

// raise adds to a budget. What waits for one continues.
func (s *sessionRun) raise(ctx workflow.Context, r Raise) (activities.Raised, error) {
	raised, err := raiseBudget.localFirst(ctx, activities.RaiseInput{Raise: budget.Raise{
		ID: r.ID, Scope: s.scopeOf(r), By: r.By, Note: r.Note, Added: cost.Amount{Tokens: r.Tokens, USD: r.USD},
	}})
	if err != nil {
		return raised, err
	}
	s.RaiseCount++
	if s.RaisedCaps == nil {
		s.RaisedCaps = map[string]spec.Cap{}
	}
	s.RaisedCaps[raised.Scope] = raised.Cap
	return raised, nil
}

// scopeOf returns the budget to raise: the one that the raise names, or else the one that
// the session waits for.
func (s *sessionRun) scopeOf(r Raise) string {
	if scope := r.Scope(); scope != "" {
		return scope
	}
	if awaited := s.budgetRequests(); len(awaited) == 1 {
		return awaited[0].Stop.Scope
	}
	return budget.SessionScope
}

// validateRaise refuses a raise that would add nothing to a budget.
func (s *sessionRun) validateRaise(r Raise) error {
	scope := s.scopeOf(r)
	switch {
	case !s.admitted():
		return notRaised(notAdmittedYet)
	case s.ending.closing:
		return notRaised("the session ends")
	case r.Persona != "" && r.Phase != "" || r.Session && (r.Persona != "" || r.Phase != ""):
		return notRaised("persona, phase and session exclude each other; raise one budget at a time")
	case r.Tokens < 0 || r.USD < 0:
		return notRaised("tokens and usd must not be negative")
	case r.Tokens == 0 && r.USD == 0:
		return notRaised("missing tokens or usd")
	}
	if err := s.ambiguousRaise(r); err != nil {
		return err
	}
	if why := r.Misses(scope, s.limitOf(scope)); why != "" {
		return notRaised(why)
	}
	return nil
}

// ambiguousRaise refuses a raise that names no budget while the session waits for several,
// or for its team's day.
func (s *sessionRun) ambiguousRaise(r Raise) error {
	awaited := s.budgetRequests()
	switch {
	case r.Persona != "" || r.Phase != "" || r.Session || len(awaited) == 0:
		return nil
	case len(awaited) == 1 && awaited[0].Stop.Date != "":
		return notRaised("the session waits for the daily budget of its team: `" + s.raiseCommand(awaited[0], false) + "`")
	case len(awaited) == 1:
		return nil
	}
	var ways []string
	for _, waiting := range awaited {
		ways = append(ways, "`"+s.raiseCommand(waiting, true)+"`")
	}
	return notRaised("the session waits for several budgets; choose one: " + strings.Join(ways, " or "))
}

// raiseCommand returns the command that raises the budget of a request.
func (s *sessionRun) raiseCommand(r *request, several bool) string {
	return "maestro " + s.budgetRaise(*r.Stop).Command(s.Status.Session, several)
}

func notRaised(why string) error {
	return temporal.NewApplicationErrorWithOptions("the budget was not raised: "+why, NotRaised,
		temporal.ApplicationErrorOptions{NonRetryable: true})
}

// handedOverStop is why an assignment waited for a budget in an earlier run; nil if it did not,
// or has been asked about since.
func (s *sessionRun) handedOverStop(a *assignment) *activities.BudgetStop {
	if r := s.findHandedOver(session.ForBudget, a.Phase, a.Persona); r != nil {
		return r.Stop
	}
	return nil
}

// budgetRequests are the requests for budgets that the session waits for, one for each budget.
func (s *sessionRun) budgetRequests() []*request {
	byScope := map[string]*request{}
	for _, r := range s.Requests {
		if r.Stop != nil && r.Stop.Scope != "" && !r.closed {
			byScope[r.Stop.Scope] = r
		}
	}
	var all []*request
	for _, scope := range workflow.DeterministicKeys(byScope) {
		all = append(all, byScope[scope])
	}
	return all
}
