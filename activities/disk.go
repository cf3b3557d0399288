package activities

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

const (
	// diskEvery is how often the disk is looked at while an agent works. One look costs
	// microseconds; what the agent has written is measured if that may be too much, and every
	// measureEvery, but at most for one part in measureShare of the time.
	diskEvery    = time.Second
	measureEvery = 5 * time.Second
	measureShare = 25
	// quotaBytes stands for session.Disk.Low where the owner's part of the disk is full, whose
	// size is not known.
	quotaBytes = 16 << 20
)

// directory is the directory of an assignment, and what it takes up of the disk.
type directory struct {
	workDirs WorkDirs
	agents   Agents
	clock    Clock
	key      session.Key
	id       spec.AssignmentID
	// cleared is called when what the agent left is removed; may be nil.
	cleared func(context.Context)

	mu    sync.Mutex
	state directoryState
}

// directoryState is what is known of a directory at a moment.
type directoryState struct {
	dir session.WorkDir
	// fresh: it was made by this execution, and nothing has worked there yet.
	fresh bool
	// since is from when on files there are the agent's; zero: none is.
	since time.Time
	// busy: a process may be at work there. stop ends what is at work.
	busy bool
	stop context.CancelCauseFunc
	// tmpCleared: nothing is in TMPDIR since something last worked there.
	tmpCleared bool
	// full is the failure of an attempt whose files are gone because they filled the disk.
	full *failures.Failure
}

// filledError is the failure of an agent or a check that has filled the disk.
type filledError struct{ failure *failures.Failure }

func (e filledError) Error() string { return e.failure.Error() }
func (e filledError) Unwrap() error { return e.failure }

// diskFull reports whether a disk, or its owner's part of it, has no room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// change changes the state and returns it as it was.
func (d *directory) change(change func(*directoryState)) directoryState {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.state
	change(&d.state)
	return before
}

func (d *directory) now() directoryState { return d.change(func(*directoryState) {}) }

// make makes the directory if need be.
func (d *directory) make() (session.WorkDir, error) {
	dir, err := d.workDirs.Make(d.key, d.id)
	if err == nil && dir.New {
		d.change(func(s *directoryState) { s.fresh = true })
	}
	return dir, err
}

// open makes the directory, and ends what earlier attempts left at work there.
func (d *directory) open() (session.WorkDir, error) {
	dir, err := d.make()
	if err == nil && !d.now().fresh { // to look at all processes of the host takes long
		err = d.agents.Sweep(dir)
	}
	if err == nil {
		d.change(func(s *directoryState) { *s = directoryState{dir: dir} })
	}
	return dir, err
}

// restoreAccess lets the directory be read again, whatever the agent has locked. What it
// cannot restore, a collection reports.
func (d *directory) restoreAccess() { _ = d.workDirs.RestoreAccess(d.now().dir) }

// idle notes that no process is at work in the directory any more.
func (d *directory) idle() { d.change(func(s *directoryState) { s.busy = false }) }

// watch has an agent or a check work in the directory. It is stopped when it fills the
// disk: then the error is a filledError. process: it is a process. begun is when the
// attempt was begun; zero: now.
func (d *directory) watch(ctx context.Context, who string, process bool, begun time.Time, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	before := d.change(func(s *directoryState) {
		s.busy, s.stop, s.tmpCleared = process, stop, false
		s.since = cmp.Or(s.since, begun, d.clock())
	})
	filled := make(chan *failures.Failure, 1)
	go func() { filled <- d.watchDisk(ctx, who, d.now(), stop) }()
	err := work(ctx)
	stop(context.Canceled)
	failure := <-filled
	full := d.change(func(s *directoryState) { s.busy, s.stop = before.busy, before.stop }).full
	switch {
	case failure != nil:
		return filledError{failure}
	case full != nil:
		return filledError{full}
	}
	return err
}

