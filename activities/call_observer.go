package activities

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// callObserver reports the paid calls of a round to its observer. The failure of a call
// without an answer is known later: it is the attempt's failure, unless another call
// follows.
type callObserver struct {
	observer      Observer
	agents        Agents
	team, session string

	mu sync.Mutex
	// open are the calls whose end is not reported.
	open []*observedCall
}

// observedCall is a call that the observer has seen begin.
type observedCall struct {
	ended func(CallEnd)
	end   CallEnd
	// unanswered: it is booked, and has no answer.
	unanswered bool
}

// begin reports that a call begins. It also reports earlier calls without an answer: they
// did not end the attempt.
func (o *callObserver) begin(ctx context.Context, plan session.CallPlan) *observedCall {
	o.finish(failures.Unknown, func(c *observedCall) bool { return c.unanswered })
	c := &observedCall{}
	_, c.ended = o.observer.CallBegun(ctx, o.call(plan))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, c)
	return c
}

// booked notes the cost of a call. answered: it had an answer. stored: the answer is stored.
func (o *callObserver) booked(call *observedCall, used cost.Usage, answered, stored bool) {
	o.mu.Lock()
	call.end.Usage, call.end.Stored = used, stored
	said := call.end.Answer
	call.unanswered = !answered && said == (session.CallAnswer{})
	o.mu.Unlock()
	if !call.unanswered { // the result of a call that is a whole attempt is known at the attempt's end
		o.finish(said.Category, func(c *observedCall) bool { return c == call })
	}
}

// answered notes the provider's answer.
func (o *callObserver) answered(call *observedCall, a session.CallAnswer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	call.end.Answer = a
}

// attemptEnded reports the end of all open calls, some of which may have been interrupted.
func (o *callObserver) attemptEnded(category failures.Category) {
	o.finish(category, func(*observedCall) bool { return true })
}

func (o *callObserver) finish(category failures.Category, which func(*observedCall) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = slices.DeleteFunc(o.open, func(c *observedCall) bool {
		if which(c) {
			c.end.Category = category
			c.ended(c.end)
			return true
		}
		return false
	})
}

// replayed reports an answer that was found in the store.
func (o *callObserver) replayed(agent string) {
	o.observer.CallReplayed(o.call(session.CallPlan{Agent: agent}))
}

func (o *callObserver) call(plan session.CallPlan) Call {
	model := cmp.Or(plan.Model, o.agents.Offered(plan.Agent).Model)
	return Call{Team: o.team, Session: o.session, Agent: plan.Agent, API: plan.API, Model: model, Server: plan.Server}
}

// fractions reports the spent part of each budget of an assignment.
func (o *callObserver) fractions(budgets []budget.Budget) {
	for _, b := range budgets {
		o.observer.BudgetFraction(o.team, string(b.Kind), b.Fraction())
	}
}
