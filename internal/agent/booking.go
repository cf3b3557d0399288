package agent

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/team"
)

// booked has an agent that is paid by the attempt do one, and books what it cost:
// what its definition says that it may cost is set aside first, and what it says
// that it did cost is settled whatever came of it.
func booked(ctx context.Context, d Definition, job team.Job, work func() (team.Outcome, error)) (team.Outcome, error) {
	if job.Calls == nil {
		return work()
	}
	aside := team.Amount(d.Reserve)
	plan := team.CallPlan{
		Agent: job.Agent, Model: d.Model, Want: aside, Least: aside,
		Estimate: team.Usage{OutputTokens: d.Reserve.Tokens, CostUSD: d.Reserve.USD},
	}
	if _, err := job.Calls.Reserve(ctx, plan); err != nil {
		return team.Outcome{}, err
	}
	out, err := work()
	if err != nil && ctx.Err() != nil && (out.Usage == team.Usage{}) {
		return out, errors.Join(err, job.Calls.Abandon(ctx, 0, plan.Estimate, false))
	}
	return out, errors.Join(err, job.Calls.Settle(ctx, 0, nil, out.Usage))
}
