package activities

import (
	"cmp"
	"context"
	"errors"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
)

const (
	// diskEvery is how often the disk is looked at while an agent works. One look costs
	// microseconds; what the agent has written is only measured if that may be too much,
	// and at most for one part in measureShare of the time.
	diskEvery    = time.Second
	measureShare = 25
	// quotaBytes stands for session.Disk.Low where the owner's part of the disk is full, whose
	// size is not known.
	quotaBytes = 16 << 20
)

// place is the directory that a round works in, and what it knows of the room that this
// takes up.
type place struct {
	dir session.WorkDir
	// since is from when on files there are the agent's; zero: none is.
	since time.Time
	// busy: a process may be at work there. stop ends what is at work.
	busy bool
	stop context.CancelCauseFunc
	// tmpCleared: nothing is in TMPDIR since the round has last worked.
	tmpCleared bool
	// full is the failure of an attempt whose files are gone because they filled the disk.
	full *failures.Failure
}

// filledError is the failure of an agent or a check that has filled the disk.
type filledError struct{ failure *failures.Failure }

func (e filledError) Error() string { return e.failure.Error() }
func (e filledError) Unwrap() error { return e.failure }

// diskFull tells of an error that a disk, or its owner's part of it, has no room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// changePlace changes the round's place and returns it as it was.
func (r *round) changePlace(change func(*place)) place {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.place
	change(&r.place)
	return before
}

// watchingDisk has an agent or a check work in the round's directory. It is stopped when
// it fills the disk: then the error is a filledError. process: it is a process.
func (r *round) watchingDisk(ctx context.Context, who string, process bool, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	before := r.changePlace(func(p *place) {
		p.busy, p.stop, p.tmpCleared = process, stop, false
		p.since = cmp.Or(p.since, r.log.AttemptAt, r.Clock())
	})
	filled := make(chan *failures.Failure, 1)
	go func() { filled <- r.watchDisk(ctx, who, r.placeNow(), stop) }()
	err := work(ctx)
	stop(context.Canceled)
	failure := <-filled
	full := r.changePlace(func(p *place) { p.busy, p.stop = before.busy, before.stop }).full
	switch {
	case failure != nil:
		return filledError{failure}
	case full != nil:
		return filledError{full}
	}
	return err
}

// watchDisk looks at the disk until ctx ends. It stops and returns the failure of who has
// filled it.
func (r *round) watchDisk(ctx context.Context, who string, p place, stop context.CancelCauseFunc) *failures.Failure {
	before, _ := r.Files.Disk() // without a figure, nothing is measured before the disk is low
	var had session.Written
	for wait := diskEvery; sleep(ctx, wait) == nil; {
		wait = diskEvery
		d, err := r.Files.Disk()
		if err != nil || !d.IsLow() && before.Free-d.Free <= d.MaxWritten-had.Bytes {
			continue
		}
		began := r.Clock()
		w, err := r.Files.Written(ctx, p.dir, p.since)
		if err != nil {
			continue
		}
		if d.IsLow() {
			w.Bytes += r.Agents.Removed(p.dir)
		}
		if why := d.FilledBy(w); why != "" {
			f := failures.Failf(failures.InvalidOutput, "%s %s", who, why)
			stop(f)
			return f
		}
		before, had, wait = d, w, max(wait, measureShare*r.Clock().Sub(began))
	}
	return nil
}

// filledDisk reports whether an attempt has failed because its agent has filled the disk: nil if
// it has not. What the agent has left is removed then, so that others continue.
func (r *round) filledDisk(ctx context.Context, err error) *failures.Failure {
	var filled filledError
	failure, failed := asFailure(counted(err))
	switch {
	case errors.As(err, &filled):
		failure = filled.failure
	case !failed, ctx.Err() != nil, failures.RuleFor(failure.Category).Owner == failures.OwnerPerson:
		return nil
	default:
		why := r.fills(ctx, r.placeNow().since, nil)
		if why == "" {
			return nil
		}
		failure = &failures.Failure{Category: failures.InvalidOutput, Message: "the agent " + why + "; it ended with: " + failure.Message, Output: failure.Output}
	}
	if r.changePlace(func(p *place) { p.full = failure }).full == nil {
		r.clearWork(ctx, failure.Message)
	}
	return failure
}

func (r *round) placeNow() place { return r.changePlace(func(*place) {}) }

// fills says in which way the files in the round's directory since a time fill the disk;
// empty: the disk is not full, or they are not why. full is an error that has said so; nil:
// there was none.
func (r *round) fills(ctx context.Context, since time.Time, full error) string {
	d, err := r.Files.Disk()
	if d.Full = full != nil; err != nil || since.IsZero() || !d.Full && !d.IsLow() {
		return ""
	}
	if errors.Is(full, syscall.EDQUOT) {
		d.Free, d.Low = 0, min(d.Low, quotaBytes)
	}
	w, err := r.Files.Written(ctx, r.placeNow().dir, since)
	if err != nil {
		return ""
	}
	return d.FilledBy(w)
}

// clearWork removes everything in the round's directory.
func (r *round) clearWork(ctx context.Context, why string) {
	logger := activity.GetLogger(ctx)
	logger.Warn("the disk is full; removing the agent's files", "why", why)
	if err := r.Files.ClearWork(r.placeNow().dir); err != nil {
		logger.Warn("some of the agent's files could not be removed", "error", err)
	}
	if o := r.outage(); o != nil && o.Left {
		o.Left = false
		r.changeLog(func(l *session.RoundLog) { l.Outage = o })
		if err := r.putRecord(); err != nil {
			logger.Warn("the removal of the agent's files is not recorded yet", "error", err)
		}
	}
}

// makeRoom gives back to a full disk what the round takes up of it: first TMPDIR, then all
// of a directory that fills it, which is the failure of the attempt. It returns false if
// there is nothing to give back, or if something is at work there.
func (r *round) makeRoom(ctx context.Context, err error) bool {
	p := r.changePlace(func(p *place) { p.tmpCleared = p.tmpCleared || p.dir.Tmp != "" && !p.busy })
	switch {
	case p.busy || p.dir.Tmp == "" || p.full != nil:
		return false
	case !p.tmpCleared:
		return r.Files.ClearTmp(p.dir) == nil
	}
	why := r.fills(ctx, p.since, err)
	if why == "" {
		return false
	}
	full := failures.Failf(failures.InvalidOutput, "the agent %s", why)
	r.changePlace(func(p *place) { p.full = full })
	r.clearWork(ctx, full.Message)
	if p.stop != nil {
		p.stop(full)
	}
	return true
}

// mayClear lets the round give back what its directory takes up of a full disk, and tells
// whether it may. Nothing is at work there then.
func (r *round) mayClear() bool {
	if d, err := r.Files.Disk(); err != nil || !d.IsLow() {
		return false
	}
	_, err := r.workDir()
	if err == nil {
		r.changePlace(func(p *place) { p.since = time.Unix(0, 1) })
	}
	return err == nil
}

// relieve gives back what the round's directory takes up of a full disk, whatever the round
// has come to: the next attempt fills it again, and may have to wait for long.
func (r *round) relieve(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	if !r.mayClear() {
		return
	}
	if why := r.fills(ctx, r.placeNow().since, nil); why != "" {
		r.clearWork(ctx, why)
	}
}
