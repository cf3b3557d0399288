package state_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

func TestMain(m *testing.M) {
	castest.Main(m, map[string]func(string,
		[]string) error{"spend": func(dir string, _ []string) error { return spend(dir, strconv.Itoa(os.Getpid())) }})
}

func open(t *testing.T, dir string) *state.DB {
	t.Helper()
	db, err := state.OpenSQLite(t.Context(), dir, state.Options{Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const limit = 500

var spender = state.Assignment{
	Key:          session.Key{Namespace: "default", Session: "s"},
	AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"},
}

// admit admits a session whose budget is the limit.
func admit(t *testing.T, db *state.DB) {
	t.Helper()
	_, err := db.Admit(t.Context(), state.Admission{
		Key: spender.Key, TemporalRun: "r", Team: "web",
		Caps: []budget.Budget{{Kind: session.BudgetOfSession, Base: spec.Cap{Tokens: limit}}},
	})
	require.NoError(t, err)
}

func newCall(id string, n int64) state.NewCall {
	return state.NewCall{
		ID: id, CallKey: state.CallKey{AttemptKey: state.AttemptKey{Assignment: spender, Pass: 1, Round: 1, Attempt: 1}, Call: n},
		Fence: state.Fence{Run: 1}, Team: "web", Agent: "a", Model: "m",
		Want: cost.Amount{Tokens: 10}, Least: cost.Amount{Tokens: 10}, Estimated: cost.Amount{Tokens: 5},
	}
}

// spend makes calls until the budget refuses one.
func spend(dir, name string) error {
	ctx := context.Background()
	db, err := state.OpenSQLite(ctx, dir, state.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer db.Close()
	for i := int64(0); ; i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		n := newCall(id, i)
		n.Phase = name // the number of a call is that of its assignment
		v, err := db.Begin(ctx, n)
		switch {
		case err != nil:
			return err
		case v.Wait:
			continue
		case v.Refused != nil:
			return nil
		}
		if err := db.End(ctx, id, state.CallEnd{State: state.CallAnswered, Usage: cost.Usage{OutputTokens: 10}}); err != nil {
			return err
		}
	}
}

// TestProcessesShareAFile has several processes spend one budget, and kills one of them.
func TestProcessesShareAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, dir)
	admit(t, db)
	var others []*exec.Cmd
	for range 4 {
		cmd := castest.Process(t, "spend", dir)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		others = append(others, cmd)
	}
	require.Eventually(t, func() bool { return spentOf(t, db).Spent.Tokens > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, others[0].Process.Kill())
	_ = others[0].Wait()
	begun, err := db.UnfinishedCalls(t.Context(), state.Assignment{
		Key:          spender.Key,
		AssignmentID: spec.AssignmentID{Phase: strconv.Itoa(others[0].Process.Pid), Persona: spender.Persona},
	})
	require.NoError(t, err)
	// what it was at is unsettled
	for _, c := range slices.DeleteFunc(begun, func(c state.Call) bool { return c.State != state.CallBegun }) {
		require.NoError(t, db.End(t.Context(), c.ID, state.CallEnd{State: state.CallUnsettled}))
	}
	for _, cmd := range others[1:] {
		require.NoError(t, cmd.Wait())
	}
	spent := spentOf(t, db)
	require.Zero(t, spent.Reserved)
	require.LessOrEqual(t, spent.Held().Tokens, int64(limit))
	require.Greater(t, spent.Held().Tokens, int64(limit-10))
}

func spentOf(t *testing.T, db *state.DB) budget.Budget {
	t.Helper()
	budgets, err := db.Budgets(t.Context(), spender, "web")
	require.NoError(t, err)
	require.Len(t, budgets, 1)
	return budgets[0]
}

// TestAFullDisk fills the disk: a transaction frees the reserve and succeeds, and without one it changes nothing.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("maestro-test", dir, "tmpfs", 0, "mode=0700,size=4m"); err != nil {
		t.Skipf("a file system cannot be mounted here: %s", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	reserve, filler := filepath.Join(dir, "reserve"), filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(reserve, make([]byte, 512<<10), 0o600))
	freed := 0
	db, err := state.OpenSQLite(t.Context(), dir, state.Options{Now: time.Now, FreeReserve: func() bool {
		freed++
		return os.Remove(reserve) == nil
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	admit(t, db)
	f, err := os.Create(filler)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())

	begun := int64(0)
	for ; err == nil || freed == 0; begun++ { // until the reserve is used up, too
		var v budget.Verdict
		n := newCall(strconv.FormatInt(begun, 10), begun)
		n.Want, n.Least, n.Free = cost.Amount{}, cost.Amount{}, true
		n.Request = string(make([]byte, 4096))
		v, err = db.Begin(t.Context(), n)
		require.Nil(t, v.Refused)
	}
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.Equal(t, 2, freed, "the second time there was none")
	require.NoError(t, os.Remove(filler))
	ids, err := db.UnfinishedCalls(t.Context(), spender)
	require.NoError(t, err)
	require.Len(t, ids, int(begun-1))
	require.NoError(t, db.End(t.Context(), ids[0].ID, state.CallEnd{State: state.CallFailed}))
}

// TestADatabaseOfADevelopmentVersion is refused with what to do: its tables may be others.
func TestADatabaseOfADevelopmentVersion(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"other tables":            `update migrations set digest = '` + strings.Repeat("0", 64) + `'`,
		"older than the digest":   `alter table migrations drop column digest`,
		"the digest is no digest": `update migrations set digest = ''`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			db := open(t, dir)
			require.NoError(t, db.Close())
			file, err := sql.Open("sqlite", filepath.Join(dir, state.FileName))
			require.NoError(t, err)
			_, err = file.ExecContext(t.Context(), change)
			require.NoError(t, errors.Join(err, file.Close()))
			_, err = state.OpenSQLite(t.Context(), dir, state.Options{Now: time.Now})
			if name == "the digest is no digest" {
				require.ErrorIs(t, err, state.ErrDamaged)
				return
			}
			require.ErrorIs(t, err, state.ErrDevelopmentSchema)
			require.ErrorContains(t, err, "move the state directory away, or restore a backup")
		})
	}
}

