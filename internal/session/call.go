package session

import (
	"context"

	"github.com/maestro-hive/maestro/internal/cost"
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

// CallPlan is a call that an agent is about to pay for.
type CallPlan struct {
	Turn int
	// Agent and Model say who answers.
	Agent, Model string
	// Request is the digest of all that the answer depends on.
	Request spec.Digest
	// Want covers the call whatever it turns out to cost. Least is the least
	// that makes it worth while, by the best guess of what its prompt costs.
	Want, Least cost.Amount
	// Estimate is booked if nobody ever learns what the call has cost; zero: what
	// calls of the agent have cost before.
	Estimate cost.Usage
}

// StoredTurn is a turn that an earlier execution has paid for.
type StoredTurn struct {
	Answer []byte
	Usage  cost.Usage
	// Tools is what was kept of the tools' work after the answer; nil: nothing,
	// so that they have to work again.
	Tools []byte
}

// Calls keeps what an attempt pays for, and holds it to the budgets. It is safe
// for use by one agent at a time.
type Calls interface {
	// Stored returns the turn that an earlier execution has paid for, nil if
	// there is none or its request was another.
	Stored(ctx context.Context, turn int, request spec.Digest) (*StoredTurn, error)
	// Reserve notes durably that a call begins, and sets aside what it may
	// cost: between plan.Least and plan.Want. It waits while others' calls
	// under way may free what is missing. A *Failure of category token_budget
	// says that what is left cannot pay for the call; it must end the attempt.
	// Every call that was reserved ends with Settle, Abandon or Unsettle.
	Reserve(ctx context.Context, plan CallPlan) (cost.Amount, error)
	// Settle stores a turn's answer and books what it cost, durably. Only then
	// may the answer be used. It must hold no secret.
	Settle(ctx context.Context, turn int, answer []byte, used cost.Usage) error
	// Abandon ends a call that brought no answer, and books what it cost.
	Abandon(ctx context.Context, turn int, used cost.Usage) error
	// Unsettle ends a call of which it is not known what it cost, or not all of it:
	// used is booked, and estimate stays unsettled besides. A zero estimate stands
	// for the last one that was given.
	Unsettle(ctx context.Context, turn int, used, estimate cost.Usage) error
	// KeepTools stores what the turn's tools did, durably.
	KeepTools(ctx context.Context, turn int, doc []byte) error
	// Put and Get keep larger things that such a document names.
	Put(ctx context.Context, data []byte) (spec.Digest, error)
	Get(ctx context.Context, name spec.Digest) ([]byte, error)
	// Report does what Spending does for an agent program, which makes many requests
	// in one call, and notes durably what the program has reported: used so far, and
	// an estimate of what the request that may be under way costs besides. That is
	// booked if the worker dies.
	Report(used, estimate cost.Usage) error
	// Spending tells what the call under way has used so far, for people to
	// see. One that has passed what was reserved gets more while there is some.
	// A *Failure of category token_budget says that nothing is left: the agent
	// has to stop.
	Spending(used cost.Usage) error
}
