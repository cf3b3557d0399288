package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestTheAuditLogIsListed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	got := d.run("audit")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "is not a store")

	s, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	got = d.run("audit")
	require.Equal(t, 0, got.code)
	require.Contains(t, got.stderr.String(), "no events")

	log := access.NewAudit(s.State, time.Now)
	ctx := access.With(context.Background(), access.Local("ann@desk"))
	for _, id := range []string{"s1", "s2"} {
		err := log.Change(ctx, access.Operate, access.Event{
			Action: "session.cancel", Session: id, Team: "web",
			Detail: "=HYPERLINK(\"http://evil.example\")\x1b[2J",
		},
			func(context.Context) error { return nil })
		require.NoError(t, err)
	}
	got = d.run("audit", "--session", "s1", "--since", "1h", "--actor", "ann@desk")
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Regexp(t, `(?m)^WHEN +WHO +VIA +FROM +ACTION +ON +OUTCOME +DETAIL\n\S+ \S+ +ann@desk +cli +- +session.cancel +s1 +done +=HYPERLINK`, got.stdout.String())
	require.NotContains(t, got.stdout.String(), "\x1b")

	var page access.EventPage
	d.json(&page, "audit", "--limit", "1", "--action", "session")
	require.Len(t, page.Events, 1)
	require.Equal(t, "s2", page.Events[0].Session)
	d.json(&page, "audit", "--cursor", page.Cursor)
	require.Len(t, page.Events, 1)
	require.Equal(t, "s1", page.Events[0].Session)

	for _, bad := range []string{"--limit 0", "--limit 1001", "--cursor x", "--since yesterday"} {
		got := d.run(append([]string{"audit"}, strings.Fields(bad)...)...)
		require.Equal(t, 2, got.code, "%s: %s", bad, got.stderr.String())
	}
}
