package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
)

// budgets handles the waits of assignments for exceeded budgets, and raises by people.
type budgets struct {
	limits   *limits
	ending   *ending
	requests *requests
	// raises counts the raises of all runs; waiting the assignments that wait for one, and resumed
	// those that have continued since.
	raises, waiting, resumed int
}

// await makes an assignment wait until the exceeded budget is raised. If a person gives another
// answer, the error is *answered. Work that does not need that budget continues meanwhile. If a request about the
// budget is open already, the assignment waits for its end: one cause is one request.
func (b *budgets) await(ctx workflow.Context, a *assignment, stop activities.BudgetStop) error {
	for open := b.openFor(a, stop); open != nil; open = b.openFor(a, stop) {
		if again, err := b.join(ctx, a, open); again || err != nil {
			return err
		}
	}
	r := b.requests.add(ctx, &request{Request: b.requestFor(a, stop), stop: &stop, ownWork: a.ownWork(), raises: b.raises})
	r.obsolete = func() bool { return b.raises > r.raises }
	if stop.Date != "" || stop.Unsettled {
		r.funded = func(ctx workflow.Context) workflow.Future { return b.awaitFunds(ctx, a, stop) }
	}
	b.waiting++
	answer, err := b.requests.ask(ctx, a, r)
	b.waiting--
	b.resumed++
	switch {
	case err != nil || answer == nil:
		return err
	case answer.Action == session.AnswerRetry:
		if answer.Note != "" { // the round continues as it began unless there is something to say
			a.note = answer.Note
		}
		return nil
	}
	return &answered{*answer}
}

// openFor is the open request of other work about the same budget; nil: there is none, or the assignment has its own.
func (b *budgets) openFor(a *assignment, stop activities.BudgetStop) *request {
	var other *request
	for _, r := range b.requests.open {
		if r.stop == nil || r.closed || r.stop.Scope != stop.Scope || r.stop.Date != stop.Date {
			continue
		}
		if r.Phase == a.Phase && r.Persona == a.Persona {
			return nil
		}
		other = cmp.Or(other, r)
	}
	return other
}

// join makes an assignment wait for the end of a request about the budget that it needs, too. again: it tries again,
// because the budget was raised, a person wants the work tried again, or nobody has to answer any more. After
// other answers, which are about the other work only, it needs a request of its own.
func (b *budgets) join(ctx workflow.Context, a *assignment, r *request) (again bool, err error) {
	if err := b.requests.save(ctx, a, session.HelpIsNeeded, nil); err != nil {
		return false, err
	}
	b.waiting++
	raises := b.raises
	err = workflow.Await(ctx, func() bool {
		return b.raises > raises || !slices.Contains(b.requests.open, r) || b.ending.stopping()
	})
	b.waiting--
	b.resumed++
	switch {
	case err != nil:
		return false, err
	case b.ending.stopping():
		return false, errSessionEnds
	}
	again = b.raises > raises || r.answer == nil || r.answer.Action == session.AnswerRetry
	if again {
		err = b.requests.save(ctx, a, session.Running, nil)
	}
	return again, err
}

// awaitFunds starts an activity that ends when the budget that has stopped an assignment may
// permit it: it was raised, a call was released or settled, or the day is over.
func (b *budgets) awaitFunds(ctx workflow.Context, a *assignment, stop activities.BudgetStop) workflow.Future {
	ctx = waitContext(ctx, fmt.Sprintf("%s.%s.budget.%d", a.Phase, a.Persona, a.waits),
		fmt.Sprintf("%s waits for the budget of %s", a.AssignmentID, budget.Label(stop.Scope)))
	return awaitBudget.start(ctx, activities.AwaitBudgetInput{
		AssignmentID: a.AssignmentID, Scope: stop.Scope, Team: b.limits.team.Name, Date: stop.Date, Least: stop.Least,
	})
}

// requestFor returns the request about an exceeded budget.
func (b *budgets) requestFor(a *assignment, stop activities.BudgetStop) session.Request {
	var ways []string
	if stop.Unsettled {
		ways = append(ways, fmt.Sprintf("settle or write off the calls with unknown cost (`maestro budget show %s` lists this session's), "+
			"then the session continues by itself, or raise the budget", b.requests.status.Session))
	}
	if stop.Date != "" {
		ways = append(ways, "the session continues by itself at "+budget.NextDay(stop.Date).Format("2006-01-02 15:04 UTC"))
	}
	raise := b.requests.advice.raise(stop)
	return session.Request{
		Kind: session.ForBudget, Raise: &raise, Phase: a.Phase, Persona: a.Persona, Category: failures.TokenBudget, Message: stop.Message, Suggestion: strings.Join(ways, "; "),
		Actions:  session.ForBudget.Rule().Actions,
		Attempts: append([]session.AttemptFailure{}, a.Failures...), Usage: a.Usage, SkipEffect: a.skipEffect(),
	}
}

