package activities_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// disk is a store on a disk whose figures a test sets.
type disk struct {
	activities.Files
	activities.WorkDirs
	mu      sync.Mutex
	figures session.Disk
	written session.Written
	// full is how often a collection finds no room.
	full    int
	cleared []string
	// unused is how many layers nothing uses. When one is removed, frees bytes are free; zero: as
	// many as before.
	unused int
	frees  int64
	// measured gets something when somebody has asked what is written, if anybody listens.
	measured chan struct{}
	// takes is called while it is measured; nil: that takes no time.
	takes func()
}

func onDisk(d *desk) *disk {
	k := &disk{Files: d.store.Content, WorkDirs: d.workDirs, figures: session.Disk{
		Free: 1000, Low: 100, FreeFiles: 1000,
		LowFiles: 100, MaxWritten: 5000, MaxWrittenFiles: 50,
	}, measured: make(chan struct{})}
	d.files, d.workDirs = k, k
	return k
}

// becomes sets the figures.
func (k *disk) becomes(free int64, written session.Written) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.figures.Free, k.written = free, written
}

func (k *disk) Disk() (session.Disk, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.figures, nil
}

func (k *disk) Written(context.Context, session.WorkDir, time.Time) (session.Written, error) {
	if k.takes != nil {
		k.takes()
	}
	select {
	case k.measured <- struct{}{}:
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.written, nil
}

func (k *disk) FreeDisk(context.Context) bool {
	if k.unused == 0 {
		return false
	}
	k.unused--
	k.cleared = append(k.cleared, "layers")
	k.mu.Lock()
	k.figures.Freed++
	k.mu.Unlock()
	if k.frees > 0 {
		k.becomes(k.frees, k.written)
	}
	return true
}

func (k *disk) ClearTmp(dir session.WorkDir) error {
	k.cleared = append(k.cleared, "tmp")
	return k.WorkDirs.ClearTmp(dir)
}

func (k *disk) Clear(dir session.WorkDir) error {
	k.becomes(1000, session.Written{})
	k.cleared = append(k.cleared, "work")
	return k.WorkDirs.Clear(dir)
}

func (k *disk) Collect(ctx context.Context, req session.Collect) (session.Collected, error) {
	if k.full > 0 {
		k.full--
		return session.Collected{}, fmt.Errorf("keep a file: %w", syscall.ENOSPC)
	}
	return k.Files.Collect(ctx, req)
}

// TestAnAgentThatFillsTheDiskIsStopped: while it works, by what it has written itself.
func TestAnAgentThatFillsTheDiskIsStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free    int64
		written session.Written
		says    string
	}{
		"bytes": {20, session.Written{Bytes: 2048}, "the agent filled the disk: its tree, HOME and TMPDIR use 2.0 KiB, and 20 " +
			"B are free"},
		"hidden": {20, session.Written{Bytes: 1, Hidden: true}, "filled the disk"},
		"limit":  {1000 - 5001, session.Written{Bytes: 5001}, "at most 4.9 KiB are allowed"},
		// Others have removed more than this one has written, so that the disk does not show it.
		"limit, though more is free": {9000, session.Written{Bytes: 5001}, "at most 4.9 KiB are allowed"},
		"files, though none are missed": {
			1000,
			session.Written{Files: 51},
			"limits.disk_files: its tree, HOME and TMPDIR have 51 files; at most 50 are allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			k := onDisk(d)
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				require.NoError(t, os.WriteFile(filepath.Join(job.Tree, "fill"), nil, 0o600))
				k.becomes(c.free, c.written)
				<-ctx.Done()
				return session.Outcome{}, context.Cause(ctx)
			}
			_, err := d.round()
			requireType(t, err, session.RecoverableError)
			attempts := d.record().Rounds[0].Attempts
			require.Len(t, attempts, 1)
			require.Equal(t, failures.InvalidOutput, attempts[0].Failure.Category)
			require.Contains(t, attempts[0].Failure.Message, c.says)
			require.Empty(t, attempts[0].Files)
			require.Contains(t, k.cleared, "work")
		})
	}
}

// TestALargeDirectoryIsMeasuredWhenTheDiskFills: what took long to measure is measured seldom, but
// the disk is looked at meanwhile.
func TestALargeDirectoryIsMeasuredWhenTheDiskFills(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	k := onDisk(d)
	k.takes = func() { d.ahead.Add(int64(time.Minute)) }
	stopped := false
	d.agents.run = func(ctx context.Context, _ session.Job) (session.Outcome, error) {
		d.ahead.Add(int64(time.Minute)) // it is measured now
		<-k.measured
		k.becomes(20, session.Written{Bytes: 2048})
		d.ahead.Add(int64(5 * time.Minute))
		select {
		case <-ctx.Done():
			stopped = true
			return session.Outcome{}, context.Cause(ctx)
		case <-time.After(time.Minute):
			return session.Outcome{}, errors.New("it was not stopped")
		}
	}
	_, err := d.round()
	require.True(t, stopped)
	requireType(t, err, session.RecoverableError)
	require.Contains(t, d.record().Rounds[0].Attempts[0].Failure.Message, "the agent filled the disk")
}

