package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestAlertsAreListed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	require.Contains(t, d.run("alerts").stderr.String(), "no alerts in the last 24 hours")
	raised := session.Alert{Rule: "tokens: 5", Message: "the session has used 6 tokens\x1b[31m; the threshold is 5 tokens", At: time.Now()}
	require.NoError(t, s.UpdateExecution(session.Key{Namespace: "default", Session: "one"}, func(e *session.Execution) {
		e.Session, e.Team, e.Alerts = "one", "web", []session.Alert{raised}
	}))
	var list control.AlertList
	d.json(&list, "alerts")
	require.Equal(t, "one", list.Alerts[0].Session)
	shown := d.run("alerts").stdout.String()
	require.Regexp(t, `(?m)one +tokens: 5 +the session has used 6 tokens`, shown)
	require.NotContains(t, shown, "\x1b")
}
