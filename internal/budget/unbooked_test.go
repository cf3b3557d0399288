package budget_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

func TestWhatWasSpentBeforeThereWereLedgers(t *testing.T) {
	t.Parallel()
	use := func(tokens int64) cost.Usage { return cost.Usage{InputTokens: tokens} }
	dev, ship := spec.AssignmentID{Phase: "build", Persona: "dev"}, spec.AssignmentID{Phase: "ship", Persona: "dev"}
	status := session.Status{Usage: use(118), Phases: []session.PhaseStatus{
		{Name: "build", Assignments: []session.AssignmentStatus{{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Usage: use(100)}}}},
		{Name: "ship", Assignments: []session.AssignmentStatus{{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Usage: use(10)}}}},
	}}
	booked := func(rows map[string]int64) *budget.Ledger {
		l := &budget.Ledger{Rows: map[string]budget.Row{}}
		for id, tokens := range rows {
			l.Rows[id] = budget.Row{Spent: []budget.Spending{{Calls: 1, Usage: use(tokens)}}}
		}
		return l
	}
	for name, c := range map[string]struct {
		ledger *budget.Ledger
		want   []budget.Unbooked
	}{
		"no ledger":                      {nil, []budget.Unbooked{{dev, use(100)}, {ship, use(10)}, {Usage: use(8)}}},
		"a part is booked":               {booked(map[string]int64{"build/dev": 30}), []budget.Unbooked{{dev, use(70)}, {ship, use(10)}, {Usage: use(8)}}},
		"the ledger is newer":            {booked(map[string]int64{"build/dev": 130}), []budget.Unbooked{{ship, use(10)}, {Usage: use(8)}}},
		"what the team has no more":      {booked(map[string]int64{"gone/dev": 3}), []budget.Unbooked{{dev, use(100)}, {ship, use(10)}, {Usage: use(5)}}},
		"all of it is booked, and known": {booked(map[string]int64{"build/dev": 100, "ship/dev": 10, "gone/dev": 8}), nil},
	} {
		require.Equal(t, c.want, budget.FindUnbooked(status, c.ledger), name)
	}
}
