package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/backup"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// now is what the tests' clock shows.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

func options() store.Options { return store.Options{Clock: clock} }

// roles are what other processes do with the store in their first argument.
var roles = map[string]func(dir string, args []string) error{
	"register": func(dir string, _ []string) error {
		s, err := store.Open(dir, options())
		for i := 0; err == nil; i++ {
			var digest spec.Digest
			if digest, err = s.Content.PutBlob(context.Background(), fmt.Append(nil, "team ", i)); err == nil {
				_, _, err = s.State.AddTeamVersion(context.Background(), state.TeamVersion{
					Team: fmt.Sprint("t", i), Digest: digest,
					Text: digest,
				})
			}
			if i == 0 {
				fmt.Println("ready")
			}
		}
		return err
	},
	"hold": func(dir string, _ []string) error {
		_, err := store.Open(dir, options())
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends it
		return err
	},
	"backup": func(dir string, args []string) error {
		s, err := store.Open(dir, options())
		if err == nil {
			_, err = backup.Run(context.Background(), s, args[0], backup.Options{Clock: clock})
		}
		return err
	},
	"restore": func(from string, args []string) error {
		_, err := backup.Restore(context.Background(), from, args[0], backup.RestoreOptions{Clock: clock})
		if errors.Is(err, backup.ErrHealthy) { // it was killed after its end
			return nil
		}
		return err
	},
}

func TestMain(m *testing.M) { castest.Main(m, roles) }

// backedUp is a closed store, and the directory with its backup.
func backedUp(t *testing.T) (s *store.Store, to string) {
	t.Helper()
	s, to = filled(t), filepath.Join(t.TempDir(), "backup")
	_, err := run(t, s, to, backup.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return s, to
}

func empty(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), options())
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run backs a store up.
func run(t *testing.T, s *store.Store, to string, o backup.Options) (backup.Report, error) {
	t.Helper()
	if o.Clock == nil {
		o.Clock = clock
	}
	return backup.Run(t.Context(), s, to, o)
}

// filled is a store with a session, a team and some blobs.
func filled(t *testing.T) *store.Store {
	t.Helper()
	s := empty(t)
	key := session.Key{Namespace: "default", Session: "s"}
	statetest.Put(t, s.State, key, func(e *session.Execution) { e.Team = "web" })
	require.NoError(t, s.Mirror(t.Context(), key))
	digest, err := s.Content.PutBlob(t.Context(), []byte("team web"))
	require.NoError(t, err)
	_, _, err = s.State.AddTeamVersion(t.Context(), state.TeamVersion{Team: "web", Digest: digest, Text: digest})
	require.NoError(t, err)
	return s
}

func restore(t *testing.T, from, to string) (backup.Restored, error) {
	t.Helper()
	return backup.Restore(t.Context(), from, to, backup.RestoreOptions{Clock: clock})
}

// teamsIn are the registered teams of a store.
func teamsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	s, err := store.Open(dir, options())
	require.NoError(t, err)
	defer s.Close()
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	all, err := s.State.TeamVersions(t.Context(), "")
	require.NoError(t, err)
	for _, v := range all {
		names = append(names, v.Team)
	}
	return names
}

// TestABackupWhileOthersWriteIsWhole backs a store up again and again while another process registers teams: whatever copy of
// the database is restored, the content that it names is there.
func TestABackupWhileOthersWriteIsWhole(t *testing.T) {
	t.Parallel()
	s := filled(t)
	writer := castest.Process(t, "register", s.Dir())
	out, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	at := now
	to := filepath.Join(t.TempDir(), "backup")
	for range 4 {
		at = at.Add(time.Second)
		o := backup.Options{Clock: func() time.Time { return at }}
		_, err = run(t, s, to, o)
		require.NoError(t, err)
		archive := filepath.Join(t.TempDir(), "all.tar.zst")
		_, err = run(t, s, archive, o)
		require.NoError(t, err)
		_, err = restore(t, archive, filepath.Join(t.TempDir(), "restored"))
		require.NoError(t, err)
	}
	require.NoError(t, writer.Process.Kill())
	_ = writer.Wait()
	copies, err := filepath.Glob(filepath.Join(to, "state-*.db"))
	require.NoError(t, err)
	require.Len(t, copies, 4)
	last := 0
	for _, from := range copies {
		dir := filepath.Join(t.TempDir(), "state")
		report, err := restore(t, from, dir)
		require.NoError(t, err)
		require.Empty(t, report.Faults)
		require.Equal(t, filepath.Base(from), report.Database)
		n := len(teamsIn(t, dir))
		require.GreaterOrEqual(t, n, max(last, 1))
		last = n
	}
}

