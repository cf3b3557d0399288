package session

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// CallPlan is a call that an agent is about to pay for.
type CallPlan struct {
	// Whole: the call is a whole attempt of an agent program, whose calls nobody sees.
	Whole bool
	// Agent and Model identify what answers. API is the provider's API, as worker files name it, and
	// Server is its host; empty: the call is a whole attempt of an agent program.
	Agent, Model, API, Server string
	// Request is the digest of everything that the answer depends on.
	Request spec.Digest
	// Want is an upper bound of the call's cost. Least is the smallest amount with which the call
	// is useful, by an estimate of its prompt's cost.
	Want, Least cost.Amount
	// Estimate is booked if the cost of the call stays unknown; zero: the cost of the agent's
	// earlier calls.
	Estimate cost.Usage
	// OnWait is called before the first wait for calls in progress; nil: nothing is. What the caller holds
	// for the call can be left to others there.
	OnWait func()
}

// CallAnswer is what a provider reports about its answer.
type CallAnswer struct {
	// ID is the provider's id of the answer, Model the model that wrote it, and Stop the reason why
	// it ends; empty: unknown.
	ID, Model, Stop string
	// Tier is the service tier that the provider reports.
	Tier string
	// Differs says how the provider's total or cost differs from what its counts give; empty: it does
	// not. The higher figure counts.
	Differs string
	// Category is that of the failure, if there is no complete answer; empty: the answer is complete.
	Category failures.Category
}

// Mark is the text on differing figures for the end of a line about the answer; empty if they do not differ.
func (a CallAnswer) Mark() string {
	if a.Differs == "" {
		return ""
	}
	return "; " + a.Differs + "; the higher figure is booked"
}

// StoredTurn is a paid turn.
type StoredTurn struct {
	// Call is its id, for KeepTools and Undelivered.
	Call   string
	Answer []byte
	Usage  cost.Usage
	// Tools is what was stored of the tools' work after the answer; nil: nothing, so the tools work
	// again.
	Tools []byte
}

// Calls records the paid calls of an attempt and enforces the budgets; the spender in activities/calls.go does. An attempt
// gets it with its [Job]. It is safe for concurrent use.
type Calls interface {
	// Stored returns the oldest answer to the request that the running program has not received, of
	// those that were paid for in this attempt, or in one whose conversation it continues; nil if there
	// is none. So a killed program that repeats a request gets the paid answer, and a program that sends
	// the same request twice pays twice.
	Stored(ctx context.Context, request spec.Digest) (*StoredTurn, error)
	// Undelivered records that the program has not received the answer of a call. The next equal request
	// gets it.
	Undelivered(call string)
	// Begin records durably that a call begins, and reserves its possible cost: between plan.Least
	// and plan.Want. It waits while calls in progress may release the missing amount. A *Failure of
	// category token_budget reports that the remaining budget cannot pay for the call; it must end
	// the attempt.
	Begin(ctx context.Context, plan CallPlan) (Call, error)
	// KeepTools stores durably what the tools did after the answer of a settled call.
	KeepTools(ctx context.Context, call string, doc []byte) error
}

// Call is a paid call in progress. Exactly one of Settle, Abandon and Unsettle ends it, before the
// attempt ends.
type Call interface {
	// ID is its id, made before it begins.
	ID() string
	// Granted is the amount that was reserved when it began.
	Granted() cost.Amount
	// Settle stores the answer and books its cost, durably. The answer must not be used before,
	// and must hold no secret. nil: there is no answer to store.
	Settle(ctx context.Context, answer []byte, used cost.Usage) error
	// Abandon ends a call without an answer, and books its cost.
	Abandon(ctx context.Context, used cost.Usage) error
	// Unsettle ends a call whose cost is not known, or only in part: used is booked, and estimate
	// stays unsettled. A zero estimate means the last one that was given.
	Unsettle(ctx context.Context, used, estimate cost.Usage) error
	// Report does what Spending does. It also records durably what the call has used so far, and an
	// estimate of its further cost. Both are booked if the worker is lost.
	Report(used, estimate cost.Usage) error
	// Spending reports what the call has used so far, for display. A call that has exceeded its
	// reservation gets more, if the budget has more. A *Failure of category token_budget reports
	// that nothing is left: the agent has to stop.
	Spending(used cost.Usage) error
	// Answered receives what the provider has reported, for the call's row and for traces. It is called before the call ends.
	Answered(a CallAnswer)
}

// EndCall ends a call without a whole answer: used is booked, and rest stays unsettled unless it is zero.
func EndCall(ctx context.Context, call Call, used, rest cost.Usage) error {
	if rest == (cost.Usage{}) {
		return call.Abandon(ctx, used)
	}
	return call.Unsettle(ctx, used, rest)
}
