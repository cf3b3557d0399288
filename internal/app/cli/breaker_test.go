package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestBreakerIsTrippedShownAndReset(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": "echo x > code.txt"})
	var all struct {
		Breakers []struct {
			Name, State string
			Agents      []string
		}
	}
	d.json(&all, "breaker", "list")
	require.Len(t, all.Breakers, 1)
	require.Equal(t, "coder", all.Breakers[0].Name)
	require.Equal(t, "closed", all.Breakers[0].State)
	require.Equal(t, []string{"coder"}, all.Breakers[0].Agents)

	refused := d.run("breaker", "trip", "coder")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr.String(), "--why")
	wrong := d.run("breaker", "trip", "codre", "--why", "x")
	require.Equal(t, 2, wrong.code)
	require.Contains(t, wrong.stderr.String(), `did you mean "coder"?`)
	past := d.run("breaker", "trip", "coder", "--why", "x", "--for", "-1h")
	require.Equal(t, 2, past.code)

	out := d.must(0, "breaker", "trip", "coder", "--why", "the provider moves", "--for", "1h")
	require.Contains(t, out, "the provider moves")
	var shown session.BreakerStatus
	d.json(&shown, "breaker", "show", "coder")
	require.Equal(t, session.BreakerIsOpen, shown.State)
	require.WithinDuration(t, time.Now().Add(time.Hour), *shown.OpenUntil, time.Minute)
	require.Equal(t, int64(1), shown.Generation)
	require.Contains(t, d.must(0, "breaker", "list"), "opened manually by")

	file := d.file("team.yaml", oneTeam)
	d.must(0, "run", file, "work", "--session", "s")
	var status session.Status
	until(t, func() bool {
		d.json(&status, "status", "s")
		return status.Status == session.WaitingForBreaker
	}, "the session never waited")
	text := d.must(0, "status", "s")
	require.Contains(t, text, "waiting_breaker")
	require.Contains(t, text, "`maestro breaker show coder`")
	require.Contains(t, text, "the provider moves")
	until(t, func() bool { return strings.Contains(d.must(0, "list"), "waiting_breaker") }, "the listing never said so")
	watching := d.begin("watch", "s")
	watching.shows("waiting since")

	// Neither Temporal nor a worker is needed.
	away := *d
	away.environ = append(away.environ[:len(away.environ):len(away.environ)], "TEMPORAL_ADDRESS=127.0.0.1:1")
	require.Contains(t, away.must(0, "breaker", "reset", "coder", "--why", "it has moved"), "closed")
	require.Equal(t, 0, watching.wait())
}
