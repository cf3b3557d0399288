package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// atWork is the context of the round's work: see [round.untilStopped]. While it lasts,
// Temporal hears that the round is at work. The returned function ends both; it sends a
// last report, for whoever takes the round up again: none of a round that has succeeded.
func (r *round) atWork(ctx context.Context) (work context.Context, over func()) {
	work, end := r.untilStopped(ctx)
	if r.Heartbeats == nil {
		return work, func() { end(context.Canceled) }
	}
	beating, halt := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.sendHeartbeats(beating, end)
	}()
	return work, func() {
		end(context.Canceled)
		halt()
		<-stopped
		if !r.isRecorded() {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBeatLimit)
			defer cancel()
			_ = r.Heartbeats.Beat(last, r.heartbeat()) // it is in the record, too
		}
	}
}

// sendHeartbeats reports the round until ctx ends, or ends its work if it has none: see
// [round.abortIfSuperseded]. Work that is done within a second costs no report at all.
//
// The SDK's own heartbeats would end the activity's context when Temporal cannot be
// reached for some seconds, and with it an agent's work of hours. They have their way
// only when Temporal has answered that nobody waits for the round any more.
func (r *round) sendHeartbeats(ctx context.Context, end context.CancelCauseFunc) {
	const heard, unheard, replaced = "heard", "unheard", "replaced"
	logger, stands := activity.GetLogger(ctx), heard
	for wait := firstBeat; sleep(ctx, wait) == nil; wait = beatEvery {
		bounded, cancel := context.WithTimeout(ctx, beatLimit)
		err := r.Heartbeats.Beat(bounded, r.heartbeat())
		cancel()
		before := stands
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrUnwanted):
			activity.RecordHeartbeat(ctx, r.heartbeat())
		case errors.Is(err, ErrReplaced):
			stands = replaced
			r.abortIfSuperseded(end)
		case err != nil:
			stands = unheard
		default:
			stands = heard
		}
		if stands == before { // an outage of hours is worth one line
			continue
		}
		switch stands {
		case unheard:
			logger.Warn("the round's heartbeat failed; the round continues", "error", err)
		case replaced:
			logger.Warn("Temporal has timed out this execution of the round; its successor waits for the result")
		default:
			logger.Info("the round's heartbeats succeed again")
		}
	}
}

// abortIfSuperseded ends an execution that Temporal has given up while it waited for the
// assignment's lock: the one in its place waits for it, too, and the slot is needed.
func (r *round) abortIfSuperseded(end context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		end(errReplaced)
	}
}

// isRecorded reports whether the round's result is in the record for good.
func (r *round) isRecorded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.durable
}

// heartbeat is the report: the log without outputs, which a history may keep.
func (r *round) heartbeat() Heartbeat {
	r.mu.Lock()
	defer r.mu.Unlock()
	log, book := r.log, r.spender
	log.Attempts, log.Started = slices.Clone(log.Attempts), log.Started && !r.unnoted
	for i := range log.Attempts {
		log.Attempts[i].Failure.Output = ""
	}
	if log.Outage != nil {
		o := *log.Outage
		o.Failure.Output = ""
		log.Outage = &o
	}
	beat := Heartbeat{Log: log, Attempt: len(log.Attempts) + 1, Progress: r.progress}
	if book != nil && r.in.Supplied == "" {
		book.describe(&beat)
	}
	return beat
}

// setProgress notes the agent's last word for the next heartbeat.
func (r *round) setProgress(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = line
}

// untilStopped ends its context, with errHandedOver as the cause, when the
// worker stops and the time to drain is over; and with session.ErrFenced when a
// later incarnation of the session has taken the assignment over. The returned
// function ends it, too.
func (r *round) untilStopped(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(ctx)
	if r.in.Persona != "" {
		go r.watchFence(work, cancel)
	}
	go func() {
		select {
		case <-work.Done():
			return
		case <-activity.GetWorkerStopChannel(ctx):
		}
		timer := time.NewTimer(r.Drain)
		defer timer.Stop()
		select {
		case <-work.Done():
		case <-timer.C:
			cancel(errHandedOver)
		}
	}()
	return work, cancel
}

// watchFence looks now and then whether the assignment is still this
// incarnation's: one whose Temporal is gone would work, and pay, on.
func (r *round) watchFence(ctx context.Context, cancel context.CancelCauseFunc) {
	for sleep(ctx, fenceEvery) == nil {
		record, err := r.Sessions.Record(sessionKey(r.info), r.in.AssignmentID)
		if err == nil && record.Incarnation > r.in.Incarnation {
			cancel(session.ErrFenced)
		}
	}
}

// lock makes this the assignment's only live executor. It waits for another one
// to end: on a worker that Temporal has given up but that still lives, or agents
// that are dying after their worker was killed.
func (r *round) lock(ctx context.Context) (unlock func(), err error) {
	for wait := lockEvery; ; wait = min(2*wait, lockEveryMost) {
		var held session.Lock
		var ok bool
		if err := r.retryStore(ctx, func() (err error) {
			held, ok, err = r.Sessions.Lock(sessionKey(r.info), r.in.AssignmentID)
			return err
		}); err != nil {
			return nil, err
		}
		if ok {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.held = held
			r.progress = ""
			return held.Unlock, nil
		}
		r.Agents.EndStopped()
		r.setProgress("waiting: another process still executes this assignment")
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// retryStore tries something with the store until the store can be used. Meanwhile
// the heartbeat says what is wrong, and no attempt is used up. Errors that will
// not go away are returned.
func (r *round) retryStore(ctx context.Context, try func() error) error {
	for wait := storeWait; ; wait = min(2*wait, storeWaitMax) {
		err := try()
		switch {
		case err == nil || isPermanent(err):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case diskFull(err) && r.makeRoom(ctx, err):
			continue
		}
		activity.GetLogger(ctx).Warn("the store cannot be used; retrying", "error", err, "wait", wait)
		r.setProgress(fmt.Sprintf("%s: waiting for the store: %s", failures.ResourceError, textfmt.Shorten(err.Error(), session.MaxMessage)))
		observerOrNone(r.Observer).StoreWaited(wait)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// writeRecord brings the assignment's record up to date, durably.
func (r *round) writeRecord(ctx context.Context) error { return r.retryStore(ctx, r.putRecord) }

func (r *round) putRecord() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.thisRound().RoundLog = r.log
	r.record.Incarnation = r.in.Incarnation
	return r.Sessions.PutRecord(r.session.key, r.record)
}

// sleep waits, or returns why it need not.
func sleep(ctx context.Context, d time.Duration) error { return sleepUnless(ctx, d, nil) }

// sleepUnless also ends early when stop is closed, and then hands the round over.
func sleepUnless(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-stop:
		return handedOver(errHandedOver)
	}
}