// watchDisk looks at the disk until ctx ends. It stops what fills the disk and returns that
// as a failure.
func (d *directory) watchDisk(ctx context.Context, who string, s directoryState, stop context.CancelCauseFunc) *failures.Failure {
	before, _ := d.workDirs.Disk() // without a figure, nothing is measured before the disk is low
	var had session.Written
	measured := d.clock()
	for wait := diskEvery; sleep(ctx, wait) == nil; {
		wait = diskEvery
		disk, err := d.workDirs.Disk()
		began := d.clock()
		if err != nil || !disk.MayExceed(before, had) && began.Sub(measured) < measureEvery { // others may free what this one fills
			continue
		}
		w, err := d.workDirs.Written(ctx, s.dir, s.since)
		if err != nil {
			continue
		}
		w.Bytes += d.agents.Removed(s.dir)
		if why := disk.FilledBy(w); why != "" {
			f := failures.Failf(failures.InvalidOutput, "%s %s", who, why)
			stop(f)
			return f
		}
		before, had, measured = disk, w, d.clock()
		wait = max(wait, measureShare*measured.Sub(began))
	}
	return nil
}

// filledBy reports whether an attempt has failed because its agent has filled the disk: nil if
// it has not. What the agent has left is removed then, so that others continue.
func (d *directory) filledBy(ctx context.Context, err error) *failures.Failure {
	var filled filledError
	failure, failed := asFailure(counted(err))
	switch {
	case errors.As(err, &filled):
		failure = filled.failure
	case !failed, ctx.Err() != nil, failures.RuleFor(failure.Category).Owner == failures.OwnerPerson:
		return nil
	default:
		why := d.fills(ctx, d.now().since, nil)
		if why == "" {
			return nil
		}
		failure = &failures.Failure{Category: failures.InvalidOutput, Message: "the agent " + why + "; it ended with: " + failure.Message, Output: failure.Output}
	}
	if d.change(func(s *directoryState) { s.full = failure }).full == nil {
		d.clear(ctx, failure.Message)
	}
	return failure
}

// fills says in which way the files in the directory since a time fill the disk;
// empty: the disk is not full, or they are not why. full is an error that reported a full
// disk; nil: there was none.
func (d *directory) fills(ctx context.Context, since time.Time, full error) string {
	disk, err := d.workDirs.Disk()
	if disk.Full = full != nil; err != nil || since.IsZero() || !disk.Full && !disk.IsLow() {
		return ""
	}
	if errors.Is(full, syscall.EDQUOT) {
		disk.Free, disk.Low = 0, min(disk.Low, quotaBytes)
	}
	w, err := d.workDirs.Written(ctx, d.now().dir, since)
	if err != nil {
		return ""
	}
	return disk.FilledBy(w)
}

// clear removes everything in the directory.
func (d *directory) clear(ctx context.Context, why string) {
	logger := activity.GetLogger(ctx)
	logger.Warn("the disk is full; removing the agent's files", "why", why)
	if err := d.workDirs.Clear(d.now().dir); err != nil {
		logger.Warn("some of the agent's files could not be removed", "error", err)
	}
	if d.cleared != nil {
		d.cleared(ctx)
	}
}

// makeRoom gives back to a full disk what the directory takes up of it: first TMPDIR, then all of
// a directory that fills it, which is the failure of the attempt. It returns false if there is
// nothing to give back, or if something is at work there.
func (d *directory) makeRoom(ctx context.Context, err error) bool {
	was := d.change(func(s *directoryState) { s.tmpCleared = s.tmpCleared || s.dir.Tmp != "" && !s.busy })
	switch {
	case was.busy || was.dir.Tmp == "" || was.full != nil:
		return false
	case !was.tmpCleared:
		return d.workDirs.ClearTmp(was.dir) == nil
	}
	why := d.fills(ctx, was.since, err)
	if why == "" {
		return false
	}
	full := failures.Failf(failures.InvalidOutput, "the agent %s", why)
	d.change(func(s *directoryState) { s.full = full })
	d.clear(ctx, full.Message)
	if was.stop != nil {
		was.stop(full)
	}
	return true
}

// openIfLow opens the directory if the disk is low, so that it can be cleared, and reports
// whether it has. Nothing is at work there then.
func (d *directory) openIfLow() bool {
	if disk, err := d.workDirs.Disk(); err != nil || !disk.IsLow() {
		return false
	}
	_, err := d.open()
	if err == nil {
		d.change(func(s *directoryState) { s.since = time.Unix(0, 1) })
	}
	return err == nil
}

// relieve gives back what the directory takes up of a full disk, whatever the work
// has come to: the next attempt fills it again, and may have to wait for long.
func (d *directory) relieve(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if !d.openIfLow() {
		return
	}
	if why := d.fills(ctx, d.now().since, nil); why != "" {
		d.clear(ctx, why)
	}
}
