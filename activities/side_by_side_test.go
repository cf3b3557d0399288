package activities_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// request is the digest of the n-th request of a program.
func request(n int) spec.Digest { return spec.Digest(fmt.Sprintf("%064x", n)) }

// planned plans a call that a program makes beside others.
func planned(job session.Job, n int, tokens int64) session.CallPlan {
	want := cost.Amount{Tokens: tokens}
	return session.CallPlan{
		Agent: job.Agent, Model: "m", Request: request(n), Want: want, Least: want, Estimate: cost.Usage{OutputTokens: tokens},
	}
}

// heldToCap fails if more is ever spent and reserved than a cap.
type heldToCap struct {
	activities.State
	cap    int64
	mu     sync.Mutex
	passed error
}

func (h *heldToCap) Begin(ctx context.Context, n state.NewCall) (budget.Verdict, error) {
	v, err := h.State.Begin(ctx, n)
	budgets, failed := h.Budgets(ctx, n.Assignment, n.Team)
	for _, b := range budgets {
		if held := b.Held().Tokens + b.Reserved.Tokens; held > h.cap {
			failed = errors.Join(failed, fmt.Errorf("%d of %d tokens are spent and reserved", held, h.cap))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passed = errors.Join(h.passed, failed)
	return v, err
}

// TestCallsSideBySideAreBookedOnceEach has sixteen loops of a program call at once, held to a
// budget that pays for few calls at a time. The worker is killed while some are under way.
func TestCallsSideBySideAreBookedOnceEach(t *testing.T) {
	t.Parallel()
	const loops, each, most = 16, 3, 200
	d := newDesk(t)
	d.team.Budget.Tokens = loops*each*10 + 2*most + 2*most
	d.admit()
	held := &heldToCap{State: d.db(), cap: d.team.Budget.Tokens}
	d.state, d.agents.conversation = held, spec.InCalls
	work := func(each int, die func(loop, turn int) bool) (paid map[int]int, run func(context.Context, session.Job) (session.Outcome,
		error),
	) {
		paid = map[int]int{}
		var mu sync.Mutex
		return paid, func(ctx context.Context, job session.Job) (session.Outcome, error) {
			var loopsAtWork sync.WaitGroup
			failed := make([]error, loops)
			for loop := range loops {
				loopsAtWork.Go(func() {
					for turn := range each {
						n := loop*100 + turn
						stored, err := job.Calls.Stored(ctx, request(n))
						if err != nil || stored != nil {
							failed[loop] = errors.Join(failed[loop], err)
							continue
						}
						call, err := job.Calls.Begin(ctx, planned(job, n, most))
						if err != nil {
							failed[loop] = err
							return
						}
						if die(loop, turn) {
							failed[loop] = errKilled
							return
						}
						failed[loop] = errors.Join(failed[loop], call.Spending(cost.Usage{OutputTokens: 5}),
							call.Settle(ctx, []byte("x"), cost.Usage{InputTokens: 6, OutputTokens: 4}))
						mu.Lock()
						paid[n]++
						mu.Unlock()
					}
				})
			}
			loopsAtWork.Wait()
			return session.Outcome{}, errors.Join(failed...)
		}
	}
	first, run := work(each, func(loop, turn int) bool { return loop < 2 && turn == 1 })
	d.agents.run = run
	_, err := d.round()
	require.ErrorContains(t, err, "killed")
	require.Len(t, d.calls(state.CallBegun), 2)
	numbers := map[int64]bool{}
	for _, call := range d.calls() {
		require.False(t, numbers[call.Call], "each call has a number of its own")
		numbers[call.Call] = true
	}

	second, run := work(each, func(int, int) bool { return false })
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		_, err := run(ctx, job)
		if err != nil {
			return session.Outcome{}, err
		}
		return leave("a.txt", "x")(ctx, job)
	}
	result, err := d.round()
	require.NoError(t, err)
	for n := range loops * each {
		n = n/each*100 + n%each
		require.Equal(t, 1, first[n]+second[n], "request %d is paid for once", n)
	}
	lost := d.calls(state.CallUnsettled)
	require.Len(t, lost, 2)
	for _, call := range lost {
		require.Equal(t, cost.Amount{Tokens: most}, call.Estimated)
	}
	costs := d.costs()
	require.Equal(t, int64(loops*each*10), costs.Usage.Tokens())
	require.Equal(t, costs.Usage, result.Total)
	require.Zero(t, costs.Reserved)
	require.NoError(t, held.passed)
}

// TestSameRequestIsPaidForAsOftenAsOneProgramMakesIt kills a program that has asked the same
// twice. The next one gets both answers, and pays for a third.
func TestSameRequestIsPaidForAsOftenAsOneProgramMakesIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.conversation = spec.InCalls
	pay := func(ctx context.Context, job session.Job, answer string) string {
		stored, err := job.Calls.Stored(ctx, request(1))
		require.NoError(t, err)
		require.Nil(t, stored, "%s is asked for anew", answer)
		call, err := job.Calls.Begin(ctx, planned(job, 1, 20))
		require.NoError(t, err)
		require.NoError(t, call.Settle(ctx, []byte(answer), cost.Usage{OutputTokens: 1}))
		return call.ID()
	}
	var lost string
	get := func(ctx context.Context, job session.Job, answer string) {
		stored, err := job.Calls.Stored(ctx, request(1))
		require.NoError(t, err)
		require.Equal(t, answer, string(stored.Answer))
		lost = stored.Call
	}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		pay(ctx, job, "first")
		lost = pay(ctx, job, "second")
		job.Calls.Undelivered(lost)
		get(ctx, job, "second")
		return session.Outcome{}, errKilled
	}
	_, err := d.round()
	require.ErrorContains(t, err, "killed")
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		get(ctx, job, "first")
		job.Calls.Undelivered(lost)
		get(ctx, job, "first")
		get(ctx, job, "second")
		pay(ctx, job, "third")
		return session.Outcome{}, failures.Failf(failures.InvalidOutput, "another attempt begins anew")
	}
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		pay(ctx, job, "fourth")
		return leave("a.txt", "x")(ctx, job)
	}
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, int64(4), d.costs().Usage.Tokens())
}
