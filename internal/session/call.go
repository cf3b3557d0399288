package session

import (
	"context"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/spec"
)

// CallKey names a paid call among those of its assignment. It says nothing of
// incarnations or workers: whoever does the same turn of the same attempt again
// finds the answer that was paid for.
type CallKey struct {
	// Epoch counts how often a person had the assignment begin afresh.
	Epoch int `json:"epoch"`
	// Round and Attempt count from 1; Attempt within the round.
	Round   int `json:"round"`
	Attempt int `json:"attempt"`
	// Turn counts the calls of one conversation from 1. An agent that is paid
	// by the attempt has the turn 0.
	Turn int `json:"turn"`
}

// SameAttempt reports whether two calls are of one attempt.
func (k CallKey) SameAttempt(other CallKey) bool {
	k.Turn = other.Turn
	return k == other
}

// AnyTurn is the turn of a call whose place in a conversation is not known: a program has
// made the request, perhaps beside others. The journal numbers such calls as they begin.
const AnyTurn = -1

// CallPlan is a call that an agent is about to pay for.
type CallPlan struct {
	// Turn is as in [CallKey], or [AnyTurn].
	Turn int
	// Agent and Model say who answers. API names the API of the provider: anthropic, openai or gemini,
	// and Server is its host; empty: the call is a whole attempt of an agent program.
	Agent, Model, API, Server string
	// Request is the digest of all that the answer depends on.
	Request spec.Digest
	// Want covers the call whatever it turns out to cost. Least is the least
	// that makes it worth while, by the best guess of what its prompt costs.
	Want, Least cost.Amount
	// Estimate is booked if nobody ever learns what the call has cost; zero: what
	// calls of the agent have cost before.
	Estimate cost.Usage
}

// CallAnswer is what a provider says of its answer.
type CallAnswer struct {
	// ID is its name for the answer, Model what wrote it, and Stop why it ends; empty: unknown.
	ID, Model, Stop string
	// Tier is the service tier that it names.
	Tier string
	// Category is that of the failure, where there is no whole answer; empty: there is one, or it is
	// the attempt's.
	Category failures.Category
}

// StoredTurn is a turn that was paid for.
type StoredTurn struct {
	// Call is its number, for KeepTools and Undelivered.
	Call   int64
	Answer []byte
	Usage  cost.Usage
	// Tools is what was kept of the tools' work after the answer; nil: nothing,
	// so that they have to work again.
	Tools []byte
}

// Calls keeps what an attempt pays for, and holds it to the budgets. It is safe
// for concurrent use.
type Calls interface {
	// Stored returns a turn that was paid for in this attempt, or in one whose
	// conversation it continues; nil if there is none or its request was another.
	// With [AnyTurn] it is the oldest answer to the request that was not given to the
	// program at work yet: a program that was killed and asks the same again gets what
	// was paid for, one that asks the same twice pays twice.
	Stored(ctx context.Context, turn int, request spec.Digest) (*StoredTurn, error)
	// Undelivered says that the answer of a call of [AnyTurn] has not reached the program:
	// the next request that is the same gets it.
	Undelivered(call int64)
	// Begin notes durably that a call begins, and sets aside what it may
	// cost: between plan.Least and plan.Want. It waits while others' calls
	// under way may free what is missing. A *Failure of category token_budget
	// says that what is left cannot pay for the call; it must end the attempt.
	Begin(ctx context.Context, plan CallPlan) (Call, error)
	// KeepTools stores what the tools did after the answer of a settled call, durably.
	KeepTools(ctx context.Context, call int64, doc []byte) error
	// Put and Get keep larger things that such a document names.
	Put(ctx context.Context, data []byte) (spec.Digest, error)
	Get(ctx context.Context, name spec.Digest) ([]byte, error)
}

// Call is a paid call under way. It ends with one of Settle, Abandon and Unsettle, once,
// before the attempt does.
type Call interface {
	// ID is its number in the assignment's journal; zero: it has none before its end.
	ID() int64
	// Granted is what was set aside when it began.
	Granted() cost.Amount
	// Settle stores the answer and books what it cost, durably. Only then
	// may the answer be used. It must hold no secret. nil: there is none to store.
	Settle(ctx context.Context, answer []byte, used cost.Usage) error
	// Abandon ends a call that brought no answer, and books what it cost.
	Abandon(ctx context.Context, used cost.Usage) error
	// Unsettle ends a call of which it is not known what it cost, or not all of it:
	// used is booked, and estimate stays unsettled besides. A zero estimate stands
	// for the last one that was given.
	Unsettle(ctx context.Context, used, estimate cost.Usage) error
	// Report does what Spending does, and notes durably what the call has used so far,
	// and an estimate of what it may cost besides. That is booked if the worker dies.
	Report(used, estimate cost.Usage) error
	// Spending tells what the call has used so far, for people to see. One that has
	// passed what was reserved gets more while there is some. A *Failure of category
	// token_budget says that nothing is left: the agent has to stop.
	Spending(used cost.Usage) error
	// Answered is told, before the call ends, what its provider has said. Nothing depends on it
	// besides traces.
	Answered(a CallAnswer)
}
