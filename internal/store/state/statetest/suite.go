// Package statetest is the suite that every engine of package state has to pass.
package statetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Clock is a clock that a test sets. Databases with a clock of their own do not ask it.
type Clock struct{ micros atomic.Int64 }

// Now is its time.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()) }

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) { c.micros.Add(d.Microseconds()) }

// Open opens an empty database for a test. Its clock is the given one, or the database's own.
type Open func(t *testing.T, clock *Clock) *state.DB

// start is the time at which tests begin.
var start = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// cases are what holds on every engine.
var cases = map[string]func(*testing.T, *bench){
	"a reservation never exceeds a cap":                        reservationsFit,
	"what can never fit is refused, the rest waits":            refusedOrWaits,
	"the end of a call frees its reservation everywhere":       endsFree,
	"a repeated call and a repeated end count once":            repetitionsCountOnce,
	"the cost of a lost call counts as estimated":              lostCallsCount,
	"a raise adds to one budget, once":                         raisesAdd,
	"a stored answer is found in the attempts that may use it": answersAreFound,
	"an answer is received once":                               answersAreReceivedOnce,
	"costs keep the kinds of tokens":                           costsKeepTheKindsOfTokens,
	"costs add up by every key":                                costsAddUp,
	"a cost that is not stated is guessed":                     unstatedCostsAreGuessed,
	"thresholds warn once":                                     thresholdsWarnOnce,
	"sessions are listed":                                      sessionsAreListed,
	"a session that continues as new keeps its start":          continuedSessionsKeepTheirStart,
	"statistics are counted":                                   statisticsAreCounted,
	"usage adds up over sessions":                              usageAddsUp,
	"changes are numbered":                                     changesAreNumbered,
	"a reset continues as the next run":                        resetsContinue,
	"a report raises a reservation within the caps":            reportsRaise,
	"a repeated admission finds its run":                       admissionsAreRepeated,
	"texts of any bytes are stored":                            textsAreStored,
	"callers see one order of reservations and ends":           linearizable,
	"the audit log is in one order":                            auditIsInOrder,
	"the audit log is filtered":                                auditIsFiltered,
	"tokens have names of their own":                           tokensHaveNames,
	"tokens end":                                               tokensEnd,
	"a hook is removed by its key":                             hooksHaveKeys,
	"a change with a key is made once":                         keysAreClaimedOnce,
	"uploads are known for a while":                            uploadsAreKnown,
	"a link is used once":                                      linksAreUsedOnce,
	"browsers are signed out":                                  browsersAreSignedOut,
	"an invitation makes one account":                          invitationsAreUsedOnce,
	"people are recovered and revoked":                         peopleEnd,
	"a passkey is used in one order":                           passkeysCount,
	"links lead to a server that runs":                         serversRun,
	"checkpoints are ordered by run and boundary":              checkpointsAreOrdered,
	"checkpoints are mirrored and pruned":                      checkpointsAreMirrored,
	"the rows of a session move":                               sessionsMove,
	"wrong rows are refused":                                   wrongRowsAreRefused,
	"offers are renewed":                                       offersAreRenewed,
	"breakers are changed by several processes":                breakersAreChanged,
	"the state of a later ticket stays":                        laterTicketsStay,
	"a restored backup excludes earlier processes":             laterGenerationsExclude,
	"teams have versions":                                      teamsHaveVersions,
	"a late executor changes nothing":                          lateExecutorsAreFenced,
	"an earlier run changes nothing, and books its answers":    earlierRunsChangeNothing,
	"an earlier run may say that its agent has ended":          earlierRunsEndTheirAgents,
	"a late boundary changes nothing":                          lateBoundariesChangeNothing,
	"an attempt in progress costs what its calls have":         attemptInProgressCosts,
	"work is undone":                                           workIsUndone,
	"requests are opened and closed":                           requestsAreOpenedAndClosed,
	"rounds are read as they were written":                     roundsAreReadAsWritten,
	"statuses are read as they were written":                   statusesAreReadAsWritten,
	"blobs of a bucket are found":                              blobsAreFound,
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, open))
		})
	}
	t.Run("passes are numbered", func(t *testing.T) {
		t.Parallel()
		passesAreNumbered(t, func(t *testing.T) *bench { return newBench(t, open) })
	})
}