// TestAnAgentThatHasWrittenLittleIsNotStopped: a disk that others have filled is no reason to.
func TestAnAgentThatHasWrittenLittleIsNotStopped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	k := onDisk(d)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		k.becomes(20, session.Written{Bytes: 99})
		for range 2 {
			select {
			case <-ctx.Done():
				return session.Outcome{}, context.Cause(ctx)
			case <-k.measured:
			}
		}
		return leave("a.txt", "x")(ctx, job)
	}
	k.full, k.unused = 3, 1000 // each try leaves an unused layer
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, 1, result.Attempts)
	require.Contains(t, strings.Join(k.cleared, " "), "layers tmp")
	require.NotContains(t, k.cleared, "work")
}

// TestAFailureOnADiskThatOthersFilledIsTheHosts: it uses up no attempt, and the work continues when
// there is space again.
func TestAFailureOnADiskThatOthersFilledIsTheHosts(t *testing.T) {
	t.Parallel()
	full := failures.Failf(failures.Unknown, "exit status 1: no space left on device")
	for name, fails := range map[string]func(ctx context.Context, k *disk) error{
		"the agent":             func(context.Context, *disk) error { return full },
		"its output is missing": func(context.Context, *disk) error { return nil },
		"space was freed meanwhile": func(ctx context.Context, k *disk) error {
			require.True(t, k.FreeDisk(ctx))
			return full
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.patient(time.Hour, spec.OutageWait)
			k := onDisk(d)
			k.unused, k.frees = 1, 1000
			runs := 0
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				if runs++; runs == 1 {
					k.becomes(5, session.Written{Bytes: 99})
					return session.Outcome{}, fails(ctx, k)
				}
				return leave("a.txt", "x")(ctx, job)
			}
			result, err := d.round()
			require.NoError(t, err)
			require.Equal(t, 2, runs)
			require.Equal(t, 1, result.Attempts)
			require.Equal(t, []string{"layers"}, k.cleared, "the second attempt has waited for space")
		})
	}
}

// TestATreeThatTheDiskHasNoRoomFor is its agent's failure if the tree takes up more than is
// left, and waited for if it is others who take up the room.
func TestATreeThatTheDiskHasNoRoomFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	k := onDisk(d)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		k.becomes(500, session.Written{Bytes: 600})
		return leave("a.txt", "x")(ctx, job)
	}
	k.full = 1000
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.Contains(t, d.record().Rounds[0].Attempts[0].Failure.Message, "the agent filled the disk")
	require.Equal(t, []string{"tmp", "work"}, k.cleared)
	require.Equal(t, 998, k.full)
}

// TestAFailedAgentThatHasFilledTheDiskIsToldSo: what it failed of itself is in the message.
func TestAFailedAgentThatHasFilledTheDiskIsToldSo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	k := onDisk(d)
	d.agents.run = func(context.Context, session.Job) (session.Outcome, error) {
		k.becomes(0, session.Written{Bytes: 600})
		return session.Outcome{}, failures.Failf(failures.Unknown, "exit status 1: no space left on device")
	}
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	f := d.record().Rounds[0].Attempts[0].Failure
	require.Equal(t, failures.InvalidOutput, f.Category)
	require.Contains(t, f.Message, "filled the disk")
	require.Contains(t, f.Message, "it ended with: exit status 1: no space left on device")
}

// TestADirectoryThatFillsTheDiskIsClearedBeforeAndAfterARound: whatever was left there by an
// execution that was lost, and whatever a round has come to.
func TestADirectoryThatFillsTheDiskIsClearedBeforeAndAfterARound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	k := onDisk(d)
	dir, err := d.workDirs.Make(d.key(), spec.AssignmentID{Phase: "build", Persona: "dev"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Home, "fill"), nil, 0o600))
	k.becomes(20, session.Written{Bytes: 600})
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.NoFileExists(t, filepath.Join(job.Home, "fill"))
		outcome, err := leave("a.txt", "x")(ctx, job)
		k.becomes(20, session.Written{Bytes: 600})
		return outcome, err
	}
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, []string{"work", "work"}, k.cleared)
	require.NoFileExists(t, filepath.Join(dir.Tree, "a.txt"))
}
