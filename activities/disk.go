package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// diskEvery is how often the free space is read while an agent works, which costs
	// microseconds, and lowDiskEvery is how often if the disk is low. The agent's files are
	// measured every measureEvery, but at most for one part in measureShare of the time; for one
	// in urgentShare if they may be too large.
	diskEvery    = time.Second
	lowDiskEvery = 100 * time.Millisecond
	measureEvery = 5 * time.Second
	measureShare = 25
	urgentShare  = 4
	// quotaBytes stands for session.Disk.Low where the owner's part of the disk is full, whose
	// size is not known.
	quotaBytes = 16 << 20
)

// directory is the directory of an assignment, and its use of the disk.
type directory struct {
	workDirs WorkDirs
	agents   Agents
	clock    Clock
	key      session.Key
	id       spec.AssignmentID
	// cleared is called when the agent's files are removed; may be nil.
	cleared func(context.Context)

	mu    sync.Mutex
	state directoryState
	// held release the layers that are in use.
	held []func()
}

// directoryState is the state of a directory.
type directoryState struct {
	dir session.WorkDir
	// fresh: it was made by this execution, and nothing has worked there yet.
	fresh bool
	// since: files that were changed since this time are the agent's; zero: none is. start is the
	// disk at that time; zero: unknown.
	since time.Time
	start session.Disk
	// busy: a process may be at work there. stop ends what is at work.
	busy bool
	stop context.CancelCauseFunc
	// tmpCleared: nothing is in TMPDIR since something last worked there.
	tmpCleared bool
	// full is the failure of an attempt whose files are gone because they filled the disk.
	full *failures.Failure
	// filled is how the files in TMPDIR have filled the disk before they were cleared; empty: they have not.
	filled string
	// wasFull: programs may have failed here because the disk was full.
	wasFull bool
}

// diskFilledError is the failure of an agent or a check that has filled the disk.
type diskFilledError struct{ failure *failures.Failure }

func (e diskFilledError) Error() string { return e.failure.Error() }
func (e diskFilledError) Unwrap() error { return e.failure }

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

// open makes the directory, and ends what earlier attempts left at work there. The directory is New
// until something works there.
func (d *directory) open() (session.WorkDir, error) {
	dir, err := d.make()
	if dir.New = d.now().fresh; err == nil && !dir.New { // reading all processes of the host takes long
		err = d.agents.Sweep(dir)
	}
	if err == nil {
		d.change(func(s *directoryState) { *s = directoryState{dir: dir, fresh: dir.New} })
	}
	return dir, err
}

// hold holds layers until releaseLayers: also after the end of a context, a process may use them.
func (d *directory) hold(laid session.WorkDir, release func(), err error) (session.WorkDir, error) {
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held = append(d.held, release)
	}
	return laid, err
}

// releaseLayers releases the layers. No process uses them any more.
func (d *directory) releaseLayers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, release := range d.held {
		release()
	}
	d.held = nil
}

// restoreAccess makes the directory readable again after an agent has changed its modes.
// Collecting the files reports what it cannot restore.
func (d *directory) restoreAccess() { _ = d.workDirs.RestoreAccess(d.now().dir) }

// idle notes that no process is at work in the directory any more.
func (d *directory) idle() { d.change(func(s *directoryState) { s.busy = false }) }

// watch runs work, an agent or a check, in the directory, and stops it when it fills the
// disk: then the error is a diskFilledError. process: it is a process. begun is when the
// attempt was begun; zero: now.
func (d *directory) watch(ctx context.Context, who string, process bool, begun time.Time,
	work func(context.Context) error,
) error {
	ctx, stop := context.WithCancelCause(ctx)
	start, _ := d.workDirs.Disk() // without a figure, nothing is measured before the disk is low
	before := d.change(func(s *directoryState) {
		s.busy, s.stop, s.tmpCleared, s.fresh, s.filled = process, stop, false, false, ""
		s.since, s.start = cmp.Or(s.since, begun, d.clock()), cmp.Or(s.start, start)
	})
	filled := make(chan *failures.Failure, 1)
	go func() { filled <- d.watchDisk(ctx, who, d.now(), start, stop) }()
	err := work(ctx)
	if disk, failed := d.workDirs.Disk(); failed == nil {
		d.noteFull(start, disk)
	}
	stop(context.Canceled)
	failure := <-filled
	full := d.change(func(s *directoryState) { s.busy, s.stop = before.busy, before.stop }).full
	switch {
	case failure != nil:
		return diskFilledError{failure}
	case full != nil:
		return diskFilledError{full}
	}
	return err
}

// watchDisk checks the disk until ctx ends. start is the disk when the work began. It stops work
// that fills the disk and returns a failure; nil: the disk was not filled.
func (d *directory) watchDisk(ctx context.Context, who string, s directoryState, start session.Disk,
	stop context.CancelCauseFunc,
) *failures.Failure {
	before, had, took := start, session.Written{}, time.Duration(0)
	measured, every := d.clock(), diskEvery
	for sleep(ctx, every) == nil {
		disk, err := d.workDirs.Disk()
		if every = diskEvery; disk.IsLow() {
			every = lowDiskEvery
		}
		d.noteFull(start, disk)
		began := d.clock()
		wait := max(measureEvery, measureShare*took) // others may free what this one fills
		if disk.MayExceed(before, had) {
			wait = urgentShare * took
		}
		if err != nil || began.Sub(measured) < wait {
			continue
		}
		if d.freeLow(ctx) {
			if disk, err = d.workDirs.Disk(); err != nil {
				continue
			}
		}
		w, err := d.workDirs.Written(ctx, s.dir, s.since)
		if err != nil {
			continue
		}
		why := disk.HiddenBy(w, start)
		// Browsers and package managers map removed files, too: these count only where the disk is low.
		removed, hidden := d.agents.Removed(s.dir)
		w.Bytes, w.Hidden = w.Bytes+removed, w.Hidden || hidden
		if why = cmp.Or(disk.FilledBy(w, start), why); why != "" {
			f := failures.Failf(failures.InvalidOutput, "%s %s", who, why)
			stop(f)
			return f
		}
		before, had, measured = disk, w, d.clock()
		took = measured.Sub(began)
	}
	return nil
}

