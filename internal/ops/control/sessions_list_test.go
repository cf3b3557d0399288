package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// TestAContinuedSessionIsListedWithItsOwnStart has a session wait for an approval in a run
// that continues an earlier one as new, of whose phases Temporal does not tell.
func TestAContinuedSessionIsListedWithItsOwnStart(t *testing.T) {
	t.Parallel()
	began, continued := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	listed := ListedSession{Session: "s", Store: "st", Status: session.AwaitingApproval, Phases: []string{}, StartedAt: &continued, ran: continued, run: "second"}
	e := state.Session{
		Key: session.Key{Session: "s"}, Run: "second", FirstRun: "first", Status: session.AwaitingApproval, StartedAt: &began, Phases: []string{"one"},
	}
	got := join([]ListedSession{listed}, "st", []state.Session{e})[0]
	require.Equal(t, began, *got.StartedAt)
	require.Equal(t, []string{"one"}, got.Phases)
	require.Equal(t, continued, got.order(), "pages are in the order in which Temporal lists runs")

	e.Run = "first" // a later run was begun by `resume`, and has yet to be admitted
	require.Equal(t, continued, *join([]ListedSession{listed}, "st", []state.Session{e})[0].StartedAt)
}

func TestPagesOfAListingHaveEachSessionOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 1, time.UTC)
	known := func() (all []ListedSession) {
		for i, name := range []string{"c", "a", "e", "b", "d"} { // three of them started at once
			started := now.Add(-time.Duration(i/3) * time.Hour)
			all = append(all, ListedSession{Session: name, StartedAt: &started})
		}
		return all
	}
	var got []string
	f := SessionFilter{Limit: 2}
	for {
		require.NoError(t, f.Check())
		doc := f.page(known())
		for _, l := range doc.Sessions {
			got = append(got, l.Session)
		}
		if !doc.More {
			require.Empty(t, doc.Cursor)
			break
		}
		f.Cursor = doc.Cursor
	}
	require.Equal(t, []string{"a", "c", "e", "b", "d"}, got)
}