// bench is a database with a session.
type bench struct {
	*state.DB
	clock *Clock
	calls atomic.Int64
}

func newBench(t *testing.T, open Open) *bench {
	clock := &Clock{}
	clock.micros.Store(start.UnixMicro())
	return &bench{DB: open(t, clock), clock: clock}
}

const team = "web"

func sessionOf(name string) session.Key { return session.Key{Namespace: "default", Session: name} }

// admit admits a session with these caps, and returns its run.
func (b *bench) admit(t *testing.T, session, temporalRun string, caps ...budget.Budget) int64 {
	t.Helper()
	run, err := b.Admit(t.Context(), state.Admission{
		Key: sessionOf(session), TemporalRun: temporalRun, OriginalRun: temporalRun, Team: team, Requirement: "a shop", Caps: caps,
	})
	require.NoError(t, err)
	return run
}

// dev and lead are assignments of a session.
func dev(session string) state.Assignment {
	return state.Assignment{Key: sessionOf(session), AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}}
}

func lead(session string) state.Assignment {
	return state.Assignment{Key: sessionOf(session), AssignmentID: spec.AssignmentID{Phase: "plan", Persona: "lead"}}
}

// call is a new call of an assignment that costs at most so many tokens.
func (b *bench) call(a state.Assignment, run, tokens int64) state.NewCall {
	n := b.calls.Add(1)
	return state.NewCall{
		ID: fmt.Sprintf("call-%d", n), CallKey: state.CallKey{AttemptKey: state.AttemptKey{
			Assignment: a, Pass: 1, Round: 1,
			Attempt: 1,
		}, Call: state.NextCall}, Fence: state.Fence{Run: run},
		Team: team, Agent: "coder", Provider: "anthropic", Model: "m", Request: fmt.Sprintf("request-%d", n),
		Want: cost.Amount{Tokens: tokens}, Least: cost.Amount{Tokens: tokens}, Estimated: cost.Amount{Tokens: tokens / 2},
	}
}

// verdict is what is said of a new call.
func (b *bench) verdict(t *testing.T, n state.NewCall) budget.Verdict {
	t.Helper()
	v, err := b.Begin(t.Context(), n)
	require.NoError(t, err)
	return v
}

// begin begins a call that is granted.
func (b *bench) begin(t *testing.T, n state.NewCall) state.NewCall {
	t.Helper()
	v := b.verdict(t, n)
	require.Nil(t, v.Refused)
	require.Equal(t, n.Want, v.Granted)
	return n
}

func answered(tokens int64) state.CallEnd {
	return state.CallEnd{
		State: state.CallAnswered, Answer: "answer",
		Usage: cost.Usage{OutputTokens: tokens, CostUSD: cost.USD(tokens)},
	}
}

// budget is one of the budgets of an assignment.
func (b *bench) budget(t *testing.T, a state.Assignment, scope session.BudgetScope) budget.Budget {
	t.Helper()
	budgets, err := b.Budgets(t.Context(), a, team)
	require.NoError(t, err)
	for _, found := range budgets {
		if found.Kind == scope {
			return found
		}
	}
	require.Failf(t, "no such budget", "%s", scope)
	return budget.Budget{}
}

func tokens(n int64) cost.Amount { return cost.Amount{Tokens: n} }

func capOf(kind session.BudgetScope, name string, n int64) budget.Budget {
	return budget.Budget{Kind: kind, Name: name, Base: spec.Cap{Tokens: n}}
}