// register registers the handlers that add to a budget at any time: an update, which returns
// a result, and a signal, which works without a running worker.
func (b *budgets) register(ctx workflow.Context, all *signals) error {
	received := 0
	onSignal(ctx, all, RaiseUpdate, b.requests.publisher.admitted, func(ctx workflow.Context, r Raise) {
		received++
		if r.ID == "" {
			// Raises are kept after a reset, which applies signals again.
			r.ID = fmt.Sprintf("signal-%s-%d", workflow.GetInfo(ctx).OriginalRunID, received)
		}
		err := b.validate(r)
		if err == nil {
			_, err = b.raise(ctx, r)
		}
		if err != nil {
			workflow.GetLogger(ctx).Warn("ignoring a signal to raise a budget", "error", err)
		}
	})
	return onUpdate(ctx, RaiseUpdate,
		func(ctx workflow.Context, r Raise) (activities.Raised, error) {
			r.ID = workflow.GetCurrentUpdateInfo(ctx).ID
			all := b.resumed + b.waiting
			raised, err := b.raise(ctx, r)
			if err != nil {
				return raised, err
			}
			// Return after the visible status has changed.
			return raised, workflow.Await(ctx, func() bool { return b.resumed >= all })
		},
		workflow.UpdateHandlerOptions{
			Validator: b.validate,
			Description: `Raises a budget of the session; a session that waits because the budget is spent continues. ` +
				`The argument has the amount to add: {"tokens": 50000, "usd": 1.5, "by": "your name"}; with "persona" or "phase" for that budget, with "session": true for the session's own. ` +
				`Without them, the budget that the session waits for is raised.`,
		})
}

// raise adds to a budget. What waits for one continues.
func (b *budgets) raise(ctx workflow.Context, r Raise) (activities.Raised, error) {
	raised, err := raiseBudget.atBoundary(ctx, activities.RaiseInput{Raise: budget.Raise{
		ID: r.ID, Scope: b.scopeOf(r), By: r.By, Note: r.Note, Added: cost.Amount{Tokens: r.Tokens, USD: r.USD},
	}})
	if err != nil {
		return raised, err
	}
	b.raises++
	b.limits.raised[raised.Scope] = raised.Cap
	return raised, nil
}

// scopeOf returns the budget to raise: the one that the raise names, or else the one that
// the session waits for.
func (b *budgets) scopeOf(r Raise) string {
	if scope := r.Scope(); scope != "" {
		return scope
	}
	if awaited := b.requests.budgets(); len(awaited) == 1 {
		return awaited[0].stop.Scope
	}
	return budget.SessionScope
}

// validate refuses a raise that would add nothing to a budget.
func (b *budgets) validate(r Raise) error {
	scope := b.scopeOf(r)
	switch {
	case !b.requests.publisher.admitted():
		return notRaised(notAdmittedYet)
	case b.ending.closing:
		return notRaised("the session ends")
	case r.Persona != "" && r.Phase != "" || r.Session && (r.Persona != "" || r.Phase != ""):
		return notRaised("persona, phase and session exclude each other; raise one budget at a time")
	case r.Tokens < 0 || r.USD < 0:
		return notRaised("tokens and usd must not be negative")
	case r.Tokens == 0 && r.USD == 0:
		return notRaised("missing tokens or usd")
	}
	if err := b.ambiguous(r); err != nil {
		return err
	}
	if why := r.Misses(scope, b.limits.of(scope)); why != "" {
		return notRaised(why)
	}
	return nil
}

// ambiguous refuses a raise that names no budget while the session waits for several,
// or for its team's day.
func (b *budgets) ambiguous(r Raise) error {
	awaited := b.requests.budgets()
	switch {
	case r.Persona != "" || r.Phase != "" || r.Session || len(awaited) == 0:
		return nil
	case len(awaited) == 1 && awaited[0].stop.Date != "":
		return notRaised("the session waits for the daily budget of its team: `" + b.command(awaited[0], false) + "`")
	case len(awaited) == 1:
		return nil
	}
	var ways []string
	for _, waiting := range awaited {
		ways = append(ways, "`"+b.command(waiting, true)+"`")
	}
	return notRaised("the session waits for several budgets; choose one: " + strings.Join(ways, " or "))
}

// command returns the command that raises the budget of a request.
func (b *budgets) command(r *request, several bool) string {
	return "maestro " + b.requests.advice.raise(*r.stop).Command(b.requests.status.Session, several)
}

func notRaised(why string) error {
	return temporal.NewApplicationErrorWithOptions("the budget was not raised: "+why, NotRaised,
		temporal.ApplicationErrorOptions{NonRetryable: true})
}
