package usage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/usage"
)

func TestEachCostIsInOneRowAndInTheTotal(t *testing.T) {
	t.Parallel()
	row := func(team, day string, tokens int64) usage.Row {
		return usage.Row{Team: team, Session: "s", Day: day, Spending: usage.Spent(1, cost.Usage{OutputTokens: tokens})}
	}
	costs := []usage.Row{row("web", "2026-11-20", 1), row("web", "2026-11-21", 2), row("api", "2026-11-21", 4)}
	rows, total := usage.Sum(costs, []string{"team"}, "")
	require.Equal(t, int64(7), total.Tokens)
	require.Len(t, rows, 2)
	require.Equal(t, usage.Row{Team: "web", Spending: usage.Spent(2, cost.Usage{OutputTokens: 3})}, rows[0])
	rows, total = usage.Sum(costs, []string{"day"}, "2026-11-21")
	require.Equal(t, 2, total.Calls)
	require.Equal(t, []usage.Row{{Day: "2026-11-21", Spending: usage.Spent(2, cost.Usage{OutputTokens: 6})}}, rows)
}
