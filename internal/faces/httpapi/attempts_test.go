package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

func TestAttemptsAreReadAndFollowed(t *testing.T) {
	t.Parallel()
	h := newService(t)
	now := time.Now().UTC()
	h.session("one", "web", now, func(e *session.Execution) { e.Status.Status = session.Completed })
	log, err := h.base.Store.Content.PutBlob(t.Context(), []byte("-- turn 1\n<script>alert(1)</script>\n"))
	require.NoError(t, err)
	of := state.Assignment{Key: session.Key{Namespace: "default", Session: "one"}, AssignmentID: spec.AssignmentID{
		Phase:   "design",
		Persona: "ann",
	}}
	statetest.PutRounds(t, h.base.Store.State, of,
		session.RoundRecord{Round: 1, RoundLog: session.RoundLog{Attempts: []session.AttemptReport{
			{
				Attempt: 1, Failure: failures.Failure{Category: failures.TestFailure, Message: "red"}, Log: log, StartedAt: now,
				EndedAt: now,
			},
		}}})
	const one = "/sessions/one/attempts/design/ann/1/1"
	var part control.TranscriptRange
	h.call("GET", one+"/transcript?from=-30&limit=100", nil).read(t, &part)
	require.Equal(t, "<script>alert(1)</script>\n", part.Text)
	events := string(h.call("GET", "/sessions/one/attempts/events", nil).body)
	require.Contains(t, events, "event: attempt\nid: ")
	require.True(t, strings.HasSuffix(events, "\n\n"))
	require.Contains(t, events, `"status":"completed"`)
}