// reservationsFit has many callers in two sessions draw from one day, and looks at the sums after each.
func reservationsFit(t *testing.T, b *bench) {
	const limit, each = 1000, 90
	for _, s := range []string{"one", "two"} {
		b.admit(t, s, s, capOf(session.BudgetOfDay, team, limit), capOf(session.BudgetOfPersona, "dev", limit-200))
	}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			a := dev([]string{"one", "two"}[i%2])
			for range 10 {
				n := b.call(a, 1, each)
				v, err := b.Begin(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				budgets, err := b.Budgets(t.Context(), a, team)
				if err != nil {
					t.Error(err)
				}
				for _, budget := range budgets {
					if used := budget.Held().Tokens + budget.Reserved.Tokens; used > budget.Cap.Tokens {
						t.Errorf("%s has %d of %d", budget.Scope(), used, budget.Cap.Tokens)
					}
				}
				if v.Granted != (cost.Amount{}) {
					if err := b.End(t.Context(), n.ID, answered(10)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	callers.Wait()
	day := b.budget(t, dev("one"), session.BudgetOfDay)
	require.Zero(t, day.Reserved)
	require.Equal(t, day.Spent.Tokens, b.budget(t, dev("one"), session.BudgetOfPersona).Spent.Tokens+b.budget(t, dev("two"),
		session.BudgetOfPersona).Spent.Tokens)
}

func refusedOrWaits(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100), capOf(session.BudgetOfPhase, "build", 80))
	first := b.begin(t, b.call(dev("s"), 1, 60))

	v := b.verdict(t, b.call(dev("s"), 1, 30))
	require.True(t, v.Wait, "the first call may need less")
	require.Equal(t, session.BudgetOfPhase, v.Refused.Kind)

	v = b.verdict(t, b.call(dev("s"), 1, 81))
	require.False(t, v.Wait)
	require.Equal(t, session.BudgetOfPhase, v.Refused.Kind)

	b.begin(t, b.call(lead("s"), 1, 40)) // another phase
	require.NoError(t, b.End(t.Context(), first.ID, answered(20)))
	n := b.call(dev("s"), 1, 30)
	n.Want = tokens(1000)
	v = b.verdict(t, n)
	require.True(t, v.Wait, "the session's other call may need less than 40")
	require.Equal(t, session.BudgetOfSession, v.Refused.Kind)
}

func endsFree(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100), capOf(session.BudgetOfPhase, "build", 90),
		capOf(session.BudgetOfPersona, "dev", 80), capOf(session.BudgetOfDay, team, 200))
	for _, ended := range []state.CallState{state.CallAnswered, state.CallFailed, state.CallUnsettled} {
		n := b.begin(t, b.call(dev("s"), 1, 20))
		end := answered(4)
		end.State = ended
		require.NoError(t, b.End(t.Context(), n.ID, end))
	}
	for _, scope := range []session.BudgetScope{
		session.BudgetOfSession, session.BudgetOfPhase, session.BudgetOfPersona,
		session.BudgetOfDay,
	} {
		budget := b.budget(t, dev("s"), scope)
		require.Zero(t, budget.Reserved, scope)
		require.EqualValues(t, 4+4+4+10, budget.Held().Tokens, scope)
	}
	n := b.begin(t, b.call(lead("s"), 1, 20))
	require.NoError(t, b.End(t.Context(), n.ID, answered(3)))
	for scope, spent := range map[session.BudgetScope]int64{
		session.BudgetOfSession: 25, session.BudgetOfPhase: 22,
		session.BudgetOfPersona: 22, session.BudgetOfDay: 25,
	} {
		require.Equal(t, spent, b.budget(t, dev("s"), scope).Held().Tokens, scope)
	}
}

