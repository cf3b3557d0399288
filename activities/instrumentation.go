package activities

import (
	"cmp"
	"context"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/logs"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// observedAttempt does the attempt under the eyes of the observer.
func (r *round) observedAttempt(ctx context.Context) (*session.RoundResult, left, error) {
	attempt, began := len(r.log.Attempts)+1, r.Clock()
	ctx = logs.With(ctx, logs.Attempt, attempt)
	activity.GetLogger(ctx).Info("attempt started")
	watched, ended := observerOrNone(r.Observer).AttemptBegun(ctx, Attempt{
		Team: r.session.team.Name, Session: r.session.key.Session, AssignmentID: r.in.AssignmentID,
		Agent: r.agent(), Round: r.in.Round, Attempt: attempt,
	})
	result, left, err := r.attempt(watched)
	failure, failed := asFailure(err)
	interrupted := false
	switch {
	case err == nil:
		ended(AttemptEnd{})
	case failed && ctx.Err() == nil && !r.canBeHelped(*failure) && !r.waitsOut(*failure):
		ended(AttemptEnd{Category: failure.Category})
	default:
		ended(AttemptEnd{Interrupted: true})
		interrupted = true
	}
	logAttempt(ctx, failure, interrupted, r.Clock().Sub(began), r.spender.spent())
	return result, left, err
}

// work has the agent do the attempt, with the calls that it pays for watched.
func (r *round) work(ctx context.Context, job session.Job) (session.Outcome, error) {
	calls := &observedCalls{Calls: job.Calls, round: r, attempt: ctx}
	job.Calls = calls
	var outcome session.Outcome
	process := r.Agents.Offered(job.Agent).Conversation != spec.InJournal
	err := r.watchingDisk(ctx, "the agent", process, func(ctx context.Context) (err error) {
		outcome, err = r.Agents.Run(ctx, job)
		return err
	})
	switch failure, failed := asFailure(err); {
	case failed:
		calls.over(failure.Category)
	case err != nil:
		calls.over(failures.Cancelled)
	default:
		calls.over("")
	}
	return outcome, err
}

// observedCalls are an attempt's calls under the eyes of the observer.
type observedCalls struct {
	session.Calls
	round *round
	// attempt is what the calls belong to.
	attempt context.Context
	// ended ends what is watched of the last call, nil if that has ended, and
	// end is what is known of it by then.
	ended func(CallEnd)
	end   CallEnd
	// whole: the call is the whole attempt. told is what it has told of its output.
	whole bool
	told  int64
}

// Spending takes a further turn that a program tells of for an answer of its provider.
func (c *observedCalls) Spending(used cost.Usage) error {
	if c.whole && used.OutputTokens > c.told {
		c.told = used.OutputTokens
		c.round.progressed(c.attempt, true)
	}
	return c.Calls.Spending(used)
}

// Stored tells of a turn that need not be paid for.
func (c *observedCalls) Stored(ctx context.Context, turn int, request spec.Digest) (*session.StoredTurn, error) {
	stored, err := c.Calls.Stored(ctx, turn, request)
	if stored != nil {
		observerOrNone(c.round.Observer).CallReplayed(c.call(c.round.agent(), ""))
	}
	return stored, err
}

// Reserve tells that a call begins, once it may.
func (c *observedCalls) Reserve(ctx context.Context, plan session.CallPlan) (cost.Amount, error) {
	c.over(failures.Unknown) // one that brought no answer, and that the attempt got over
	granted, err := c.Calls.Reserve(ctx, plan)
	if err == nil {
		_, c.ended = observerOrNone(c.round.Observer).CallBegun(c.attempt, c.call(plan.Agent, plan.Model))
		c.end, c.whole, c.told = CallEnd{}, plan.Turn == 0, 0
	}
	return granted, err
}

// Settle tells what the call has cost. Whether one that is the whole attempt came
// to something is known when the attempt ends.
func (c *observedCalls) Settle(ctx context.Context, turn int, answer []byte, used cost.Usage) error {
	err := c.Calls.Settle(ctx, turn, answer, used)
	c.end = CallEnd{Usage: used, Stored: answer != nil && err == nil}
	if turn > 0 {
		c.over("")
	}
	return err
}

// Abandon tells what the call has cost. Why it brought no answer is known when the
// attempt ends.
func (c *observedCalls) Abandon(ctx context.Context, turn int, used cost.Usage) error {
	err := c.Calls.Abandon(ctx, turn, used)
	c.end = CallEnd{Usage: used}
	return err
}

// Unsettle tells what is known of what the call has cost.
func (c *observedCalls) Unsettle(ctx context.Context, turn int, used, estimate cost.Usage) error {
	err := c.Calls.Unsettle(ctx, turn, used, estimate)
	c.end = CallEnd{Usage: used}
	return err
}

// over ends what is watched of the last call, if that has not ended.
func (c *observedCalls) over(category failures.Category) {
	if c.ended != nil {
		c.end.Category = category
		c.ended(c.end)
		c.ended = nil
	}
}

// call says who answers.
func (c *observedCalls) call(agent, model string) Call {
	r := c.round
	offered := r.Agents.Offered(agent)
	return Call{
		Team: r.session.team.Name, Session: r.session.key.Session, Agent: agent,
		Kind: offered.Kind, Model: cmp.Or(model, offered.Model),
	}
}

// showFractions tells how much is spent of the budgets that an assignment draws
// from, by the kind of budget.
func (b *spender) showFractions(fractions map[string]float64) {
	for name, fraction := range fractions {
		kind, _, _ := strings.Cut(name, " ")
		observerOrNone(b.Observer).BudgetFraction(b.session.team.Name, kind, fraction)
	}
}
