package activities_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// errKilled ends an agent the way a kill does: nothing more is told.
var errKilled = errors.New("killed")

// conversation is an agent that makes turns calls, each paid for, and writes a
// line for each into a file; it dies before the step that die names.
type conversation struct {
	turns int
	paid  []string
	die   func(step string) bool
	// fails, if not nil, is how a turn's call ends.
	fails func(turn int) *failures.Failure
}

func (c *conversation) run(ctx context.Context, job session.Job) (session.Outcome, error) {
	var used cost.Usage
	text := ""
	for turn := 1; turn <= c.turns; turn++ {
		at := func(step string) bool { return c.die != nil && c.die(fmt.Sprintf("%d %s", turn, step)) }
		request := spec.Digest(fmt.Sprintf("%064x", turn))
		stored, err := job.Calls.Stored(ctx, request)
		if err != nil {
			return session.Outcome{}, err
		}
		if stored == nil {
			plan := session.CallPlan{
				Agent: job.Agent, Model: "m", Request: request, Want: cost.Amount{Tokens: 20},
				Least: cost.Amount{Tokens: 20}, Estimate: cost.Usage{OutputTokens: 20},
			}
			call, err := job.Calls.Begin(ctx, plan)
			if err != nil {
				return session.Outcome{Usage: used}, err
			}
			if at("reserved") {
				return session.Outcome{}, errKilled
			}
			if c.fails != nil {
				if f := c.fails(turn); f != nil {
					return session.Outcome{Usage: used}, errors.Join(f, call.Abandon(ctx, cost.Usage{}))
				}
			}
			c.paid = append(c.paid, fmt.Sprintf("%s %d", job.Brief.Phase, turn))
			stored = &session.StoredTurn{Answer: fmt.Appendf(nil, "line %d\n", turn), Usage: cost.Usage{InputTokens: 8, OutputTokens: 2}}
			if at("answered") {
				return session.Outcome{}, errKilled
			}
			if err := call.Settle(ctx, stored.Answer, stored.Usage); err != nil {
				return session.Outcome{}, err
			}
			stored.Call = call.ID()
		}
		if at("settled") {
			return session.Outcome{}, errKilled
		}
		text += string(stored.Answer)
		if stored.Tools == nil {
			if err := job.Calls.KeepTools(ctx, stored.Call, []byte("tools")); err != nil {
				return session.Outcome{}, err
			}
		}
		used = used.Add(stored.Usage)
	}
	return session.Outcome{Summary: "talked", Usage: used}, os.WriteFile(filepath.Join(job.Tree, "talk.txt"), []byte(text), 0o600)
}

// converse makes the desk's agent one that converses.
func (d *desk) converse(c *conversation) {
	d.agents.run, d.agents.conversation = c.run, spec.InCalls
}

func TestSpentBudgetParksARoundThatCanGoOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 45
	d.admit()
	c := &conversation{turns: 4}
	d.converse(c)
	d.onExceeded = spec.OnExceededAsk
	_, err := d.round()
	app := requireType(t, err, session.BudgetSpent)
	require.True(t, app.NonRetryable())
	var stop activities.BudgetStop
	require.NoError(t, app.Details(&stop))
	require.Equal(t, "session", stop.Scope)
	require.Equal(t, int64(30), stop.Total.Tokens())
	require.Empty(t, d.record().Rounds[0].Attempts, "no attempt is used")
	require.Len(t, d.record().Rounds[0].Pauses, 1)
	require.Zero(t, d.record().Rounds[0].Pauses[0].To, "it waits")

	_, err = d.store.State.AddRaise(t.Context(), d.key(), budget.Raise{
		ID: "x", Scope: budget.SessionScope,
		Added: cost.Amount{Tokens: 100},
	}, "cli")
	require.NoError(t, err)
	d.earlier++
	result, err := d.round()
	require.NoError(t, err)
	require.Len(t, c.paid, 4, "what was paid for before it parked is not paid for again")
	require.Equal(t, 1, result.Attempts)
	require.Equal(t, int64(40), result.Total.Tokens())
	require.Len(t, d.record().Rounds, 1, "it is one round, in two activities")
	paused := d.record().Rounds[0].PausesIn(result.StartedAt, result.EndedAt)
	require.Len(t, paused, 1, "the wait is not time at work")
	require.Equal(t, failures.TokenBudget, paused[0].For)
}

func TestSpentBudgetFailsTheRoundWhereNobodyCanHelp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 45
	d.admit()
	c := &conversation{turns: 4}
	d.converse(c)
	_, err := d.round()
	app := requireType(t, err, session.UnrecoverableError)
	var report activities.RoundFailure
	require.NoError(t, app.Details(&report))
	require.Equal(t, failures.TokenBudget, report.Failure.Category)
	require.Equal(t, "the budget of the session is not sufficient: 15 of 45 tokens left, and the next call needs 20",
		report.Failure.Message)
	require.Equal(t, int64(30), d.costs().Usage.Tokens())
	require.Zero(t, d.costs().Reserved)
}

