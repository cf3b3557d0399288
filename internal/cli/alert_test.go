package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestAlertRulesAreAddedListedAndRemoved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	require.Contains(t, d.run("alert", "list").stderr.String(), "the store has no alert rules")
	for _, rule := range []string{"day_cost_usd=100.50", "breaker_open=any"} {
		got := d.run("alert", "add", rule)
		require.Equal(t, 0, got.code, got.stderr.String())
	}
	raised := session.Alert{Rule: "tokens: 5", Message: "the session has used 6 tokens\x1b[31m; the threshold is 5 tokens", At: time.Now()}
	require.NoError(t, s.UpdateExecution(session.Key{Namespace: "default", Session: "one"}, func(e *session.Execution) {
		e.Session, e.Team, e.Alerts = "one", "web", []session.Alert{raised}
	}))
	var list control.AlertList
	d.json(&list, "alert", "list")
	require.Equal(t, []string{"breaker_open=any", "day_cost_usd=100.5"}, []string{list.Rules[0].Rule, list.Rules[1].Rule})
	require.Equal(t, "one", list.Alerts[0].Session)
	shown := d.run("alert", "list").stdout.String()
	require.Regexp(t, `(?m)one +tokens: 5 +the session has used 6 tokens`, shown)
	require.NotContains(t, shown, "\x1b")

	require.Equal(t, "alert rule day_cost_usd=100.5 is removed\n", d.run("alert", "remove", "day_cost_usd=100.5").stdout.String())
	got := d.run("alert", "add", "cost=1")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), `"cost=1" is not an alert rule; use day_cost_usd=AMOUNT, breaker_open=NAME or breaker_open=any`)
	require.NotEqual(t, 0, d.run("alert", "remove", "day_cost_usd=100.5").code)
	require.Contains(t, d.run("audit").stdout.String(), "alert.remove")
}
