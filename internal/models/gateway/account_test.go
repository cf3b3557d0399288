package gateway_test

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

// account books calls in memory.
type account struct {
	mu sync.Mutex
	// left is what may be spent; negative: without an end.
	left int64
	// settled, abandoned and estimated are the sums of what was booked.
	settled, abandoned, unsettled, estimated cost.Usage
	// each is what was settled, call by call.
	each []cost.Usage

	begun, ended int
	plans        []session.CallPlan
	answers      map[spec.Digest][]session.StoredTurn
	undelivered  int
	// settling is called before a call is settled; it may be nil.
	settling func()
	// away: nothing can be noted of a call's end.
	away bool
}

func newAccount(left int64) *account {
	return &account{left: left, answers: map[spec.Digest][]session.StoredTurn{}}
}

func (a *account) Stored(_ context.Context, _ int, request spec.Digest) (*session.StoredTurn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if turns := a.answers[request]; len(turns) > 0 {
		a.answers[request] = turns[1:]
		return &turns[0], nil
	}
	return nil, nil
}

// lose has the program forget what it was given, as a restart does.
func (a *account) lose(request spec.Digest, turn session.StoredTurn) {
	a.answers[request] = append(a.answers[request], turn)
}

func (a *account) Undelivered(string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.undelivered++
}

func (a *account) Begin(_ context.Context, plan session.CallPlan) (session.Call, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plans = append(a.plans, plan)
	grant := plan.Want
	if a.left >= 0 {
		if a.left < plan.Least.Tokens {
			return nil, failures.Failf(failures.TokenBudget, "the budget of the team is spent")
		}
		grant.Tokens = min(grant.Tokens, a.left)
	}
	a.begun++
	return &booking{account: a, id: strconv.Itoa(a.begun), plan: plan, grant: grant}, nil
}

func (a *account) settledAt(i int) cost.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.each[i]
}

// sum is the state of the account, once all calls have ended.
func (a *account) sum() (settled, unsettled cost.Usage, open int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settled.Add(a.abandoned), a.unsettled.Add(a.estimated), a.begun - a.ended
}

type booking struct {
	*account
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
	b.ended++
	*sum = sum.Add(used)
	if b.left >= 0 {
		b.left = max(b.left-used.Tokens(), 0)
	}
}

func (b *booking) Settle(_ context.Context, answer []byte, used cost.Usage) error {
	if b.settling != nil {
		b.settling()
	}
	if b.away {
		return errors.New("the store is away")
	}
	b.end(&b.settled, used)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.each = append(b.each, used)
	if answer != nil {
		b.lose(b.plan.Request, session.StoredTurn{Call: b.id, Answer: answer, Usage: used})
	}
	return nil
}

func (b *booking) Abandon(_ context.Context, used cost.Usage) error {
	b.end(&b.abandoned, used)
	return nil
}

func (b *booking) Unsettle(_ context.Context, used, estimate cost.Usage) error {
	b.end(&b.unsettled, used)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.estimated = b.estimated.Add(estimate)
	return nil
}

func (b *booking) Report(used, _ cost.Usage) error { return b.Spending(used) }

func (*booking) Answered(session.CallAnswer) {}

func (b *booking) Spending(used cost.Usage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left >= 0 && used.Tokens() > b.left {
		return failures.Failf(failures.TokenBudget, "the budget of the team is spent")
	}
	return nil
}
