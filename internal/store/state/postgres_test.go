//go:build system

package state_test

import (
	"context"
	"database/sql"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
)

// TestPostgreSQL runs the suite on a server of its own, with a database for each test.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	statetest.Run(t, func(t *testing.T, _ *statetest.Clock) *state.DB {
		t.Helper()
		return openPostgres(t, server.NewDatabase())
	})
}

func openPostgres(t *testing.T, address string) *state.DB {
	t.Helper()
	db, err := state.OpenPostgres(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// TestALostCommitIsFoundAndNotRepeated cuts connections around COMMIT: what it changes is changed once, and the
// caller learns that it was.
func TestALostCommitIsFoundAndNotRepeated(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	u, err := url.Parse(server.NewDatabase())
	require.NoError(t, err)
	proxy := postgrestest.StartProxy(t, server.Address)
	db := openPostgres(t, server.URL(proxy.Address, u.Path[1:]))
	add := func(text string) (changed bool, err error) {
		changed, _, err = db.AddTeamVersion(t.Context(), state.TeamVersion{Team: "t", Digest: spec.DigestOf([]byte(text)), By: "ann"})
		return changed, err
	}
	for i, cut := range []postgrestest.Cut{postgrestest.AfterCommit, postgrestest.BeforeCommit, postgrestest.AfterCommit} {
		proxy.CutNext(cut)
		changed, err := add(strconv.Itoa(i))
		require.NoError(t, err)
		require.Equal(t, i+1, proxy.Cuts())
		require.True(t, changed, "it was done once")
	}
	proxy.SetDown(true)
	bounded, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = db.Name(bounded)
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.NoError(t, bounded.Err())
	proxy.SetDown(false)
	server.Kill()
	_, err = add("killed")
	require.ErrorIs(t, err, state.ErrUnavailable)
	server.Resume()
	changed, err := add("killed")
	require.NoError(t, err)
	require.True(t, changed)
}

// TestALostHostHoldsNoLocks loses the packets of a host in the middle of a transaction. The database ends the transaction, so
// other hosts go on.
func TestALostHostHoldsNoLocks(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	u, err := url.Parse(server.NewDatabase())
	require.NoError(t, err)
	proxy := postgrestest.StartProxy(t, server.Address)
	lost, other := openPostgres(t, server.URL(proxy.Address, u.Path[1:])), openPostgres(t, u.String())
	raw, err := sql.Open("pgx", u.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	for name, run := range map[string]func(context.Context, func(*state.Tx) error) error{"read": lost.Read, "write": lost.Write} {
		reached, ended := make(chan struct{}), make(chan error, 1)
		var end func()
		go func() {
			ended <- run(t.Context(), func(tx *state.Tx) error {
				if _, err := tx.Now(); err != nil {
					return err
				}
				end = proxy.Silence()
				close(reached)
				return nil
			})
		}()
		<-reached
		require.Eventually(t, func() bool {
			var held int
			require.NoError(t, raw.QueryRowContext(t.Context(),
				"select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'").Scan(&held))
			return held == 0
		}, 30*time.Second, 100*time.Millisecond, name)
		_, err := other.UnusedObjects(t.Context(), []string{"locks the table"})
		require.NoError(t, err)
		end()
		require.ErrorIs(t, <-ended, state.ErrUnavailable, "callers try again")
	}
}

// BenchmarkCalls prints what the books of one call cost on each engine.
func BenchmarkCalls(b *testing.B) {
	server := postgrestest.Start(b)
	for name, open := range map[string]func() (*state.DB, error){
		"SQLite": func() (*state.DB, error) {
			return state.OpenSQLite(b.Context(), b.TempDir(), state.Options{Now: time.Now})
		},
		"PostgreSQL": func() (*state.DB, error) { return state.OpenPostgres(b.Context(), server.NewDatabase()) },
	} {
		b.Run(name, func(b *testing.B) {
			db, err := open()
			require.NoError(b, err)
			defer db.Close()
			statetest.BenchmarkCalls(b, db)
		})
	}
}
