// Package callstest books paid calls in memory.
package callstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// ErrKilled stands for the death of the worker.
var ErrKilled = errors.New("killed")

// Account is a [session.Calls] of one attempt. It outlives the executions that use it. Its fields may be set before an
// execution, and read after it; meanwhile, see [Account.Locked].
type Account struct {
	// Left is how many tokens may be spent; negative: without an end. Budget is what is granted for a plan; nil: what it wants,
	// as far as that is left. Overspent is what Spending returns besides.
	Left      int64
	Budget    func(session.CallPlan) (cost.Amount, error)
	Overspent error
	// Settling is called before a call is settled; it may be nil. Broke is why nothing can be noted of a call's end; nil: it can.
	Settling func()
	Broke    error
	// KillAfter is the number of the step of the bookkeeping after which the worker dies; zero: it lives. Steps counts them.
	KillAfter, Steps int

	// Plans and Grants are those of the calls, and Live is what Spending and Report were told.
	Plans  []session.CallPlan
	Grants []cost.Amount
	Live   []cost.Usage
	// Settled, Abandoned, Unsettled and Estimated are the sums of what was booked. Each is what each call has cost whose cost
	// is known, and Ends are the others.
	Settled, Abandoned, Unsettled, Estimated cost.Usage
	Each                                     []cost.Usage
	Ends                                     []End
	// Begun and Ended count calls, and Lost the answers that the program has not received.
	Begun, Ended, Lost int

	mu      sync.Mutex
	answers map[spec.Digest][]*session.StoredTurn
	// received are the calls whose answers were given out again.
	received map[string]bool
}

// End is what is known of the cost of a call, and an estimate of the rest.
type End struct{ Used, Estimate cost.Usage }

// New returns an account with so many tokens; negative: without an end.
func New(left int64) *Account {
	return &Account{Left: left, answers: map[spec.Digest][]*session.StoredTurn{}, received: map[string]bool{}}
}

// Locked calls a function that reads or sets fields while calls are under way.
func (a *Account) Locked(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

// step is one step of the bookkeeping, after any of which a worker may die.
func (a *Account) step(do func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Steps++
	if err := do(); err != nil || a.Steps != a.KillAfter {
		return err
	}
	return ErrKilled
}

// Restart begins an execution: its program has received no answer.
func (a *Account) Restart() { a.Locked(func() { a.received = map[string]bool{} }) }

// Stored returns the oldest answer to the request that was not given out again.
func (a *Account) Stored(_ context.Context, request spec.Digest) (found *session.StoredTurn, err error) {
	err = a.step(func() error {
		for _, turn := range a.answers[request] {
			if !a.received[turn.Call] {
				a.received[turn.Call] = true
				copied := *turn
				found = &copied
				return nil
			}
		}
		return nil
	})
	return found, err
}

// Undelivered counts an answer that the program has not received.
func (a *Account) Undelivered(string) { a.Locked(func() { a.Lost++ }) }

// KeepTools keeps what tools did after an answer.
func (a *Account) KeepTools(_ context.Context, call string, doc []byte) error {
	return a.step(func() error {
		for _, turns := range a.answers {
			for _, turn := range turns {
				if turn.Call == call {
					turn.Tools = slices.Clone(doc)
				}
			}
		}
		return nil
	})
}

// Begin begins a call, if what is left pays for the least of it.
func (a *Account) Begin(_ context.Context, plan session.CallPlan) (session.Call, error) {
	b := &booking{Account: a, plan: plan, grant: plan.Want}
	err := a.step(func() (err error) {
		a.Plans = append(a.Plans, plan)
		switch {
		case a.Budget != nil:
			if b.grant, err = a.Budget(plan); err != nil {
				return err
			}
		case a.Left >= 0 && a.Left < plan.Least.Tokens:
			return failures.Failf(failures.TokenBudget, "the budget of the team is spent")
		case a.Left >= 0:
			b.grant.Tokens = min(b.grant.Tokens, a.Left)
		}
		a.Grants = append(a.Grants, b.grant)
		a.Begun++
		b.id = strconv.Itoa(a.Begun)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Sum is what was booked, what was booked of calls whose cost is not known, and how many calls are under way.
func (a *Account) Sum() (settled, unsettled cost.Usage, open int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Settled.Add(a.Abandoned), a.Unsettled.Add(a.Estimated), a.Begun - a.Ended
}

// Text is everything that is kept.
func (a *Account) Text() string {
	var b strings.Builder
	for _, turns := range a.answers {
		for _, turn := range turns {
			fmt.Fprintf(&b, "%s\n%s\n", turn.Answer, turn.Tools)
		}
	}
	return b.String()
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

// end books the end of the call, and does the rest of it.
func (b *booking) end(ctx context.Context, sum *cost.Usage, used cost.Usage, rest func()) error {
	return b.step(func() error {
		switch {
		case b.Broke != nil:
			return b.Broke
		case ctx.Err() != nil:
			return errors.New("booked in a way that books nothing: its context has ended")
		}
		if b.over {
			panic("a call was booked twice")
		}
		b.over = true
		b.Ended++
		*sum = sum.Add(used)
		if b.Left >= 0 {
			b.Left = max(b.Left-used.Tokens(), 0)
		}
		rest()
		return nil
	})
}

// Settle books the call and stores its answer.
func (b *booking) Settle(ctx context.Context, answer []byte, used cost.Usage) error {
	if b.Settling != nil {
		b.Settling()
	}
	return b.end(ctx, &b.Settled, used, func() {
		b.Each = append(b.Each, used)
		if answer != nil {
			b.answers[b.plan.Request] = append(b.answers[b.plan.Request], &session.StoredTurn{
				Call: b.id, Answer: slices.Clone(answer),
				Usage: used,
			})
		}
	})
}

func (b *booking) Abandon(ctx context.Context, used cost.Usage) error {
	return b.end(ctx, &b.Abandoned, used, func() { b.Each = append(b.Each, used) })
}

func (b *booking) Unsettle(ctx context.Context, used, estimate cost.Usage) error {
	return b.end(ctx, &b.Unsettled, used, func() {
		b.Estimated = b.Estimated.Add(estimate)
		b.Ends = append(b.Ends, End{used, estimate})
	})
}

func (b *booking) Report(used, _ cost.Usage) error { return b.Spending(used) }

func (*booking) Answered(session.CallAnswer) {}

func (b *booking) Spending(used cost.Usage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Live = append(b.Live, used)
	if b.Left >= 0 && used.Tokens() > b.Left {
		return failures.Failf(failures.TokenBudget, "the budget of the team is spent")
	}
	return b.Overspent
}