func repetitionsCountOnce(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100))
	n := b.begin(t, b.call(dev("s"), 1, 60))
	b.begin(t, n) // its first answer was lost
	require.Equal(t, tokens(60), b.budget(t, dev("s"), session.BudgetOfSession).Reserved)
	for range 2 {
		require.NoError(t, b.End(t.Context(), n.ID, answered(50)))
	}
	late := answered(1)
	late.State, late.Answer = state.CallFailed, "another"
	require.NoError(t, b.End(t.Context(), n.ID, late))
	c, err := b.PaidAnswer(t.Context(), []state.AttemptKey{n.AttemptKey}, 1, n.Request, nil)
	require.NoError(t, err)
	require.Equal(t, "answer", c.Answer)
	budget := b.budget(t, dev("s"), session.BudgetOfSession)
	require.EqualValues(t, 50, budget.Spent.Tokens)
	require.Zero(t, budget.Reserved)
}

func lostCallsCount(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100), capOf(session.BudgetOfDay, team, 100))
	n := b.begin(t, b.call(dev("s"), 1, 60))
	open, err := b.UnfinishedCalls(t.Context(), dev("s"))
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, n.ID, open[0].ID)
	require.NoError(t, b.End(t.Context(), n.ID, state.CallEnd{State: state.CallUnsettled}))
	open, err = b.UnfinishedCalls(t.Context(), dev("s"))
	require.NoError(t, err)
	require.Equal(t, state.CallUnsettled, open[0].State)
	for _, scope := range []session.BudgetScope{session.BudgetOfSession, session.BudgetOfDay} {
		require.Equal(t, tokens(30), b.budget(t, dev("s"), scope).Held())
	}
	require.NoError(t, b.CloseCall(t.Context(), n.ID, cost.Usage{OutputTokens: 7}, "ana", "from the invoice"))
	require.ErrorIs(t, b.CloseCall(t.Context(), n.ID, cost.Usage{}, "ana", ""), state.ErrNotUnsettled)
	for _, scope := range []session.BudgetScope{session.BudgetOfSession, session.BudgetOfDay} {
		require.Equal(t, tokens(7), b.budget(t, dev("s"), scope).Held())
	}

	known := b.begin(t, b.call(dev("s"), 1, 40))
	require.NoError(t, b.End(t.Context(), known.ID, state.CallEnd{State: state.CallUnsettled}))
	require.NoError(t, b.End(t.Context(), known.ID, answered(5)), "its executor lives")
	require.EqualValues(t, 12, b.budget(t, dev("s"), session.BudgetOfSession).Spent.Tokens)
}

func raisesAdd(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100), capOf(session.BudgetOfPhase, "build", 50),
		capOf(session.BudgetOfDay, team, 100))
	raise := budget.Raise{ID: "1", Scope: budget.PhaseScope("build"), Added: cost.Amount{Tokens: 25, USD: 5}, By: "ana"}
	for range 2 {
		raised, err := b.AddRaise(t.Context(), sessionOf("s"), raise, "cli")
		require.NoError(t, err)
		require.Equal(t, spec.Cap{Tokens: 75}, raised.Cap)
	}
	_, err := b.AddRaise(t.Context(), sessionOf("s"), budget.Raise{
		ID: "2", Scope: budget.DayScope, Team: "another",
		Added: tokens(1),
	}, "cli")
	require.NoError(t, err)
	_, err = b.AddRaise(t.Context(), session.Key{}, budget.Raise{ID: "3", Scope: budget.DayScope, Team: team, Added: tokens(7)},
		"cli")
	require.NoError(t, err)
	account, err := b.Account(t.Context(), sessionOf("s"))
	require.NoError(t, err)
	require.Len(t, account.Raises, 2)
	require.Equal(t, "ana", account.Raises[0].By)
	require.Equal(t, spec.Cap{Tokens: 75}, b.budget(t, dev("s"), session.BudgetOfPhase).Cap, "money is not limited by a raise")
	require.Equal(t, spec.Cap{Tokens: 100}, b.budget(t, dev("s"), session.BudgetOfSession).Cap)
	require.Equal(t, spec.Cap{Tokens: 107}, b.budget(t, dev("s"), session.BudgetOfDay).Cap)
	b.admit(t, "s", "resumed", capOf(session.BudgetOfPhase, "build", 60))
	require.Equal(t, spec.Cap{Tokens: 85}, b.budget(t, dev("s"), session.BudgetOfPhase).Cap)
}

