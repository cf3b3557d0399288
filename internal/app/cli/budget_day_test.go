package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

const dailyTeam = `
version: 1
name: daily
personas:
  dev: {role: Developer, agent: coder, instructions: do it}
phases:
  - {name: one, personas: [dev]}
  - {name: two, personas: [dev]}
budget: {daily: {tokens: 100}, on_exceeded: ask}
`

func TestATeamsDayIsShownAndRaised(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	w := d.withWorker(map[string]string{"coder": `echo x > $RANDOM.txt; echo '{"usage":{"output_tokens":60}}' > $MAESTRO_RESULT`})
	unknown := d.run("budget", "show", "--team", "daily")
	require.Equal(t, 2, unknown.code)
	require.Contains(t, unknown.stderr.String(), `no session of team "daily"`)
	both := d.run("budget", "show", "s", "--team", "daily")
	require.Equal(t, 2, both.code)
	require.Contains(t, both.stderr.String(), "SESSION and --team exclude each other")
	require.Equal(t, 2, d.run("budget", "show").code)
	require.Equal(t, 2, d.run("budget", "raise", "--team", "../x", "--tokens", "1").code)

	d.must(0, "run", d.file("team.yaml", dailyTeam), "work", "--session", "s")
	var status session.Status
	until(t, func() bool {
		d.json(&status, "status", "s")
		return status.Status == session.HelpIsNeeded && len(status.Help) > 0
	}, "the session never parked")
	var waiting inbox
	d.json(&waiting, "inbox")
	require.Len(t, waiting.Waiting, 1)
	require.Equal(t, string(session.ForBudget), waiting.Waiting[0].Kind)
	require.Equal(t, "maestro budget raise --team daily --tokens N", waiting.Waiting[0].Commands[0])
	require.Equal(t, &session.BudgetRaise{Scope: session.BudgetOfDay, Name: "daily", Tokens: true}, waiting.Waiting[0].Raise)
	require.Equal(t, session.Choice{Action: session.AnswerRetry, Label: "Retry", Effect: "tries again with the remaining budget"}, waiting.Waiting[0].Choices[0])
	require.True(t, waiting.Waiting[0].Choices[2].NeedsFiles)
	require.Contains(t, d.must(0, "status", "s"), "two/dev needs a larger budget: token_budget: ")
	resumed := d.run("resume", "s")
	require.Equal(t, 2, resumed.code)
	require.Contains(t, resumed.stderr.String(), "answer with: maestro budget raise --team daily --tokens N")
	var day struct {
		Date, EndsAt string
		Limit        spec.Cap
		Spent        cost.Amount
		Left         map[string]float64
		Sessions     []struct{ Session string }
	}
	d.json(&day, "budget", "show", "--team", "daily")
	require.Equal(t, time.Now().UTC().Format(time.DateOnly), day.Date)
	require.Equal(t, spec.Cap{Tokens: 100}, day.Limit)
	require.Equal(t, cost.Amount{Tokens: 60}, day.Spent)
	require.Equal(t, map[string]float64{"tokens": 40}, day.Left)
	require.Len(t, day.Sessions, 1)
	require.Contains(t, d.must(0, "budget", "show", "--team", "daily"), "100 tokens")

	wrong := d.run("budget", "raise", "--team", "daily", "--usd", "1")
	require.Equal(t, 2, wrong.code)
	require.Contains(t, wrong.stderr.String(), "team daily has no daily budget of USD")
	wrong = d.run("budget", "raise", "x", "--persona", "a", "--phase", "b", "--tokens", "1")
	require.Equal(t, 2, wrong.code, "%s", wrong.stderr.String())
	d.json(&day, "budget", "raise", "--team", "daily", "--tokens", "50")
	require.Equal(t, spec.Cap{Tokens: 150}, day.Limit)
	until(t, func() bool {
		d.json(&status, "status", "s")
		return status.Status == session.Completed
	}, "the session never went on")

	require.Contains(t, d.must(0, "audit", "--team", "daily"), "budget.raise")

	w.interrupt()
	w.wait()
	require.Contains(t, d.must(0, "budget", "show", "--team", "daily"), "30", "it can be read without a worker")
}
