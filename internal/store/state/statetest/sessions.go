package statetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// execution is a status that a session's worker writes.
func execution(name string, started time.Time, status session.State) session.Execution {
	e := session.Execution{RunID: name + "-run", FirstRun: name + "-run"}
	e.Run = 1
	e.Session, e.Team, e.Status.Status, e.StartedAt = name, team, status, &started
	e.Phases = []session.PhaseStatus{{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{{
		Persona: "dev", AssignmentSummary: session.AssignmentSummary{
			Status: session.Completed, Attempts: 2, LostWorkers: 1, Failures: []session.AttemptFailure{{Category: failures.TestFailure}},
		},
	}}}}
	if status.Closed() {
		ended := started.Add(10 * time.Minute)
		e.ClosedAt = &ended
	}
	return e
}

// put writes a status. The session's requirement names it.
func (b *bench) put(t *testing.T, e session.Execution) {
	t.Helper()
	key := sessionOf(e.Session)
	_, err := b.Admit(t.Context(), state.Admission{
		Key: key, TemporalRun: e.RunID, OriginalRun: e.RunID, Team: e.Team, Requirement: "Make 100% of a Shop, " + e.Session,
	})
	require.NoError(t, err)
	Put(t, b.DB, key, func(stored *session.Execution) {
		stored.Status, stored.RunID, stored.FirstRun = e.Status, e.RunID, e.FirstRun
	})
}

// listed puts three sessions: one of another team, one with a label and a request, and the newest, which has failed.
func listed(t *testing.T, b *bench) (started time.Time) {
	t.Helper()
	started = b.clock.Now().UTC().Truncate(time.Second)
	other := execution("other", started, session.Completed)
	other.Team = "ops"
	asks := execution("asks", started.Add(time.Hour), session.HelpIsNeeded)
	asks.Labels = map[string]string{"area": "ui"}
	asks.Help = []session.Request{{
		ID: "1", Kind: session.ForHelp, Phase: "build", Persona: "dev", Message: "what now?",
		Actions: []session.Action{session.AnswerRetry}, Since: started.Add(2 * time.Hour),
	}}
	asks.Alerts = []session.Alert{{Rule: "cost_usd: 20", Message: "it is dear", At: started.Add(2 * time.Hour)}}
	failed := execution("failed", started.Add(48*time.Hour), session.Failed)
	for _, e := range []session.Execution{other, asks, failed} {
		b.put(t, e)
	}
	return started
}

func sessionsAreListed(t *testing.T, b *bench) {
	started := listed(t, b)
	for name, c := range map[string]struct {
		f    state.Filter
		want []string
	}{
		"all":   {state.Filter{}, []string{"failed", "asks", "other"}},
		"limit": {state.Filter{Limit: 2}, []string{"failed", "asks"}},
		"after": {
			state.Filter{After: state.Cursor{StartedAt: started.Add(48 * time.Hour), Session: "failed"}},
			[]string{"asks", "other"},
		},
		"team":        {state.Filter{Teams: []string{"ops"}}, []string{"other"}},
		"status":      {state.Filter{Status: []session.State{session.Failed, session.HelpIsNeeded}}, []string{"failed", "asks"}},
		"since":       {state.Filter{Since: started.Add(time.Hour)}, []string{"failed", "asks"}},
		"until":       {state.Filter{Until: started.Add(time.Hour)}, []string{"other"}},
		"label":       {state.Filter{Labels: map[string]string{"area": "ui"}}, []string{"asks"}},
		"other label": {state.Filter{Labels: map[string]string{"area": "db"}}, []string{}},
		"text":        {state.Filter{Text: "100% OF A SHOP"}, []string{"failed", "asks", "other"}},
		"no pattern":  {state.Filter{Text: "1%a"}, []string{}},
		"name":        {state.Filter{Text: "fail"}, []string{"failed"}},
		"alerted":     {state.Filter{AlertedSince: started.Add(2 * time.Hour)}, []string{"asks"}},
		"one":         {state.Filter{Session: "asks"}, []string{"asks"}},
		"elsewhere":   {state.Filter{Namespace: "x"}, []string{}},
	} {
		if c.f.Namespace == "" {
			c.f.Namespace = "default"
		}
		found, err := b.Sessions(t.Context(), c.f)
		require.NoError(t, err, name)
		names := []string{}
		for _, s := range found {
			names = append(names, s.Session)
		}
		require.Equal(t, c.want, names, name)
	}
	asks, ok, err := b.Session(t.Context(), sessionOf("asks"))
	require.NoError(t, err)
	require.True(t, ok)
	since, begun := started.Add(2*time.Hour), started.Add(time.Hour)
	require.Equal(t, state.Session{
		Key: sessionOf("asks"), Team: team, Status: session.HelpIsNeeded, Phases: []string{"build"},
		Requirement: "Make 100% of a Shop, asks",
		StartedAt:   &begun, Run: "asks-run", FirstRun: "asks-run", Requests: 1, WaitingSince: &since, AlertedAt: &since,
		Labels: map[string]string{"area": "ui"},
	}, asks)
	ended, _, err := b.Session(t.Context(), sessionOf("failed"))
	require.NoError(t, err)
	require.Empty(t, ended.Phases, "none is in progress")
}

