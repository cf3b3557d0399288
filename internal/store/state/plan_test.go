package state

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// filled is a database with many sessions, and so many calls of each.
func filled(tb testing.TB, sessions, calls int) *DB {
	tb.Helper()
	day := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	db, err := OpenSQLite(tb.Context(), tb.TempDir(), Options{Now: func() time.Time { return day }})
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = db.Close() })
	columns := (&Call{}).columns().names()
	require.NoError(tb, db.Write(tb.Context(), func(t *Tx) error {
		for _, statement := range []string{
			fmt.Sprintf(`insert into sessions (namespace, session, team, requirement, search, workspace, decisions, status, reason, revision, mirrored, run, boundary_at,
					temporal_run, first_run, forked_from, forked_at, report_to, started_by, started_by_id, via, started_at, ended_at, updated_at)
				with recursive n(i) as (select 1 union all select i + 1 from n where i < %d)
				select 'default', 's' || i, 't' || (i %% 10), 'make it', 's' || i || ' make it', '', '{}', 'completed', '', 1, 1, 1, 0,
					'', '', '', '', '', '', '', '', %d + i * 1000000, %d + i * 1000000, 0 from n`, sessions, day.UnixMicro()-int64(sessions)*1e6, day.UnixMicro()),
			fmt.Sprintf(`insert into calls (%s)
				with recursive n(i) as (select 0 union all select i + 1 from n where i < %d)
				select 'c' || i, 'default', 's' || (i / %d + 1), 'build', 'dev', 1, 1, 1, i %% %[3]d, 1, 't' || ((i / %[3]d + 1) %% 10), date(1764158400 - i %% 30 * 86400, 'unixepoch'), 'coder',
					'anthropic', 'm' || (i %% 3), 'answered', 'r' || i, 'a', '', 0, 0, 10, 10, 0, 0, 0, 0, 0, 1000, 20, '', 0, 0, '', '', %d, %d, null, '' from n`,
				columns, sessions*calls-1, calls, day.UnixMicro(), day.UnixMicro()),
			`insert into changes (name, number) select namespace || '/' || session, row_number() over (order by session) from sessions`,
		} {
			if _, err := t.exec(statement); err != nil {
				return err
			}
		}
		return nil
	}))
	return db
}

// reads are the queries of pages and of executors.
func reads(ctx context.Context, db *DB) map[string]func() error {
	key := session.Key{Namespace: "default", Session: "s7"}
	dev := Assignment{Key: key, AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}}
	return map[string]func() error{
		"newest": func() error { _, err := db.Sessions(ctx, Filter{Namespace: "default", Limit: 50}); return err },
		"team": func() error {
			_, err := db.Sessions(ctx, Filter{Namespace: "default", Teams: []string{"t1"}, Limit: 50})
			return err
		},
		"inbox": func() error {
			_, err := db.Sessions(ctx, Filter{Namespace: "default", Status: []session.State{
				session.HelpIsNeeded,
				session.AwaitingApproval,
			}})
			return err
		},
		"usage by day": func() error {
			_, err := db.Usage(ctx, []string{"team", "day"}, "", Filter{Namespace: "default"})
			return err
		},
		"account": func() error { _, err := db.Account(ctx, key); return err },
		"budgets": func() error { _, err := db.Budgets(ctx, dev, "t1"); return err },
		"calls":   func() error { _, err := db.Calls(ctx, dev); return ignoreDamage(err) },
		"open":    func() error { _, err := db.UnfinishedCalls(ctx, dev); return err },
		"status":  func() error { _, err := db.Execution(ctx, key); return ignoreMissing(err) },
		"record":  func() error { _, err := db.Record(ctx, dev); return err },
		"records": func() error { _, err := db.Records(ctx, key); return err },
		"fence":   func() error { _, err := db.IsFenced(ctx, key, "r"); return err },
		"day":     func() error { _, err := db.Day(ctx, "t1"); return ignoreMissing(err) },
		"audit": func() error {
			_, err := db.Audit(ctx, AuditFilter{Action: "session", Since: time.UnixMicro(1), Until: time.UnixMicro(2), Limit: 100})
			return err
		},
		"audit of a person":  func() error { _, err := db.Audit(ctx, AuditFilter{Actor: "ann", Limit: 100}); return err },
		"audit of a session": func() error { _, err := db.Audit(ctx, AuditFilter{Session: "s7", Limit: 100}); return err },
		"token":              func() error { _, err := db.UseToken(ctx, "x"); return ignoreMissing(err) },
		"browser":            func() error { _, err := db.UseBrowser(ctx, "x", time.Hour, time.Hour); return ignoreMissing(err) },
		"person":             func() error { _, err := db.PersonNamed(ctx, "x"); return ignoreMissing(err) },
		"browsers of one":    func() error { _, err := db.BrowsersOf(ctx, "x", time.Hour); return err },
		"passkeys of one":    func() error { _, err := db.PasskeysOf(ctx, "x"); return err },
		"invitation":         func() error { _, _, err := db.Invitation(ctx, "x"); return ignoreMissing(err) },
		"upload":             func() error { _, err := db.Upload(ctx, "t1", "x", time.Hour); return ignoreMissing(err) },
		"checkpoints":        func() error { _, err := db.Checkpoints(ctx, key); return err },
		"to mirror":          func() error { _, err := db.ToMirror(ctx); return err },
		"roots":              func() error { _, err := db.Roots(ctx, key); return err },
		"dump":               func() error { _, _, err := db.Dump(ctx, key, true); return err },
		"changes":            func() error { _, _, _, err := db.Changes(ctx, "default", Position{}); return err },
	}
}

func ignoreMissing(err error) error {
	if err != nil && strings.Contains(err.Error(), ErrNotFound.Error()) {
		return nil
	}
	return err
}

func ignoreDamage(err error) error {
	if err != nil && strings.Contains(err.Error(), ErrDamaged.Error()) { // the rows have no digests
		return nil
	}
	return err
}

// TestNoQueryScansATableThatGrows looks at the plan of every query.
func TestNoQueryScansATableThatGrows(t *testing.T) { //nolint:paralleltest // it sees all queries of the package
	db := filled(t, 100, 10)
	type query struct {
		text string
		args []any
	}
	var mu sync.Mutex
	var seen []query
	seeQuery = func(text string, args []any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, query{text, args})
	}
	for name, read := range reads(t.Context(), db) {
		require.NoError(t, read(), name)
	}
	seeQuery = func(string, []any) {}
	require.Greater(t, len(seen), 12)
	scan := regexp.MustCompile(`^SCAN (sessions|s|runs|r|phases|outcomes|assignments|rounds|attempts|conversations|checkpoints|calls|c|requests|answers|raises|alerts|changes|audit|tokens|browsers|people|invitations|passkeys|uploads)\b`)
	for _, q := range seen {
		rows, err := db.read.QueryContext(t.Context(), "explain query plan "+q.text, q.args...)
		require.NoError(t, err, q.text)
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			if scan.MatchString(detail) && !strings.Contains(detail, "USING") {
				t.Errorf("%s\n%s", detail, q.text)
			}
		}
		require.NoError(t, rows.Err())
	}
}
