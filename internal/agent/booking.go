package agent

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/team"
)

// attemptTurn is the turn under which an agent that is paid by the attempt books
// it all.
const attemptTurn = 0

// booked runs an attempt of an agent that is paid by the attempt, and books what
// it cost: what it may cost is set aside before the program starts. An attempt
// that cannot be paid for is not started. One that was cut off, and of which
// nobody knows what it cost, stays unsettled with what was set aside for it.
func (s *Set) booked(ctx context.Context, d Definition, job team.Job) (team.Outcome, error) {
	if job.Calls == nil {
		got, err := s.attempt(ctx, d, job)
		got.out.Usage = d.priced(got.out.Usage)
		return got.out, err
	}
	aside := team.Amount(d.Reserve)
	granted, err := job.Calls.Reserve(ctx, team.CallPlan{
		Turn: attemptTurn, Agent: job.Agent, Model: d.Model, Want: aside, Least: aside, Estimate: anyhow(aside),
	})
	if err != nil {
		return team.Outcome{}, err
	}
	got, err := s.attempt(ctx, d, job)
	got.out.Usage = d.priced(got.out.Usage)
	end := context.WithoutCancel(ctx) // what is paid for is booked whatever happens
	var booking error
	switch {
	case !got.known:
		booking = job.Calls.Abandon(end, attemptTurn, anyhow(granted), false)
	case err != nil && got.out.Usage == team.Usage{}: // which is not what the next one costs
		booking = job.Calls.Abandon(end, attemptTurn, team.Usage{}, true)
	default:
		booking = job.Calls.Settle(end, attemptTurn, nil, got.out.Usage)
	}
	if booking != nil {
		err = errors.Join(err, booking)
	}
	return got.out, err
}

// anyhow is an amount as a usage: nobody knows how it would divide up.
func anyhow(a team.Amount) team.Usage { return team.Usage{OutputTokens: a.Tokens, CostUSD: a.USD} }

// Unpriced tells whether nobody can say what the agent's tokens cost: neither its
// prices nor, as other programs may, the agent itself.
func (d Definition) Unpriced() bool {
	return d.Prices == nil && (isModel(d.Kind) || d.Preset == presetCodex || d.Preset == presetGemini)
}

// priced is a usage with its cost: what the agent itself said of it, or else
// what it costs at the definition's prices.
func (d Definition) priced(u team.Usage) team.Usage {
	if u.CostUSD == 0 && d.Prices != nil {
		u.CostUSD = d.Prices.Cost(u)
	}
	return u
}