// resetsContinue: a Temporal reset makes a run that nobody admitted.
func resetsContinue(t *testing.T, b *bench) {
	first := b.admit(t, "s", "r1")
	run, err := b.Enter(t.Context(), sessionOf("s"), "r1")
	require.NoError(t, err)
	require.Equal(t, first, run)
	for range 2 {
		run, err = b.Enter(t.Context(), sessionOf("s"), "reset")
		require.NoError(t, err)
		require.Equal(t, first+1, run)
	}
	_, err = b.Enter(t.Context(), sessionOf("s"), "r1")
	require.ErrorIs(t, err, state.ErrFenced)
	_, err = b.Enter(t.Context(), sessionOf("unknown"), "r1")
	require.ErrorIs(t, err, state.ErrNotFound)
}

func reportsRaise(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100))
	n := b.begin(t, b.call(dev("s"), 1, 40))
	sums := func(spent, reserved int64) {
		t.Helper()
		budget := b.budget(t, dev("s"), session.BudgetOfSession)
		require.Equal(t, [2]int64{spent, reserved}, [2]int64{budget.Spent.Tokens, budget.Reserved.Tokens})
	}
	report := func(used, estimated int64) *budget.Budget {
		t.Helper()
		rest := tokens(estimated)
		_, refused, err := b.Report(t.Context(), n.ID, state.Progress{
			Known: cost.Usage{OutputTokens: used}, Wanted: rest, Least: rest,
			Estimated: rest,
		})
		require.NoError(t, err)
		return refused
	}
	require.Nil(t, report(30, 5))
	sums(30, 10)
	require.Nil(t, report(60, 20), "more than was reserved, and within the cap")
	sums(60, 20)
	require.NotNil(t, report(70, 50))
	sums(70, 10)
	require.NotNil(t, report(130, 0), "it is spent nevertheless")
	sums(130, 0)
	require.Nil(t, report(20, 0), "an older report")
	sums(130, 0)
	require.NoError(t, b.End(t.Context(), n.ID, state.CallEnd{State: state.CallAnswered, Usage: cost.Usage{OutputTokens: 90}}))
	sums(130, 0)
	guessed := b.call(dev("s"), 1, 0)
	guessed.Key, guessed.Call = sessionOf("new"), 0
	b.admit(t, "new", "n")
	require.EqualValues(t, 130, b.verdict(t, guessed).Granted.Tokens, "the highest cost on the team's day")
}

func admissionsAreRepeated(t *testing.T, b *bench) {
	var runs sync.WaitGroup
	got := make([]int64, 8)
	for i := range got {
		runs.Go(func() {
			run, err := b.Admit(t.Context(), state.Admission{Key: sessionOf("s"), TemporalRun: "r", Team: team})
			if err != nil {
				t.Error(err)
			}
			got[i] = run
		})
	}
	runs.Wait()
	for _, run := range got {
		require.EqualValues(t, 1, run)
	}
	for i := range got {
		runs.Go(func() {
			var err error
			got[i], err = b.Admit(t.Context(), state.Admission{Key: sessionOf("t"), TemporalRun: fmt.Sprint("t", i), Team: team})
			if err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	require.ElementsMatch(t, []int64{1, 2, 3, 4, 5, 6, 7, 8}, got)
	require.EqualValues(t, 2, b.admit(t, "s", "r2"))
	_, err := b.Admit(t.Context(), state.Admission{Key: sessionOf("s"), TemporalRun: "r", Team: team})
	require.ErrorIs(t, err, state.ErrFenced)
}

func textsAreStored(t *testing.T, b *bench) {
	b.admit(t, "s", "r")
	n := b.call(dev("s"), 1, 10)
	n.Model = "a\x00b\xff'; drop table calls; --"
	b.begin(t, n)
	require.NoError(t, b.End(t.Context(), n.ID, answered(5)), "its digest is that of what is stored")
}
