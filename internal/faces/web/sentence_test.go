package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

func TestASentenceSaysWhatASessionDoes(t *testing.T) {
	t.Parallel()
	started, closed := ago(2*time.Hour), ago(30*time.Minute)
	until := testNow.Add(4 * time.Minute)
	base := func(state session.State, change func(*session.Status)) session.Status {
		s := session.Status{Session: "s", Status: state, StartedAt: &started, Phases: []session.PhaseStatus{
			{Name: "design", Status: session.Completed, Assignments: []session.AssignmentStatus{{
				Persona:           "dev",
				AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
			}}},
			{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{{
				Persona:           "dev",
				AssignmentSummary: session.AssignmentSummary{Status: session.Running, Attempts: 1},
			}}},
		}}
		change(&s)
		return s
	}
	dev := func(s *session.Status) *session.AssignmentStatus { return &s.Phases[1].Assignments[0] }
	help := session.Request{
		ID: "r", Kind: session.ForHelp, Phase: "build", Persona: "dev", Message: "2 tests\nfail\u202e.",
		Actions: []session.Action{session.AnswerRetry}, Since: ago(time.Hour), Until: testNow.Add(48 * time.Hour),
	}
	for want, s := range map[string]session.Status{
		"Waits for a worker to begin the first phase.":         base(session.Admitted, func(*session.Status) {}),
		"Works: dev on build (attempt 2). 1 of 2 phases done.": base(session.Running, func(*session.Status) {}),
		"Works: the merge of build. 1 of 2 phases done.": base(session.Running,
			func(s *session.Status) { dev(s).Status = session.Completed }),
		"build/dev waits for its next attempt. 1 of 2 phases done.": base(session.Running,
			func(s *session.Status) { dev(s).Status = session.Waiting }),
		"Begins its next phase. 1 of 2 phases done.": base(session.Running,
			func(s *session.Status) { dev(s).Status, s.Phases[1].Status = session.Pending, session.Pending }),
		"build/dev waits for breaker claude since 5m 0s, for another 4m 0s: 5 consecutive failures. It continues by itself.": base(
			session.WaitingForBreaker, func(s *session.Status) {
				dev(s).Awaits = &session.BreakerWait{
					Breaker: "claude", Since: ago(5 * time.Minute), Until: &until,
					Why: "5 consecutive failures",
				}
			}),
		"Waits for a person since 1h 0m: build/dev needs help: 2 tests fail. 1 further request is open. Without an answer the " +
			"session fails in 2d 0h.": base(session.HelpIsNeeded, func(s *session.Status) {
			s.Help = []session.Request{
				{Kind: session.ForBudget, Since: ago(time.Minute)},
				help,
				{Kind: session.ForOutage, Since: ago(9 * time.Hour), Category: failures.RateLimited},
			}
		}),
		"Waits for a person since 10m 0s: phase build needs approval.": base(session.AwaitingApproval, func(s *session.Status) {
			s.Help = []session.Request{{
				Kind: session.ForApproval, Phase: "build", Actions: []session.Action{session.AnswerApprove},
				Since: ago(10 * time.Minute), Message: "read the diff",
			}}
		}),
		"Waits for a person: what for is not known yet": base(session.HelpIsNeeded, func(*session.Status) {}),
		"Completed 2 phases after 1h 30m, for $2.50.": base(session.Completed,
			func(s *session.Status) { s.ClosedAt, s.Usage = &closed, cost.Usage{CostUSD: 2.5e9} }),
		"Failed after 1h 30m: help was not given": base(session.Failed, func(s *session.Status) {
			s.ClosedAt, s.Reason = &closed,
				"help was\x1b[2J not given"
		}),
		"Cancelled after 1h 30m. 1 of 2 phases done.": base(session.WasCancelled, func(s *session.Status) { s.ClosedAt = &closed }),
	} {
		require.Equal(t, want, sentenceOf(s, testNow).Text)
	}
}