// isCleared reports whether the agent's files were removed because they filled the disk.
func (d *directory) isCleared() bool { return d.now().full != nil }

// noteFull notes that the disk is full, or was since a start: then space was freed.
func (d *directory) noteFull(start, disk session.Disk) {
	if disk.IsFull() || disk.Freed > start.Freed {
		d.change(func(s *directoryState) { s.wasFull = true })
	}
}

// openWithSpace opens the directory for work. On a full disk it returns ENOSPC: work would fail there.
func (d *directory) openWithSpace() (session.WorkDir, error) {
	if disk, err := d.workDirs.Disk(); err == nil && disk.IsFull() {
		return session.WorkDir{}, fmt.Errorf("the disk of agents has only %s and %d files free: %w", textfmt.Size(disk.Free),
			disk.FreeFiles, syscall.ENOSPC)
	}
	return d.open()
}

// blame returns the error with which an attempt has failed, or another failure if the reason was a
// full disk: the agent's if it has filled the disk, and the host's if others have. What an agent that
// has filled the disk has left is removed, so that others continue.
func (d *directory) blame(ctx context.Context, err error) error {
	if failure := d.filledBy(ctx, err); failure != nil {
		return failure
	}
	failure, failed := asFailure(asUnknown(err))
	if !failed || ctx.Err() != nil || !d.now().wasFull || failures.RuleFor(failure.Category).Owner != failures.OwnerAgent {
		return err
	}
	return &failures.Failure{
		Category: failures.ResourceError, Message: "the disk was full; it ended with: " + failure.Message,
		Output: failure.Output,
	}
}

// filledBy returns the failure of an attempt whose agent has filled the disk; nil: it has not.
func (d *directory) filledBy(ctx context.Context, err error) *failures.Failure {
	var filled diskFilledError
	failure, failed := asFailure(asUnknown(err))
	switch {
	case errors.As(err, &filled):
		failure = filled.failure
	case !failed, ctx.Err() != nil, failures.RuleFor(failure.Category).Owner == failures.OwnerPerson:
		return nil
	default:
		d.freeLow(ctx)
		why := cmp.Or(d.howFilled(ctx, d.now().since, nil), d.now().filled)
		if why == "" {
			return nil
		}
		failure = &failures.Failure{Category: failures.InvalidOutput, Message: "the agent " + why + "; it ended with: " +
			failure.Message, Output: failure.Output}
	}
	if d.change(func(s *directoryState) { s.full = failure }).full == nil {
		d.clear(ctx, failure.Message)
	}
	return failure
}

// freeLow frees space if the disk is low, so that maybe nobody has to fail. It reports whether it has
// freed any.
func (d *directory) freeLow(ctx context.Context) bool {
	disk, err := d.workDirs.Disk()
	return err == nil && disk.IsLow() && d.workDirs.FreeDisk(ctx)
}

// howFilled describes how the directory's files since a time fill the disk; empty: the disk
// is not full, or they are not the cause. full is an error that reported a full disk; nil:
// there was none.
func (d *directory) howFilled(ctx context.Context, since time.Time, full error) string {
	disk, err := d.workDirs.Disk()
	if disk.Full = full != nil; err != nil || since.IsZero() || !disk.Full && !disk.IsLow() {
		return ""
	}
	if errors.Is(full, syscall.EDQUOT) {
		disk.Free, disk.Low = 0, min(disk.Low, quotaBytes)
	}
	now := d.now()
	w, err := d.workDirs.Written(ctx, now.dir, since)
	if err != nil {
		return ""
	}
	return disk.FilledBy(w, now.start)
}

// clear removes everything in the directory.
func (d *directory) clear(ctx context.Context, why string) {
	logger := activity.GetLogger(ctx)
	logger.Warn("removing the agent's files", "why", why)
	if err := d.workDirs.Clear(d.now().dir); err != nil {
		logger.Warn("some of the agent's files could not be removed", "error", err)
	}
	if d.cleared != nil {
		d.cleared(ctx)
	}
}

// makeRoom frees space on a full disk. It first clears TMPDIR, then the whole directory if that
// fills the disk, which is a failure of the attempt. It returns false if there is nothing to
// remove, or if a process is at work there.
func (d *directory) makeRoom(ctx context.Context, err error) bool {
	was := d.change(func(s *directoryState) { s.tmpCleared = s.tmpCleared || s.dir.Tmp != "" && !s.busy })
	switch {
	case was.busy || was.dir.Tmp == "" || was.full != nil:
		return false
	case !was.tmpCleared:
		why := d.howFilled(ctx, was.since, err)
		d.change(func(s *directoryState) { s.filled = why })
		return d.workDirs.ClearTmp(was.dir) == nil
	}
	why := d.howFilled(ctx, was.since, err)
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

// freeDisk clears the directory if it fills the disk, also after a success: the next
// attempt fills the directory again, and may have to wait for a long time.
func (d *directory) freeDisk(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	d.freeLow(ctx)
	if !d.openIfLow() {
		return
	}
	if why := d.howFilled(ctx, d.now().since, nil); why != "" {
		d.clear(ctx, why)
	}
}