func TestAttemptThatIsDearerThanWasSetAsideGetsMoreWhileThereIsSome(t *testing.T) {
	t.Parallel()
	for _, limit := range []struct {
		name           string
		session, daily int64
	}{{name: "session", session: 1000}, {name: "day", daily: 1000}} {
		t.Run(limit.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.team.Budget.Tokens, d.team.Budget.Daily.Tokens = limit.session, limit.daily
			d.admit()
			d.agents.reserve = cost.Amount{Tokens: 60}
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				out, err := leave("a.txt", "x")(ctx, job)
				for out.Usage = (cost.Usage{}); out.Usage.OutputTokens < 900 && err == nil; {
					out.Usage.OutputTokens += 50
					err = d.agents.paid.Spending(out.Usage)
				}
				return out, err
			}
			result, err := d.round()
			require.NoError(t, err)
			require.Equal(t, int64(900), result.Usage.Tokens())
			require.Zero(t, d.costs().Reserved)
		})
	}
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.team.Budget.Tokens = 500
		d.admit()
		d.agents.reserve = cost.Amount{Tokens: 60}
		d.agents.run = func(ctx context.Context, job session.Job) (out session.Outcome, err error) {
			for err == nil {
				out.Usage.OutputTokens += 50
				err = d.agents.paid.Spending(out.Usage)
			}
			return out, err
		}
		_, err := d.round()
		require.ErrorContains(t, err, "the attempt has used 550 tokens")
		require.Zero(t, d.costs().Reserved)
	})
}

// byAttempt makes the desk's agent one that is paid by the attempt, of which aside
// is known, and that does work.
func (d *desk) byAttempt(aside cost.Amount, work func(call session.Call) error) {
	d.agents.conversation = spec.InCalls // it books by itself
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call, err := job.Calls.Begin(ctx, session.CallPlan{Whole: true, Agent: job.Agent, Want: aside, Least: aside})
		if err != nil {
			return session.Outcome{}, err
		}
		return session.Outcome{}, work(call)
	}
}

func TestCostThatNobodyKnowsIsEstimatedOnlyWhereABudgetBoundsIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 500
	d.admit()
	d.byAttempt(cost.Amount{}, func(call session.Call) error {
		used := cost.Usage{OutputTokens: call.Granted().Tokens, CostUSD: call.Granted().USD}
		return errors.Join(errKilled, call.Unsettle(t.Context(), cost.Usage{}, used))
	})
	_, err := d.round()
	require.Error(t, err)
	require.Equal(t, cost.Amount{Tokens: 500}, d.costs().Unsettled.Amount)
}

func TestWhatAProviderHasCountedIsBookedAsItIs(t *testing.T) {
	t.Parallel()
	counted := cost.Usage{InputTokens: 70, CacheReadTokens: 30, OutputTokens: 5}
	for _, end := range []struct {
		name string
		book func(call session.Call) error
		want cost.Amount
	}{
		{"beyond what was set aside", func(call session.Call) error {
			return errors.Join(errKilled, call.Unsettle(t.Context(), cost.Usage{}, counted))
		}, counted.Amount()},
		{
			"killed, so that the estimate counts, which passes no cap", func(session.Call) error { return errKilled },
			cost.Amount{Tokens: 60},
		},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.team.Budget.Tokens = 60
			d.admit()
			d.agents.conversation = spec.InCalls
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				call, err := job.Calls.Begin(ctx, session.CallPlan{
					Agent: job.Agent, Want: cost.Amount{Tokens: 1000}, Least: cost.Amount{Tokens: 50},
					Estimate: cost.Usage{InputTokens: 40, OutputTokens: 90},
				})
				require.NoError(t, err)
				return session.Outcome{}, end.book(call)
			}
			_, err := d.round()
			require.Error(t, err)
			d.agents.run = leave("a.txt", "x")
			_, err = d.round()
			require.NoError(t, err)
			require.Equal(t, end.want, d.costs().Unsettled.Amount)
		})
	}
}

func TestReserveInMoneyAloneIsHeldToABudgetOfTokens(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 500
	d.admit()
	d.byAttempt(cost.Amount{USD: 1}, func(call session.Call) error {
		require.Equal(t, cost.Amount{Tokens: 500, USD: 1}, call.Granted())
		return errors.Join(failures.Failf(failures.Unknown, "no"), call.Settle(t.Context(), nil, cost.Usage{OutputTokens: 300}))
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	_, err = d.round()
	require.ErrorContains(t, err, "the budget of the session is not sufficient: 200 of 500 tokens left, and the next call needs 300")
}

func TestToolsOfAnEarlierAttemptsAnswerAreKeptOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	worked := 0
	d.agents.conversation = spec.InCalls
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		stored, err := job.Calls.Stored(ctx, "")
		require.NoError(t, err)
		if stored == nil {
			call, err := job.Calls.Begin(ctx, session.CallPlan{Agent: job.Agent, Want: cost.Amount{Tokens: 1}})
			require.NoError(t, err)
			require.NoError(t, call.Settle(ctx, []byte("answer"), cost.Usage{OutputTokens: 1}))
			return session.Outcome{}, failures.Failf(failures.ResourceError, "the disk is full, before the tools could work")
		}
		if stored.Tools == nil {
			worked++
			require.NoError(t, job.Calls.KeepTools(ctx, stored.Call, []byte("tools")))
			return session.Outcome{}, errKilled
		}
		return leave("a.txt", "x")(ctx, job)
	}
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	_, err = d.round()
	require.ErrorContains(t, err, "killed")
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, 1, worked)
}
