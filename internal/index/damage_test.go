package index_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
)

// file is the file of the index.
func (w *stand) indexFile() string {
	files := slices.DeleteFunc(bounded.Below(filepath.Join(w.dir, "index"), 1), func(path string) bool { return filepath.Ext(path) != ".sqlite" })
	require.Len(w.t, files, 1)
	return files[0]
}

// Whatever happens to the file, who has it open and who opens it then have a whole index.
func TestADamagedIndexIsMadeAnew(t *testing.T) {
	t.Parallel()
	garbage := bytes.Repeat([]byte("no database "), 4096)
	for name, damage := range map[string]func(t *testing.T, path string){
		"garbage":        func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, garbage, 0o600)) },
		"garbage within": func(t *testing.T, path string) { overwrite(t, path, garbage, 4096) },
		"truncated":      func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 6000)) },
		"empty":          func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"removed":        func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"all removed":    func(t *testing.T, path string) { require.NoError(t, os.RemoveAll(filepath.Dir(path))) },
		"older schema":   func(t *testing.T, path string) { alter(t, path, "PRAGMA user_version = 0") },
		"lost table":     func(t *testing.T, path string) { alter(t, path, "DROP TABLE facts") },
		"another store":  func(t *testing.T, path string) { alter(t, path, "UPDATE state SET store = 'other'") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStand(t, filepath.Join(t.TempDir(), "state[1]")) // a path is no pattern
			for i := range 20 {
				w.add(i)
			}
			x := w.open()
			w.refresh(x)
			alter(t, w.indexFile(), "PRAGMA wal_checkpoint(TRUNCATE)")
			damage(t, w.indexFile())
			w.add(20)

			var log bytes.Buffer
			y, err := index.Open(t.Context(), w.store, index.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			defer y.Close()
			for _, open := range []*index.Index{y, x, y} {
				w.refresh(open)
				require.NoError(t, open.InMemory())
				w.agrees(open)
			}
			w.indexFile()
		})
	}
}

func overwrite(t *testing.T, path string, data []byte, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, at)
	require.NoError(t, errors.Join(err, f.Close()))
}

func alter(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, errors.Join(err, db.Close()))
}

func TestWithoutAFileTheIndexIsInMemory(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	for i := range 10 {
		w.add(i)
	}
	// A file in the place of the directory stops root, too.
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "index")))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "index"), nil, 0o600))
	x, err := index.Open(t.Context(), w.store, index.Options{})
	require.NoError(t, err)
	defer x.Close()
	require.Error(t, x.InMemory())
	w.refresh(x)
	w.agrees(x)
	w.change(key("s00003"))
	w.refresh(x)
	w.agrees(x)
}

// The caller that finds the file damaged goes while another process has the lock.
func TestACancelledRefreshLeavesAnIndex(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	w.add(1)
	x := w.open()
	w.refresh(x)
	alter(t, w.indexFile(), "PRAGMA wal_checkpoint(TRUNCATE)")
	require.NoError(t, os.WriteFile(w.indexFile(), bytes.Repeat([]byte("no database "), 4096), 0o600))
	unlock, err := index.LockFile(t.Context(), filepath.Join(w.dir, "index", "sessions.lock"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	time.AfterFunc(150*time.Millisecond, unlock)
	_, _ = x.Refresh(ctx, namespace) // the result depends on when it is cancelled
	w.refresh(x)
	w.agrees(x)
}

// An intact store verifies clean with an index in it, and pruning leaves both as they are.
func TestTheStoreKnowsNothingOfTheIndex(t *testing.T) {
	t.Parallel()
	w := newStand(t, filepath.Join(t.TempDir(), "store"))
	x := w.open()
	w.refresh(x)
	report, err := w.store.VerifyAll(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
	_, err = w.store.Prune(t.Context(), session.PruneOptions{Keep: 2})
	require.NoError(t, err)
	require.FileExists(t, w.indexFile())
}

// roleVariable makes the test binary refresh an index, again and again, instead of testing.
const roleVariable = "MAESTRO_INDEX_TEST_STORE"

// refreshed is what it prints after each refresh.
const refreshed = "refreshed"

func TestMain(m *testing.M) {
	if dir := os.Getenv(roleVariable); dir != "" {
		fmt.Println(refreshForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func refreshForever(dir string) error {
	ctx := context.Background()
	s, err := store.Open(dir, store.Options{Clock: time.Now})
	if err != nil {
		return err
	}
	for {
		x, err := index.Open(ctx, s, index.Options{})
		if err != nil {
			return err
		}
		if x.InMemory() != nil {
			return x.InMemory()
		}
		if _, err := x.Refresh(ctx, namespace); err != nil {
			return err
		}
		if err := x.Close(); err != nil {
			return err
		}
		fmt.Println(refreshed)
	}
}

// killRefreshing kills a process that refreshes the index of a store, after some refreshes.
func killRefreshing(t *testing.T, dir string, after int) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		t.Error("the other process cannot be started")
		return
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < after; n++ {
		if !lines.Scan() || lines.Text() != refreshed {
			t.Errorf("the other process cannot refresh: %s", lines.Text())
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Processes that refresh are killed at any moment, while others refresh and documents change.
func TestAKilledRefreshDoesNoHarm(t *testing.T) {
	t.Parallel()
	w := filledStand(t)
	x := w.open()
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for i := range 6 {
				killRefreshing(t, w.dir, 1+i%3)
			}
		})
	}
	done := make(chan struct{})
	go func() { others.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			w.change(key(fmt.Sprintf("s%05d", w.r.IntN(60))))
			w.refresh(x)
		}
	}
	w.refresh(x)
	w.agrees(x)
	w.settled(x)
	w.agrees(x)
}