func TestATimelineNamesTheCausesOfWaits(t *testing.T) {
	t.Parallel()
	line := timelineOf(sampleCourse(), testNow)
	said := map[string][]string{}
	for _, lane := range line.Lanes {
		for _, b := range lane.Bars {
			said[lane.Name] = append(said[lane.Name], b.Label)
			require.GreaterOrEqual(t, b.From, 0.0)
			require.LessOrEqual(t, b.From+b.Width, 100.01)
		}
	}
	require.Equal(t, map[string][]string{
		"design/architect": {"round 1, attempt 1 succeeded, from 12:20:00, 12m0s"},
		"backend/developer": {
			"round 1, attempt 1 failed: test_failure, from 12:34:00, 12m0s", "waited for the next attempt, from 12:46:00, 1m0s",
			"round 1, attempt 2 failed: timeout, from 12:47:00, 7m0s",
			"waited for a person: alice answered retry, from 12:54:00, 35m0s", "waited for the next attempt, from 13:29:00, 1m0s",
			"round 2, attempt 1 succeeded, from 13:30:00, 12m0s",
		},
		"backend/database-expert": {
			"round 1, attempt 1 failed: contract_violation, from 13:50:00, 19m0s",
			"waited for the next attempt, from 14:09:00, 1m0s", "round 1, attempt 2 runs, from 14:10:00, 20m0s",
		},
		"frontend/designer": {
			"round 1, attempt 1 succeeded, a part of it, from 12:34:00, 1m0s", "waited for a larger budget, from 12:35:00, 20m0s",
			"round 1, attempt 1 succeeded, from 12:55:00, 5m0s",
		},
		"frontend/developer":   {"round 1, attempt 1 succeeded, from 12:34:00, 1h22m0s"},
		"frontend, approval":   {"waits for approval, from 13:56:00, 34m0s"},
		"documentation/writer": {"waits for breaker claude, from 14:24:00, 6m0s"},
	}, said)
	require.InDelta(t, 100, line.Now, .1)
	waiting := sampleCourse()
	waiting.Status.Assignment(spec.AssignmentID{Phase: "backend", Persona: "database-expert"}).Status = session.Waiting
	for _, lane := range timelineOf(waiting, testNow).Lanes {
		if lane.Name == "backend/database-expert" {
			require.Equal(t, "round 1, attempt 2 has begun, and waits, from 14:10:00, 20m0s", lane.Bars[len(lane.Bars)-1].Label)
		}
	}
	require.Empty(t, timelineOf(Course{}, testNow).Lanes)
}

// TestATimelineNamesTheOthersThatAreWaitedFor, also while they are.
func TestATimelineNamesTheOthersThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	round := session.RoundRecord{Round: 1}
	round.AttemptAt = ago(time.Hour)
	round.Outage = &session.Outage{Since: ago(50 * time.Minute), Failure: *failures.Failf(failures.Pending, "waits for a review")}
	round.Pauses = []session.Pause{
		{From: ago(50 * time.Minute), To: ago(30 * time.Minute), For: failures.Pending, Text: "waits for CI"},
		{From: ago(30 * time.Minute), For: failures.Pending, Text: "waits for a review"},
	}
	id, record := sampleRecord("ship", spec.DeliveryPersona, round)
	c := Course{Work: control.Work{Records: map[spec.AssignmentID]session.Record{id: record}}, Status: session.Status{
		Status: session.Running, Phases: []session.PhaseStatus{{
			Name: "ship", Status: session.Running,
			Assignments: []session.AssignmentStatus{{
				Persona: spec.DeliveryPersona, AssignmentSummary: session.AssignmentSummary{Status: session.Waiting},
				Progress: "waits for a review; the next look is at 2026-11-23 14:31:00 UTC",
			}},
		}},
	}}
	labels := func() (all []string) {
		for _, b := range timelineOf(c, testNow).Lanes[0].Bars {
			all = append(all, b.Label)
		}
		return all
	}
	require.Equal(t, []string{
		"waited for others: waits for CI, from 13:40:00, 20m0s", "waited for others: waits for a review, from 14:00:00, 30m0s",
	}, labels())
	require.Equal(t, "ship/delivery: waits for a review. 0 of 1 phase done.", sentenceOf(c.Status, testNow).Text)
}
