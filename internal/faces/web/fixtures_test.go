package web

import (
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

var testNow = time.Date(2026, 11, 23, 14, 30, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return testNow.Add(-d) }

func sampleAssignment(persona string, state session.State, attempts int, usd cost.USD) session.AssignmentStatus {
	a := session.AssignmentStatus{Persona: persona, AssignmentSummary: session.AssignmentSummary{
		Status: state, Attempts: attempts, Rounds: min(attempts, 1), Usage: cost.Usage{
			InputTokens:  int64(usd) / 40_000,
			OutputTokens: 1200, CostUSD: usd,
		},
	}}
	if state.Done() {
		a.Summary = "Wrote the handler and its tests."
	}
	return a
}

// sampleSession waits for approval while other phases work.
func sampleSession() (session.Status, []spec.Phase) {
	started := ago(2*time.Hour + 12*time.Minute)
	s := session.Status{
		Session: "web-7", Team: "web-service", Status: session.AwaitingApproval, Run: 1, StartedAt: &started,
		LeftOut:   []string{"because they look like secrets: <b>.env"},
		Decisions: map[string]string{"framework": "net/http", "database": "SQLite"},
		Usage:     cost.Usage{InputTokens: 912_000, OutputTokens: 48_000, CostUSD: 12_400_000_000},
		Phases: []session.PhaseStatus{
			{
				Name: "requirements", Status: session.Restored,
				Assignments: []session.AssignmentStatus{sampleAssignment("analyst", session.Restored, 0, 0)},
			},
			{
				Name: "design", Status: session.Completed, Seconds: 754,
				Assignments: []session.AssignmentStatus{sampleAssignment("architect", session.Completed, 1, 1_900_000_000)},
			},
			{Name: "backend", Status: session.Running, Seconds: 3100, Assignments: []session.AssignmentStatus{sampleAssignment("developer",
				session.Completed, 3, 4_100_000_000), sampleAssignment("database-expert", session.Running, 1, 900_000_000)}},
			{
				Name: "frontend", Status: session.AwaitingApproval, Seconds: 1800,
				Assignments: []session.AssignmentStatus{
					sampleAssignment("designer", session.Completed, 1, 2_000_000_000),
					sampleAssignment("developer", session.Completed, 2, 2_800_000_000),
				},
			},
			{
				Name: "documentation", Status: session.Running, Seconds: 400,
				Assignments: []session.AssignmentStatus{sampleAssignment("writer", session.Waiting, 0, 100_000_000)},
			},
			{
				Name: "integration-and-acceptance", Status: session.Pending,
				Assignments: []session.AssignmentStatus{
					sampleAssignment("tester", session.Pending, 0, 0),
					sampleAssignment("reviewer", session.Pending, 0, 0),
				},
			},
		},
		Help: []session.Request{{
			ID: "r-1", Kind: session.ForApproval, Phase: "frontend", Message: "frontend is done: approve it, or reject it with reasons",
			Actions: []session.Action{session.AnswerApprove, session.AnswerReject},
			Since:   ago(34 * time.Minute), Usage: cost.Usage{CostUSD: 4_800_000_000},
		}},
	}
	s.Alerts = []session.Alert{{
		Rule: "cost_usd: 10", Value: 10.2, Threshold: 10,
		Message: "the session has cost 10.2 USD; the threshold is 10 USD", At: ago(20 * time.Minute),
	}}
	s.Phases[3].Assignments[0].LeftOut = []string{"left out by ignore rules: <b>node_modules/"}
	until := testNow.Add(4 * time.Minute)
	s.Phases[4].Assignments[0].Awaits = &session.BreakerWait{
		Breaker: "claude", Since: ago(6 * time.Minute), Until: &until,
		Why: "5 consecutive failures, last: overloaded: 529",
	}
	return s, []spec.Phase{
		{Name: "requirements"},
		{Name: "design", Needs: []string{"requirements"}},
		{Name: "backend", Needs: []string{"design"}},
		{Name: "frontend", Needs: []string{"design"}},
		{Name: "documentation", Needs: []string{"requirements"}},
		{Name: "integration-and-acceptance", Needs: []string{"backend", "frontend", "documentation"}},
	}
}

func sampleRecord(phase, persona string, rounds ...session.RoundRecord) (spec.AssignmentID, session.Record) {
	id := spec.AssignmentID{Phase: phase, Persona: persona}
	return id, session.Record{Assignment: id, Rounds: rounds}
}

func sampleSuccess(from, to time.Duration) session.RoundRecord {
	return session.RoundRecord{Round: 1, Result: &session.RoundResult{
		Attempts: 1, Summary: "Done.", StartedAt: ago(from),
		EndedAt: ago(to),
	}}
}

func sampleCourse() Course {
	s, _ := sampleSession()
	records := map[spec.AssignmentID]session.Record{}
	add := func(id spec.AssignmentID, r session.Record) { records[id] = r }
	add(sampleRecord("design", "architect", sampleSuccess(130*time.Minute, 118*time.Minute)))
	failed := session.RoundRecord{Round: 1, GaveUp: true, Last: true}
	failed.Attempts = []session.AttemptReport{
		{
			Attempt: 1, Failure: failures.Failure{
				Category: failures.TestFailure, Message: "2 tests fail", Output: "store_test.go:41: got 3 notes, want 2",
			},
			StartedAt: ago(116 * time.Minute), EndedAt: ago(104 * time.Minute),
		},
		{
			Attempt: 2, Failure: failures.Failure{Category: failures.Timeout, Message: "time limit"}, StartedAt: ago(103 * time.Minute),
			EndedAt: ago(96 * time.Minute),
		},
	}
	second := sampleSuccess(60*time.Minute, 48*time.Minute)
	second.Round = 2
	add(sampleRecord("backend", "developer", failed, second))
	running := session.RoundRecord{Round: 1}
	running.AtWork, running.AttemptAt = true, ago(20*time.Minute)
	running.Attempts = []session.AttemptReport{{Attempt: 1, Failure: failures.Failure{
		Category: failures.ContractViolation,
		Message:  "no file matches schema/*.sql",
	}, StartedAt: ago(40 * time.Minute), EndedAt: ago(21 * time.Minute)}}
	add(sampleRecord("backend", "database-expert", running))
	paused := sampleSuccess(116*time.Minute, 90*time.Minute)
	paused.Pauses = []session.Pause{{From: ago(115 * time.Minute), To: ago(95 * time.Minute), For: failures.TokenBudget}}
	add(sampleRecord("frontend", "designer", paused))
	add(sampleRecord("frontend", "developer", sampleSuccess(116*time.Minute, 34*time.Minute)))
	add(sampleRecord("documentation", "writer", session.RoundRecord{Round: 1}))
	return Course{s, control.Work{Records: records, Answers: []session.Answer{{
		Request: "r-0", Action: session.AnswerRetry,
		By: "alice", Phase: "backend", Persona: "developer", At: ago(61 * time.Minute),
	}}}}
}
