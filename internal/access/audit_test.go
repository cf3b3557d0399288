package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

func newClock() *statetest.Clock {
	c := &statetest.Clock{}
	c.Set(time.Date(2026, 11, 21, 23, 59, 58, 0, time.UTC))
	return c
}

// openAudit returns the audit log in a directory.
func openAudit(t *testing.T, dir string, c *statetest.Clock) *access.Audit {
	t.Helper()
	return access.NewAudit(openState(t, dir, c), c.Now)
}

// openState opens the database in a directory, as another process does.
func openState(t *testing.T, dir string, c *statetest.Clock) *state.DB {
	t.Helper()
	db, err := state.OpenSQLite(t.Context(), dir, state.Options{Now: c.Now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func ann(grants ...string) context.Context {
	r, _ := access.ParseRoles(grants...)
	return access.With(context.Background(), access.Actor{Name: "ann", Via: access.ViaOIDC, From: "192.0.2.7", Roles: r})
}

func eventsOf(t *testing.T, a *access.Audit, f access.EventFilter) []access.Event {
	t.Helper()
	page, err := a.Events(context.Background(), f)
	require.NoError(t, err)
	return page.Events
}

func TestAnIntentIsWrittenBeforeAChangeAndItsOutcomeAfterIt(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	a := openAudit(t, dir, c)
	cancel := access.Event{Action: "session.cancel", Session: "s1", Team: "web", Subject: "build", Detail: "no longer needed"}
	err := a.Change(ann("operator:web"), access.Operate, cancel, func(context.Context) error {
		seen := eventsOf(t, openAudit(t, dir, c), access.EventFilter{})
		require.Len(t, seen, 1)
		require.Equal(t, access.Unknown, seen[0].Outcome)
		require.Zero(t, seen[0].EndedAt)
		c.Pass(5 * time.Second) // midnight passes
		return nil
	})
	require.NoError(t, err)
	broken := errors.New("it broke")
	require.ErrorIs(t, a.Change(ann("operator:web"), access.Operate, cancel, func(context.Context) error { return broken }), broken)
	require.Panics(t, func() {
		_ = a.Change(ann("operator:web"), access.Operate, cancel, func(context.Context) error { panic("the process ends") })
	})
	events := eventsOf(t, a, access.EventFilter{})
	require.Len(t, events, 3)
	require.Equal(t, []access.Outcome{access.Unknown, access.Failed, access.Done},
		[]access.Outcome{events[0].Outcome, events[1].Outcome, events[2].Outcome})
	require.Equal(t, "it broke", events[1].Error)
	done := events[2]
	require.Equal(t, c.Now().UTC(), done.EndedAt)
	require.Equal(t, access.Event{
		ID: done.ID, At: c.Now().UTC().Add(-5 * time.Second), Actor: "ann", Via: access.ViaOIDC, From: "192.0.2.7",
		Action: "session.cancel", Session: "s1", Team: "web", Subject: "build", Detail: "no longer needed",
		Outcome: access.Done, EndedAt: done.EndedAt,
	}, done)
}

func TestAChangeThatCannotBeRecordedIsRefused(t *testing.T) {
	t.Parallel()
	c := newClock()
	db := openState(t, t.TempDir(), c)
	require.NoError(t, db.Close())
	err := access.NewAudit(db, c.Now).Change(ann("admin"), access.Admin, access.Event{Action: "token.create"},
		func(context.Context) error {
			t.Error("the change was made")
			return nil
		})
	require.ErrorContains(t, err, "nothing was changed, because the audit log cannot be written")
}

func TestDenialsAreRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	c := newClock()
	a := openAudit(t, t.TempDir(), c)
	never := func(context.Context) error { t.Error("the change was made"); return nil }
	for range 50 {
		for _, action := range []string{"session.cancel", "session.start"} {
			err := a.Change(ann("viewer"), access.Operate, access.Event{Action: action, Team: "web"}, never)
			require.ErrorAs(t, err, new(*access.DeniedError))
		}
		require.ErrorIs(t, a.Change(context.Background(), access.View, access.Event{Action: "session.start"}, never),
			access.ErrNotSignedIn)
	}
	events := eventsOf(t, a, access.EventFilter{})
	require.Len(t, events, 3)
	require.Empty(t, events[0].Actor)
	require.Equal(t, access.Denied, events[2].Outcome)
	require.Contains(t, events[2].Error, "the role operator or admin for team web is missing")
	c.Pass(time.Minute)
	require.Error(t, a.Change(ann("viewer"), access.Operate, access.Event{Action: "session.cancel", Team: "web"}, never))
	require.Len(t, eventsOf(t, a, access.EventFilter{}), 4)
}

func TestHostileTextsAreBoundedAndShownAsEscapes(t *testing.T) {
	t.Parallel()
	a := openAudit(t, t.TempDir(), newClock())
	hostile := "\x1b[2J\n{\"event\":{}}\r\u202eevil\x00\xff"
	actor := access.Actor{Name: hostile, Via: access.Via("token"), From: hostile, Roles: roles(t, "admin")}
	err := a.Change(access.With(context.Background(), actor), access.Admin, access.Event{
		Action: hostile, Session: hostile, Team: hostile, Subject: hostile, Detail: strings.Repeat(hostile, 100_000),
	}, func(context.Context) error { return errors.New(strings.Repeat(hostile, 100_000)) })
	require.Error(t, err)
	e := eventsOf(t, a, access.EventFilter{})[0]
	for _, text := range []string{e.Actor, e.From, e.Action, e.Session, e.Team, e.Subject, e.Detail, e.Error} {
		require.Less(t, len(text), 50_000)
		require.Contains(t, text, `\x1b[2J\x0a`)
		require.NotContains(t, text, "\u202e")
	}
}

// TestPagesHaveEachEventOnce reads pages of any size while events are added, which are newer than what pages still have
// to show.
func TestPagesHaveEachEventOnce(t *testing.T) {
	t.Parallel()
	a := openAudit(t, t.TempDir(), newClock())
	for i := range 12 {
		require.NoError(t, a.Record(ann(), access.Event{Action: "session.start", Session: fmt.Sprint("s", i%2), Outcome: access.Done}))
	}
	for limit := 1; limit < 8; limit++ {
		f := access.EventFilter{Session: "s1", Limit: 1000}
		want, got := eventsOf(t, a, f), []access.Event{}
		for f.Limit = limit; ; {
			page, err := a.Events(context.Background(), f)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Events), limit)
			got = append(got, page.Events...)
			if f.Cursor = page.Cursor; f.Cursor == "" {
				break
			}
			require.NoError(t, a.Record(ann(), access.Event{Action: "session.start", Session: "s1"}))
		}
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"x", "-1", "0", "1.5", "99999999999999999999"} {
		_, err := a.Events(context.Background(), access.EventFilter{Cursor: bad})
		require.ErrorIs(t, err, access.ErrCursor, bad)
	}
}

func TestWithoutAStoreNothingIsRecorded(t *testing.T) {
	t.Parallel()
	var a *access.Audit
	made := false
	require.NoError(t, a.Change(ann("admin"), access.Operate, access.Event{},
		func(context.Context) error { made = true; return nil }))
	require.True(t, made)
	require.Error(t, a.Change(ann("viewer"), access.Operate, access.Event{}, nil))
	require.NoError(t, a.Record(ann(), access.Event{}))
	require.Empty(t, eventsOf(t, a, access.EventFilter{}))
}
