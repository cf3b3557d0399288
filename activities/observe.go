package activities

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Observer records what happens, for metrics and traces. Its methods return at
// once and cannot fail. Wherever a struct here takes an Observer, nil is one that
// records nothing.
type Observer interface {
	// SessionStarted: a session, or a further run of one, is admitted.
	SessionStarted(teamName string)
	// SessionEnded: it is completed, failed or cancelled.
	SessionEnded(teamName string, state session.State)
	// HelpRequested: an assignment is given up until a person helps, because of
	// failures of a category.
	HelpRequested(category failures.Category)
	// AssignmentEnded: its work is done, or given up. One that is restored,
	// supplied or skipped has ended when its session starts.
	AssignmentEnded(teamName string, state session.State)
	// RoundEnded: it succeeded, with no category, or is given up. A round that
	// another execution takes up again has not ended.
	RoundEnded(agent string, category failures.Category)
	// WorkerLost: an execution of a round has found that the one before it
	// ended without noting how.
	WorkerLost(agent string)
	// StoreWaited: an operation is retried after this wait, because the store could
	// not be used.
	StoreWaited(d time.Duration)
	// ExternalCalled: a call of an external system has ended, with an outcome of [CallOutcomes].
	ExternalCalled(whom ExternalSystem, outcome string)

	// AttemptBegun opens an attempt. The caller must use the returned context in
	// the attempt, and call ended once.
	AttemptBegun(ctx context.Context, a AttemptInfo) (attempt context.Context, ended func(AttemptOutcome))
	// CallBegun opens a paid call whose answer is not stored yet. The same rules
	// apply.
	CallBegun(ctx context.Context, c CallInfo) (call context.Context, ended func(CallOutcome))
	// CallReplayed: the answer to a call was found in the store, and nothing
	// is paid.
	CallReplayed(c CallInfo)
	// BudgetFraction: this part of a budget is spent; 1 is all of it.
	// Scope is persona, phase or session.
	BudgetFraction(teamName, scope string, fraction float64)
}

// ExternalSystem is a system outside Maestro that activities call.
type ExternalSystem string

// The external systems.
const (
	TicketSystem    ExternalSystem = "jira"
	WebhookReceiver ExternalSystem = "webhook"
)

// CallOutcomes lists the possible outcomes of calls of each external system.
func CallOutcomes() map[ExternalSystem][]string {
	return map[ExternalSystem][]string{
		TicketSystem: {
			callDone, string(session.Unreached), string(session.Unclear), string(session.Misconfigured),
			string(session.Gone),
		},
		WebhookReceiver: {callDone, string(session.Unreached), callRefused},
	}
}

const (
	callDone    = "ok"
	callRefused = "refused"
)

// AttemptInfo identifies an attempt.
type AttemptInfo struct {
	Team, Session string
	spec.AssignmentID
	Agent string
	// Round and Attempt count from 1; Attempt within the round.
	Round, Attempt int
}

// AttemptOutcome is the result of an attempt.
type AttemptOutcome struct {
	// Category is that of its failure; empty for a success.
	Category failures.Category
	// Interrupted: it has neither succeeded nor failed, and is not counted.
	Interrupted bool
}

// CallInfo identifies the agent, the model and the provider of a paid call.
type CallInfo struct {
	Team, Session string
	Agent         string
	// API names the API of the provider, and Server is its host; empty: the call is a whole attempt of
	// an agent program.
	API, Model, Server string
}

// CallOutcome is the result of a paid call.
type CallOutcome struct {
	// Category is that of its failure; empty for an answer.
	Category failures.Category
	// Usage is what is booked for it.
	Usage cost.Usage
	// Stored: its answer is in the store and can be reused.
	Stored bool
	// Answer is what the provider has said.
	Answer session.CallAnswer
}

// observerOrNone is an observer that is not nil.
func observerOrNone(o Observer) Observer {
	if o == nil {
		return noObserver{}
	}
	return o
}

// noObserver is an observer that records nothing.
type noObserver struct{}

func (noObserver) SessionStarted(string)                  {}
func (noObserver) SessionEnded(string, session.State)     {}
func (noObserver) HelpRequested(failures.Category)        {}
func (noObserver) AssignmentEnded(string, session.State)  {}
func (noObserver) RoundEnded(string, failures.Category)   {}
func (noObserver) WorkerLost(string)                      {}
func (noObserver) StoreWaited(time.Duration)              {}
func (noObserver) ExternalCalled(ExternalSystem, string)  {}
func (noObserver) CallReplayed(CallInfo)                  {}
func (noObserver) BudgetFraction(string, string, float64) {}

func (noObserver) AttemptBegun(ctx context.Context, _ AttemptInfo) (context.Context, func(AttemptOutcome)) {
	return ctx, func(AttemptOutcome) {}
}

func (noObserver) CallBegun(ctx context.Context, _ CallInfo) (context.Context, func(CallOutcome)) {
	return ctx, func(CallOutcome) {}
}

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
	ended func(CallOutcome)
	end   CallOutcome
	// unanswered: it is booked, and has no answer.
	unanswered bool
}

// callStarted reports that a call begins. It also reports earlier calls without an answer: they
// did not end the attempt.
func (o *callObserver) callStarted(ctx context.Context, plan session.CallPlan) *observedCall {
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

func (o *callObserver) call(plan session.CallPlan) CallInfo {
	model := cmp.Or(plan.Model, o.agents.Offered(plan.Agent).Model)
	return CallInfo{Team: o.team, Session: o.session, Agent: plan.Agent, API: plan.API, Model: model, Server: plan.Server}
}

// fractions reports the spent part of each budget of an assignment.
func (o *callObserver) fractions(budgets []budget.Budget) {
	for _, b := range budgets {
		o.observer.BudgetFraction(o.team, string(b.Kind), b.Fraction())
	}
}
