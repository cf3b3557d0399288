package web

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func (f fakeSessions) Statistics(_ context.Context, in control.HistoryFilter) (control.Statistics, error) {
	_, err := control.ParseLabels(in.Labels)
	return control.Statistics{By: in.By, Groups: statisticsBy(in.By)}, err
}

func statisticsBy(by []string) []state.Statistic {
	one := state.Statistic{Assignments: state.AssignmentOutcomes{
		All: 40, Finished: 36, Failed: 2, Attempts: 57, Failures: 17,
		LostWorkers: 1,
	}}
	if len(by) == 0 || by[0] == "team" || by[0] == "day" {
		one.Sessions = &state.SessionOutcomes{
			All: 12, Completed: 9, Failed: 1, Cancelled: 1, Seconds: 86_000, Answers: 14,
			WaitedSeconds: 52_000, Approvals: 4, ApprovalSeconds: 12_000,
		}
	}
	two := one
	switch {
	case len(by) == 0:
		return []state.Statistic{one}
	case by[0] == "team":
		one.Team, two.Team = "developer <script>", "tester"
	case by[0] == "day":
		one.Day, two.Day = "2026-11-23", "2026-11-22"
	default:
		one.Persona, one.Agent, one.Model, one.Phase = "tester", "tester", "tester", "tester"
		return []state.Statistic{one}
	}
	return []state.Statistic{one, two}
}

func (f fakeMoney) Usage(_ context.Context, filter control.UsageFilter) (control.Usage, error) {
	var doc control.Usage
	if len(filter.By) == 0 {
		doc.Total.Usage = cost.Usage{InputTokens: 2000, CostUSD: 3e9}
		doc.Rows = []state.Cost{{Spending: doc.Total}}
		return doc, nil
	}
	if filter.By[0] == "day" {
		for i, day := range []string{"2026-11-23", "2026-11-22", "2026-11-20"} {
			doc.Rows = append(doc.Rows, state.Cost{
				Day:      day,
				Spending: state.Spending{Usage: cost.Usage{InputTokens: 900, CostUSD: cost.USD(3-i) * 1e9}},
			})
		}
		return doc, nil
	}
	for i, name := range []string{"developer <script>", "tester"} {
		r := state.Cost{Spending: state.Spending{Usage: cost.Usage{InputTokens: 1000, CostUSD: cost.USD(i+1) * 1e9}}}
		*r.Key(filter.By[0]) = name
		doc.Rows, doc.Total = append(doc.Rows, r), doc.Total.Add(r.Spending)
	}
	return doc, nil
}

func (f fakeMoney) Raise(_ context.Context, id string, r control.Raise) (control.Raised, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raises = append(f.raises, r)
	return control.Raised{Session: id}, nil
}

func (f fakeMoney) Budgets(context.Context, string) (control.Budgets, error) { return f.open, nil }

func (f fakeMoney) Days(context.Context) (control.DayList, error) {
	return control.DayList{Days: f.days}, nil
}

func (f fakeMoney) RaiseDay(_ context.Context, team string, r control.DayRaise) (control.Day, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raises = append(f.raises, control.Raise{Tokens: r.Tokens, USD: r.USD, Note: team + ": " + r.Note})
	return control.Day{}, nil
}

func (f fakeMoney) Settle(_ context.Context, in control.SettleInput) (control.Settled, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var used cost.Usage
	if in.Body.Usage != nil {
		used = *in.Body.Usage
	}
	f.settled = append(f.settled, fmt.Sprintf("%s %s %d %s", in.Call, in.Body.As, used.Tokens(), used.CostUSD))
	return control.Settled{}, in.Body.Check()
}

func (f fakeMoney) SettleAll(_ context.Context, _ string, as control.Settlement) (control.SettledCalls, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = append(f.settled, "all "+string(as.As))
	return control.SettledCalls{}, nil
}

func sampleMoney(p *plane) {
	left := int64(180_000)
	p.days = []control.Day{{
		Team: "web-service", Date: "2026-11-23", EndsAt: testNow.Add(9 * time.Hour), Cap: spec.Cap{USD: 50e9, Tokens: 2_000_000},
		Limit: spec.Cap{USD: 60e9, Tokens: 2_000_000},
		Spent: cost.Amount{USD: 48e9, Tokens: 1_700_000}, Unsettled: cost.Amount{USD: 2e9, Tokens: 120_000},
		Reserved: cost.Amount{USD: 1e9}, Left: control.BudgetLeft{Tokens: &left},
		Sessions: []control.DaySession{{Session: "web-7", UnsettledCalls: 2}, {Session: "web-6"}},
		Raises:   []budget.Raise{{By: "alice", Note: "release", Added: cost.Amount{USD: 10e9}, When: ago(time.Hour)}},
	}}
	call := func(phase, persona, id string, is state.CallState) control.OpenCall {
		return control.OpenCall{
			AssignmentID: spec.AssignmentID{Phase: phase, Persona: persona}, Call: id, State: is, Agent: "claude",
			BeganAt: ago(time.Hour), Estimate: cost.Amount{Tokens: 60_000, USD: 1e9},
		}
	}
	p.open = control.Budgets{Open: []control.OpenCall{
		call("backend", "developer", "call3", state.CallUnsettled), call("frontend", "designer", "call4", state.CallBegun),
		call("backend", "database-expert", "call7", state.CallUnsettled), call("backend", "database-expert", "call8", state.CallBegun),
	}}
	p.read.Unsettled = cost.Usage{InputTokens: 120_000, CostUSD: 2e9}
	p.examined = control.Examination{At: ago(20 * time.Second), Findings: []control.Finding{
		{Check: "store", Result: control.ResultOK, Message: "st-1 in /var/lib/maestro"},
		{
			Check: "store space", Result: control.ResultWarning, Message: "only 900 MiB free",
			Remedy: "free space on its disk; remove old checkpoints and unused blobs", Command: "maestro checkpoints prune --dry-run",
		},
		{
			Check: "workers", Result: control.ResultBad, Message: "no worker serves the store st-1", Remedy: "start a worker",
			Command: "maestro worker --agents agents.yaml",
		},
	}}
}
