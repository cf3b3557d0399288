package cli_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestOutageIsSeenAndEnded: everybody sees why a session waits, and that nobody has to do
// anything; a person may have it tried at once, or end the session, however long the wait is.
func TestOutageIsSeenAndEnded(t *testing.T) {
	t.Parallel()
	var state atomic.Int32
	const fails, limits, works = 0, 1, 2
	d := newDesk(t).withServer()
	d.withModel(func(r providertest.Request) providertest.Reply {
		switch state.Load() {
		case fails:
			return providertest.Reply{Fault: providertest.Fault{Status: http.StatusInternalServerError, Type: "api_error", Message: "it is on fire"}}
		case limits:
			return providertest.Reply{Fault: providertest.Fault{Status: http.StatusTooManyRequests, Type: "rate_limit_error", Message: "slow down", RetryAfter: "7000"}}
		}
		if r.Turn() == 1 {
			return providertest.Use(providertest.Tool("write", map[string]any{"path": "code.txt", "content": "x"}))
		}
		return providertest.Use(providertest.Tool("finish", map[string]any{"summary": "done"}))
	}, "breaker: {threshold: 100}")
	file := d.file("team.yaml", modelTeam+"retry: {attempts: 1, rounds: 1, patience: 1s}\n")
	sessions := []string{"one", "two"}
	for _, s := range sessions {
		d.must(0, "run", file, "Make it so.", "--session", s)
	}
	watch := d.begin("watch", "one")
	watch.shows("it is on fire")
	watch.shows("build/dev: waits for its provider")
	shown := func(s string, what ...string) func() bool {
		return func() bool {
			text := d.must(0, "status", s)
			for _, w := range what {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return true
		}
	}
	until(t, shown("two", "build/dev waits for its provider: api_error", "continues by itself", "no answer is needed"), "status shows no notice")
	state.Store(limits)
	for _, s := range sessions { // what is wrong now, as far as people know, and in the store
		until(t, shown(s, "build/dev waits for its provider: rate_limited", "slow down"), "the notice is of what was wrong before")
	}
	until(t, func() bool {
		out := d.must(0, "inbox")
		return strings.Count(out, "rate_limited") == 2 && strings.Contains(out, "these continue without an answer:\n  maestro status ") && !strings.Contains(out, "\nanswer with:")
	}, "the inbox does not list them so")

	state.Store(works)
	d.must(0, "resolve", "one", "retry")
	require.Equal(t, 0, watch.wait(), "the wait of two hours is over: %s", watch.stdout.String())
	var s session.Status
	d.json(&s, "status", "one")
	require.Equal(t, 1, s.Phases[0].Assignments[0].Attempts)
	require.Equal(t, 1, s.Phases[0].Assignments[0].Rounds)
	require.Empty(t, s.Help)

	d.must(0, "cancel", "two", "--watch")
	d.json(&s, "status", "two")
	require.Equal(t, session.WasCancelled, s.Status)
}
