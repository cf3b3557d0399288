package activities_test

import (
	"context"
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
	"github.com/maestro-hive/maestro/internal/core/secrets"
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

// suppliedBy is the round of a desk in which ada's files stand for the work.
func suppliedBy(d *desk, files map[string]string) activities.RoundInput {
	in := d.roundInput()
	in.Supplied, in.SuppliedBy = d.manifest(files), "ada"
	d.agents.run = func(context.Context, session.Job) (session.Outcome, error) {
		panic("no agent works where a person has supplied the work")
	}
	d.breakers = forbidden{}
	return in
}

// forbidden is a breaker that nobody may ask.
type forbidden struct{ activities.Breakers }

func TestSuppliedFilesStandForTheWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.input = d.manifest(map[string]string{"old.md": "old", "a.txt": "1"})
	d.agents.continuable = true
	in := suppliedBy(d, map[string]string{"a.txt": "2", "docs/b.md": "b"})
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, "supplied by ada: a.txt, docs/b.md", result.Summary)
	require.Nil(t, result.Basis, "it rests on nothing that can change")
	require.Equal(t, d.input, result.Input)
	require.Equal(t, 2, result.Files)
	require.Zero(t, result.Attempts)
	require.Zero(t, result.Total)
	require.Equal(t, d.manifest(map[string]string{"old.md": "old", "a.txt": "2", "docs/b.md": "b"}), result.Output)
	require.False(t, d.agents.continuable, "a conversation about other files is over")

	again, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, result, again, "it is in the record like any result")
	record := d.record()
	require.True(t, record.Rounds[0].Supplied)
	require.Equal(t, session.Supplied, record.Status().Status)
	require.Zero(t, record.Status().Attempts)
	require.Empty(t, d.calls())
}

func TestASuppliedTreeRemovesWhatItLacks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.input = d.manifest(map[string]string{"old.md": "old", "a.txt": "1"})
	in := suppliedBy(d, map[string]string{"a.txt": "2"})
	in.SuppliedWhole = true
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, in.Supplied, result.Output)
	require.Equal(t, 2, result.Files, "one is changed, and one removed")
}

func TestSuppliedFilesAreHeldToTheContract(t *testing.T) {
	t.Parallel()
	const secret = "swordfish-0123456789"
	for name, test := range map[string]struct {
		files    map[string]string
		change   func(d *desk, in *activities.RoundInput)
		category failures.Category
		message  string
	}{
		"something is missing": {
			map[string]string{"a.md": "x"}, nil, failures.ContractViolation, "*.txt was neither created nor changed",
		},
		"nothing differs": {
			map[string]string{"was.txt": "x"},
			func(d *desk, in *activities.RoundInput) { in.Input = in.Supplied },
			failures.ContractViolation, "none of the supplied files differs from the input of build/dev",
		},
		"a check fails": {
			map[string]string{"a.txt": "x"}, func(d *desk, _ *activities.RoundInput) {
				d.agents.check = func(session.CheckJob) error {
					return &failures.Failure{Category: failures.TestFailure, Message: "check good failed", Output: "line 3"}
				}
			}, failures.TestFailure, "check good failed",
		},
		"a secret": {
			map[string]string{"a.txt": "key = " + secret},
			func(d *desk, _ *activities.RoundInput) {
				d.agents.secrets = secrets.New([]secrets.Secret{{Name: "KEY", Value: secret}})
			},
			failures.InvalidOutput, "a.txt",
		},
		"it is not in the store": {
			map[string]string{"a.txt": "x"},
			func(_ *desk, in *activities.RoundInput) { in.Supplied = spec.Digest(strings.Repeat("ab", 32)) },
			failures.ResourceError, "the store does not have the supplied files, manifest abababab",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.team.Phases[0].Checks = []string{"good"}
			d.admit()
			d.agents.check = func(session.CheckJob) error { return nil }
			in := suppliedBy(d, test.files)
			if test.change != nil {
				test.change(d, &in)
			}
			for range 2 { // the second time after a kill
				_, err := d.roundOf(in)
				app := requireType(t, err, session.UnrecoverableError)
				require.True(t, app.NonRetryable())
				var report activities.RoundFailure
				require.NoError(t, app.Details(&report))
				require.Equal(t, test.category, report.Failure.Category)
				require.Contains(t, report.Failure.Message, test.message)
				require.NotContains(t, report.Failure.Message, secret)
				require.False(t, report.Failure.RetryRound(), "only a person can mend it")
				require.Empty(t, report.Attempts)
			}
			record := d.record()
			require.Len(t, record.Rounds, 1)
			require.True(t, record.Rounds[0].GaveUp)
			require.Zero(t, record.Status().Attempts)
		})
	}
}

func TestAgentIsNotTakenForThePersonWhoSuppliedBeforeIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := suppliedBy(d, map[string]string{"a.md": "x"})
	_, err := d.roundOf(in)
	requireType(t, err, session.UnrecoverableError)
	d.earlier++
	d.breakers, d.agents.run = nil, func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Empty(t, here(t, job), "a person's files that were refused are not where it starts from")
		return leave("a.txt", "x")(ctx, job)
	}
	in.Supplied, in.Ordered, in.Because = "", 1, session.BecauseRetried
	_, err = d.roundOf(in)
	require.NoError(t, err)
	require.Nil(t, d.agents.runs[0].Feedback, "nor is it told of them")
}

func TestSupplyForTheMergedTreeIsVerifiedAtTheMerge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := suppliedBy(d, map[string]string{})
	in.Integrating = true
	result, err := d.roundOf(in)
	require.NoError(t, err)
	require.Equal(t, d.input, result.Output)
	require.Equal(t, "supplied by ada: no changed file", result.Summary)
}