// TestADamagedDatabaseIsRestored overwrites random pages.
func TestADamagedDatabaseIsRestored(t *testing.T) {
	t.Parallel()
	s, to := backedUp(t)
	_, err := restore(t, to, s.Dir())
	require.ErrorIs(t, err, backup.ErrHealthy)

	file := filepath.Join(s.Dir(), state.FileName)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for range 20 {
		at := 4096 * (1 + rand.IntN(len(data)/4096-1))
		copy(data[at:], bytes.Repeat([]byte{0xa5}, 4096))
	}
	require.NoError(t, os.WriteFile(file, data, 0o600))
	damaged, err := store.Open(s.Dir(), options())
	if err == nil {
		_, err = run(t, damaged, filepath.Join(t.TempDir(), "b"), backup.Options{})
		require.NoError(t, damaged.Close())
	}
	require.ErrorIs(t, err, state.ErrDamaged)
	require.ErrorContains(t, err, "maestro restore")

	report, err := restore(t, to, s.Dir())
	require.NoError(t, err)
	require.Contains(t, report.MovedAside, "damaged")
	aside, err := os.ReadFile(filepath.Join(s.Dir(), report.MovedAside))
	require.NoError(t, err)
	require.Len(t, aside, len(data))
	require.Equal(t, []string{"web"}, teamsIn(t, s.Dir()))
	elsewhere := filepath.Join(t.TempDir(), "state")
	report, err = restore(t, to, elsewhere)
	require.NoError(t, err)
	require.Empty(t, report.Faults, "the mirror is no part of a backup")
	require.Equal(t, []session.Key{{Namespace: "default", Session: "s"}}, report.Open)
	require.FileExists(t, filepath.Join(elsewhere, "sessions/default/s/execution_state.json"))
	other := empty(t)
	require.NoError(t, other.Close())
	_, err = restore(t, to, other.Dir())
	require.ErrorContains(t, err, "it is a backup of store")
}

func TestADamagedBlobIsNamed(t *testing.T) {
	t.Parallel()
	s := filled(t)
	digest, err := s.Content.PutBlob(t.Context(), []byte("content"))
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "backup")
	damage := func(dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, storage.BlobKey(digest)), []byte("Content"), 0o600))
	}
	damage(s.Dir())
	_, err = run(t, s, to, backup.Options{})
	require.ErrorContains(t, err, storage.BlobKey(digest))
	_, err = restore(t, to, filepath.Join(t.TempDir(), "state"))
	require.ErrorContains(t, err, "no complete backup")

	_, err = s.Content.PutBlob(t.Context(), []byte("content"))
	require.NoError(t, err)
	_, err = run(t, s, to, backup.Options{})
	require.NoError(t, err)
	damage(to)
	dir := filepath.Join(t.TempDir(), "state")
	report, err := restore(t, to, dir)
	require.NoError(t, err)
	require.Len(t, report.Faults, 1)
	require.Equal(t, storage.BlobKey(digest), report.Faults[0].Path)
	require.Equal(t, []string{"web"}, teamsIn(t, dir), "the rest is there")
}

func TestOldBackupsGo(t *testing.T) {
	t.Parallel()
	model := filled(t)
	gone, err := model.Content.PutBlob(t.Context(), []byte("pruned later"))
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "backup")
	start := time.Now()
	for i := range 4 {
		o := backup.Options{Clock: func() time.Time { return start.Add(time.Duration(i) * time.Hour) }, Keep: 2, Every: time.Hour}
		_, err = run(t, model, to, o)
		require.NoError(t, err)
		again, err := run(t, model, to, o)
		require.NoError(t, err)
		require.Empty(t, again.Database, "it is not due")
		require.NoError(t, storage.IgnoreMissing(os.Remove(filepath.Join(model.Dir(), storage.BlobKey(gone)))))
	}
	copies, err := filepath.Glob(filepath.Join(to, "state-*.db"))
	require.NoError(t, err)
	require.Len(t, copies, 2)
	require.NoFileExists(t, filepath.Join(to, storage.BlobKey(gone)))
	for _, from := range copies {
		dir := filepath.Join(t.TempDir(), "state")
		_, err := restore(t, from, dir)
		require.NoError(t, err)
		require.Equal(t, []string{"web"}, teamsIn(t, dir))
	}
	mine := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(mine, "thesis.txt"), nil, 0o600))
	_, err = run(t, model, mine, backup.Options{})
	require.ErrorContains(t, err, "thesis.txt")
	_, err = restore(t, to, mine)
	require.ErrorContains(t, err, "neither empty nor a state directory")
	_, err = run(t, model, filepath.Join(model.Dir(), "b"), backup.Options{})
	require.ErrorContains(t, err, "in the store itself")
}

// TestAKilledBackupAndRestoreAreRepeated kills processes that back up and restore at any moment.
func TestAKilledBackupAndRestoreAreRepeated(t *testing.T) {
	t.Parallel()
	s := filled(t)
	for i := range 300 {
		_, err := s.Content.PutBlob(t.Context(), bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 5000))
		require.NoError(t, err)
	}
	to, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "state")
	require.NoError(t, s.Close())
	for _, p := range [][]string{{"backup", s.Dir(), to}, {"restore", to, dir}} {
		for kill := time.Duration(0); ; kill += 3 * time.Millisecond {
			cmd := castest.Process(t, p[0], p[1:]...)
			require.NoError(t, cmd.Start())
			timer := time.AfterFunc(kill, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
			err := cmd.Wait()
			timer.Stop()
			if err == nil {
				break
			}
			require.Less(t, kill, time.Minute)
		}
	}
	require.Equal(t, []string{"web"}, teamsIn(t, dir))
	left, err := filepath.Glob(filepath.Join(dir, "*incomplete*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestADirectoryInUseIsNotRestored: another process has the damaged database open.
func TestADirectoryInUseIsNotRestored(t *testing.T) {
	t.Parallel()
	s, to := backedUp(t)
	user := castest.Process(t, "hold", s.Dir())
	stdin, err := user.StdinPipe()
	require.NoError(t, err)
	out, err := user.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, user.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	_, err = restore(t, to, s.Dir())
	var used *backup.InUseError
	require.ErrorAs(t, err, &used)
	require.Equal(t, user.Process.Pid, used.PID)
	require.NoError(t, stdin.Close())
	require.NoError(t, user.Wait())
	_, err = restore(t, to, s.Dir())
	require.ErrorIs(t, err, backup.ErrHealthy)
}