// continuedSessionsKeepTheirStart: a run that continues as new is admitted without what the session was started with.
func continuedSessionsKeepTheirStart(t *testing.T, b *bench) {
	b.admit(t, "s", "r1")
	e := execution("s", b.clock.Now(), session.Running)
	e.RunID = "r1"
	Put(t, b.DB, sessionOf("s"), func(stored *session.Execution) { stored.Status, stored.RunID = e.Status, e.RunID })
	_, err := b.Admit(t.Context(), state.Admission{
		Key: sessionOf("s"), TemporalRun: "r2", OriginalRun: "r2", Team: team,
		Continues: true,
	})
	require.NoError(t, err)
	s, ok, err := b.Session(t.Context(), sessionOf("s"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "a shop", s.Requirement)
	require.Equal(t, session.Running, s.Status)
}

func statisticsAreCounted(t *testing.T, b *bench) {
	started := listed(t, b)
	asked := started.Add(2 * time.Hour)
	for range 2 { // a repetition counts once
		_, _, err := b.PutBoundary(t.Context(), state.Boundary{
			Key: sessionOf("asks"), TemporalRun: "asks-run", At: asked, Status: execution("asks", started.Add(time.Hour),
				session.HelpIsNeeded).Status,
			Answers: []session.Answer{
				{Request: "0", Action: session.AnswerApprove, By: "ana", Phase: "plan", Since: asked, At: asked.Add(time.Minute)},
				{
					Request: "1", Action: session.AnswerRetry, By: "ana", Phase: "build", Persona: "dev", Since: asked,
					At: asked.Add(3 * time.Minute),
				},
			},
		})
		require.NoError(t, err)
	}
	all, err := b.Statistics(t.Context(), nil, state.Filter{Namespace: "default", Teams: []string{team}})
	require.NoError(t, err)
	require.Equal(t, []state.Statistic{{
		Sessions: &state.SessionOutcomes{
			All: 2, Failed: 1, Seconds: 600, Answers: 2, WaitedSeconds: 240, Approvals: 1,
			ApprovalSeconds: 60,
		},
		Assignments: state.AssignmentOutcomes{All: 2, Finished: 2, Attempts: 4, Failures: 2, LostWorkers: 2},
	}}, all)
	days, err := b.Statistics(t.Context(), []string{"day", "team"}, state.Filter{Namespace: "default"})
	require.NoError(t, err)
	require.Len(t, days, 3)
	require.Equal(t, [2]string{"2026-11-28", team}, [2]string{days[0].Day, days[0].Team})
	require.Equal(t, 1, days[0].Sessions.Failed)
	personas, err := b.Statistics(t.Context(), []string{"persona"}, state.Filter{Namespace: "default"})
	require.NoError(t, err)
	require.Len(t, personas, 1)
	require.Nil(t, personas[0].Sessions)
	require.Equal(t, 3, personas[0].Assignments.All)
}

// usageAddsUp compares sums of calls with those that they have to have.
func usageAddsUp(t *testing.T, b *bench) {
	for _, s := range []string{"one", "two"} {
		b.admit(t, s, s)
		e := execution(s, b.clock.Now(), session.Running)
		e.RunID = s
		b.put(t, e)
		for _, end := range []state.CallEnd{answered(5), {State: state.CallUnsettled, Usage: cost.Usage{InputTokens: 1}}} {
			n := b.begin(t, b.call(dev(s), 1, 40))
			require.NoError(t, b.End(t.Context(), n.ID, end))
		}
		b.begin(t, b.call(lead(s), 1, 40))
	}
	want := state.Spending{
		Calls: 4, Usage: cost.Usage{InputTokens: 2, OutputTokens: 10, CostUSD: 10}, Tokens: 12,
		Unsettled: state.OpenCalls{Calls: 2, Amount: tokens(40)}, Reserved: state.OpenCalls{Calls: 2, Amount: tokens(80)},
	}
	some, err := b.Calls(t.Context(), lead("one"))
	require.NoError(t, err)
	day := some[0].Day
	for _, by := range [][]string{{}, {"team"}, {"day", "agent", "model"}, {"session"}, {"phase", "persona"}, {"day", "session"}} {
		for _, since := range []string{"", day} {
			costs, err := b.Usage(t.Context(), by, since, state.Filter{Namespace: "default", Teams: []string{team}})
			require.NoError(t, err)
			require.Equal(t, want, state.Sum(costs, spec.AssignmentID{}).Spending, by)
		}
		none, err := b.Usage(t.Context(), by, "2999-01-01", state.Filter{Namespace: "default"})
		require.NoError(t, err)
		if len(by) > 0 {
			require.Empty(t, none)
		}
	}
	one, err := b.Usage(t.Context(), []string{"session"}, "", state.Filter{Namespace: "default", Text: "one"})
	require.NoError(t, err)
	require.Len(t, one, 1)
	require.Equal(t, "one", one[0].Session)
}

// changesAreNumbered: a reader learns of each session that has changed since it has looked.
func changesAreNumbered(t *testing.T, b *bench) {
	listed(t, b)
	changes, at, reset, err := b.Changes(t.Context(), "default", state.Position{})
	require.NoError(t, err)
	require.False(t, reset)
	require.Len(t, changes, 3)
	_, err = b.AddRaise(t.Context(), sessionOf("asks"), budget.Raise{ID: "1", Scope: budget.SessionScope, Added: tokens(1)}, "cli")
	require.NoError(t, err)
	changes, now, reset, err := b.Changes(t.Context(), "default", at)
	require.NoError(t, err)
	require.False(t, reset)
	require.Equal(t, []state.Change{{Session: "asks", Number: now.Number}}, changes)
	_, _, reset, err = b.Changes(t.Context(), "default", state.Position{Installation: "another", Number: 1})
	require.NoError(t, err)
	require.True(t, reset)
}
