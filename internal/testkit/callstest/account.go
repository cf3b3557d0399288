// Package callstest books paid calls in memory.
package callstest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Account is a [session.Calls] of one attempt. Its fields may be set before the attempt, and read after it.
type Account struct {
	// Left is how many tokens may be spent; negative: without an end.
	Left int64
	// Settling is called before a call is settled; it may be nil.
	Settling func()
	// Away: nothing can be noted of a call's end.
	Away bool
	// Settled, Abandoned, Unsettled and Estimated are the sums of what was booked; Each is what was settled, call by call.
	Settled, Abandoned, Unsettled, Estimated cost.Usage
	Each                                     []cost.Usage
	// Begun and Ended count calls, and Lost the answers that the program has not received.
	Begun, Ended, Lost int

	mu      sync.Mutex
	answers map[spec.Digest][]session.StoredTurn
}

// New returns an account with so many tokens; negative: without an end.
func New(left int64) *Account {
	return &Account{Left: left, answers: map[spec.Digest][]session.StoredTurn{}}
}

// Stored returns the oldest answer to a request that was not given out again.
func (a *Account) Stored(_ context.Context, _ int, request spec.Digest) (*session.StoredTurn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if turns := a.answers[request]; len(turns) > 0 {
		a.answers[request] = turns[1:]
		return &turns[0], nil
	}
	return nil, nil
}

// Undelivered counts an answer that the program has not received.
func (a *Account) Undelivered(string) { a.Locked(func() { a.Lost++ }) }

// KeepTools keeps nothing.
func (*Account) KeepTools(context.Context, string, []byte) error { return nil }

// Put keeps nothing.
func (*Account) Put(context.Context, []byte) (spec.Digest, error) { return "", nil }

// Get finds nothing.
func (*Account) Get(context.Context, spec.Digest) ([]byte, error) { return nil, session.ErrNotFound }

// Locked calls a function that reads or sets fields while calls are under way.
func (a *Account) Locked(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

// Begin begins a call, if what is left pays for the least of it.
func (a *Account) Begin(_ context.Context, plan session.CallPlan) (session.Call, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	grant := plan.Want
	if a.Left >= 0 {
		if a.Left < plan.Least.Tokens {
			return nil, failures.Failf(failures.TokenBudget, "the budget of the team is spent")
		}
		grant.Tokens = min(grant.Tokens, a.Left)
	}
	a.Begun++
	return &booking{Account: a, id: strconv.Itoa(a.Begun), plan: plan, grant: grant}, nil
}

// Sum is what was booked, what was booked of calls whose cost is not known, and how many calls are under way.
func (a *Account) Sum() (settled, unsettled cost.Usage, open int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Settled.Add(a.Abandoned), a.Unsettled.Add(a.Estimated), a.Begun - a.Ended
}

// booking is a call under way.
type booking struct {
	*Account
	id    string
	plan  session.CallPlan
	grant cost.Amount
	over  bool
}

func (b *booking) ID() string           { return b.id }
func (b *booking) Granted() cost.Amount { return b.grant }

func (b *booking) end(sum *cost.Usage, used cost.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		panic("a call was booked twice")
	}
	b.over = true
	b.Ended++
	*sum = sum.Add(used)
	if b.Left >= 0 {
		b.Left = max(b.Left-used.Tokens(), 0)
	}
}

// Settle books the call, and has the program forget its answer, as a restart does.
func (b *booking) Settle(_ context.Context, answer []byte, used cost.Usage) error {
	if b.Settling != nil {
		b.Settling()
	}
	if b.Away {
		return errors.New("the store is away")
	}
	b.end(&b.Settled, used)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Each = append(b.Each, used)
	if answer != nil {
		b.answers[b.plan.Request] = append(b.answers[b.plan.Request], session.StoredTurn{Call: b.id, Answer: answer, Usage: used})
	}
	return nil
}

func (b *booking) Abandon(_ context.Context, used cost.Usage) error {
	b.end(&b.Abandoned, used)
	return nil
}

func (b *booking) Unsettle(_ context.Context, used, estimate cost.Usage) error {
	b.end(&b.Unsettled, used)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Estimated = b.Estimated.Add(estimate)
	return nil
}

func (b *booking) Report(used, _ cost.Usage) error { return b.Spending(used) }

func (*booking) Answered(session.CallAnswer) {}

func (b *booking) Spending(used cost.Usage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Left >= 0 && used.Tokens() > b.Left {
		return failures.Failf(failures.TokenBudget, "the budget of the team is spent")
	}
	return nil
}