// TestWhereAFileMayLie refuses a file system on which SQLite is not safe, and keeps the file from others.
func TestWhereAFileMayLie(t *testing.T) {
	t.Parallel()
	_, err := state.OpenSQLite(t.Context(), "/proc", state.Options{Now: time.Now})
	require.ErrorContains(t, err, "use a state directory on ext4")
	dir := t.TempDir()
	open(t, dir)
	info, err := os.Stat(filepath.Join(dir, state.FileName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestADayHasABudget lets the day end while a call is in progress: it counts for the day on which it began.
func TestADayHasABudget(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 23, 59, 0, 0, time.UTC)
	db, err := state.OpenSQLite(t.Context(), t.TempDir(), state.Options{Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Admit(t.Context(), state.Admission{
		Key: spender.Key, TemporalRun: "r", Team: "web",
		Caps: []budget.Budget{{Kind: session.BudgetOfDay, Name: "web", Base: spec.Cap{Tokens: 10}}},
	})
	require.NoError(t, err)
	v, err := db.Begin(t.Context(), newCall("one", 1))
	require.NoError(t, err)
	require.Nil(t, v.Refused)
	v, err = db.Begin(t.Context(), newCall("two", 2))
	require.NoError(t, err)
	require.True(t, v.Wait)
	now = now.Add(2 * time.Minute)
	require.NoError(t, db.End(t.Context(), "one", state.CallEnd{State: state.CallAnswered, Usage: cost.Usage{OutputTokens: 10}}))
	v, err = db.Begin(t.Context(), newCall("two", 2))
	require.NoError(t, err)
	require.Equal(t, cost.Amount{Tokens: 10}, v.Granted)
}

// TestOpenSessionsOfARestoredBackupAreDue restores a database with two open sessions, and one that has ended.
func TestOpenSessionsOfARestoredBackupAreDue(t *testing.T) {
	t.Parallel()
	clock := &statetest.Clock{}
	clock.Pass(time.Hour)
	dir := t.TempDir()
	reopen := func() *state.DB {
		db, err := state.OpenSQLite(t.Context(), dir, state.Options{Now: clock.Now})
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	of := func(id string) session.Key { return session.Key{Namespace: "default", Session: id} }
	db := reopen()
	for id, s := range map[string]session.State{"a": session.Running, "b": session.HelpIsNeeded, "done": session.Completed} {
		statetest.Put(t, db, of(id), func(e *session.Execution) { e.Team, e.Status.Status = "web", s })
	}
	claim := func(db *state.DB, want string, wantPending bool) {
		t.Helper()
		got, pending, err := db.ClaimRestart(t.Context(), "default", time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, wantPending, pending)
	}
	claim(db, "", false)
	require.NoError(t, db.BeginGeneration(t.Context()))
	one, other := reopen(), reopen()
	claim(one, "a", true)
	claim(other, "b", true)
	claim(other, "", true)
	require.NoError(t, one.EndRestart(t.Context(), of("a")))
	clock.Pass(time.Minute)
	claim(one, "b", true) // the worker that had claimed it may have died
	require.NoError(t, one.EndRestart(t.Context(), of("b")))
	claim(one, "", false)
}
