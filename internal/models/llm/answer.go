package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// answer returns the model's answer in this turn, and the stored turn: that of an answer that was paid for already, or
// else of a new one.
func (r *run) answer(ctx context.Context, turn int) (Answer, *session.StoredTurn, error) {
	f, digest := r.talk.forecast(r.MaxOutputTokens, r.Prices), r.talk.digest()
	stored, err := r.job.Calls.Stored(ctx, digest)
	if err != nil {
		return Answer{}, nil, fmt.Errorf("look for a stored answer to turn %d: %w", turn, err)
	}
	if stored != nil {
		var answer Answer
		if err := json.Unmarshal(stored.Answer, &answer); err != nil {
			return Answer{}, nil, fmt.Errorf("the answer of turn %d: %w: %w", turn, session.ErrCorrupt, err)
		}
		answer.Usage = stored.Usage
		r.log.Turn("turn %d: using the stored answer, without a new call", turn)
		r.writeAnswer(answer, false)
		r.usage = r.usage.Add(stored.Usage)
		return answer, stored, nil
	}
	return r.callAndBook(ctx, turn, f, digest)
}

// callAndBook reserves, makes and settles a call.
func (r *run) callAndBook(ctx context.Context, turn int, f wire.Forecast, digest spec.Digest) (Answer, *session.StoredTurn,
	error,
) {
	f.Learned = r.Scale.Learned()
	leave, err := r.enter(ctx, f.Guess())
	if err != nil {
		return Answer{}, nil, err
	}
	var used cost.Usage
	left := false
	defer func() {
		if !left {
			leave(used.Tokens())
		}
	}()
	plan := f.Plan()
	plan.Agent, plan.Model, plan.Request = r.Name, r.Model, digest
	plan.API, plan.Server = string(r.API), r.API.Host(r.BaseURL)
	plan.OnWait = func() { leave(0); left = true }
	call, err := r.job.Calls.Begin(ctx, plan)
	if err != nil {
		return Answer{}, nil, err
	}
	if left {
		if leave, err = r.enter(ctx, f.Guess()); err != nil {
			return Answer{}, nil, errors.Join(err, call.Abandon(context.WithoutCancel(ctx), cost.Usage{}))
		}
		left = false
	}
	f.MaxOutput = f.Output(call.Granted())
	answer, counted, rest, err := r.call(ctx, turn, f, call)
	noting := context.WithoutCancel(ctx) // book the cost even if the attempt was stopped
	if err != nil {
		used = counted.Add(rest)
		call.Answered(session.CallAnswer{Category: failures.CategoryOf(err)})
		if noted := session.EndCall(noting, call, counted, rest); noted != nil {
			return Answer{}, nil, errors.Join(err, fmt.Errorf("record the end of the call of turn %d: %w", turn, noted))
		}
		return Answer{}, nil, err
	}
	used = answer.Usage
	call.Answered(answer.Said)
	if u := answer.Usage; answer.Counted {
		r.Scale.Learn(u.Prompt(), f.Total)
	}
	if err := call.Settle(noting, wire.Encode(answer), answer.Usage); err != nil {
		return Answer{}, nil, fmt.Errorf("settle the call of turn %d: %w", turn, err)
	}
	r.usage = r.usage.Add(answer.Usage)
	return answer, &session.StoredTurn{Call: call.ID()}, nil
}

// enter waits until the provider's limits permit a call, at most for the time of an attempt.
func (r *run) enter(ctx context.Context, tokens int64) (leave func(used int64), err error) {
	defer r.job.Waits.Begin()()
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	leave, err = r.Enter(bounded, tokens)
	if err == nil {
		return leave, nil
	}
	if stopped := ended(ctx); stopped != nil {
		return nil, stopped
	}
	return nil, failures.Failf(failures.RateLimited, "the provider's limits in the worker file permit no call within %s: %v",
		r.timeout, err)
}

// Answer is a model's answer.
type Answer struct {
	Thinking []wire.Thinking `json:"thinking,omitempty"`
	Text     string          `json:"text,omitempty"`
	Calls    []wire.Call     `json:"calls,omitempty"`
	Stop     wire.Ending     `json:"stop"`
	// Counted: the provider has reported the usage of the call; otherwise Usage is an estimate.
	Counted bool `json:"counted,omitempty"`
	// Usage is the usage that the provider reports, without money; zero if it reports none. It
	// is stored separately.
	Usage cost.Usage `json:"-"`
	// Said has the other facts that the provider reports about the answer.
	Said session.CallAnswer `json:"-"`
}
