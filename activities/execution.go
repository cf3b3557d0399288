package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

// execution is one execution of an activity that works in an assignment's directory: of a
// round, or of the merge of a phase. It has the assignment's lock, and ends when its worker
// stops or when a later run of its session takes over.
type execution struct {
	sessions Sessions
	state    State
	agents   Agents
	observer Observer
	// drain is for how long a stopping worker lets the work continue.
	drain time.Duration
	info  activity.Info
	key   session.Key
	id    spec.AssignmentID
	dir   *directory
	// waits has the time in which the attempt waits for others: the store, and calls of other assignments.
	waits *session.PausedTime
	// background has goroutines that the execution waits for at its end.
	background sync.WaitGroup

	// stop ends the execution's work.
	stop context.CancelCauseFunc

	mu sync.Mutex
	// held is the assignment's lock; nil until this is its executor.
	held session.Lock
	// progress is the line that people see of the work.
	progress string
}

// The waits of an execution.
const (
	// lockEvery is the first interval at which an execution checks whether another executor
	// of its assignment, on a worker that Temporal has lost, has ended. It grows to
	// lockEveryMost.
	lockEvery     = 50 * time.Millisecond
	lockEveryMost = time.Second
	// fenceEvery is how often it looks whether a later run of its session has
	// taken over.
	fenceEvery = 3 * time.Second
	// leaseEvery is how often it looks whether the assignment's lease has ended.
	leaseEvery = time.Second
	// storeWait and storeWaitMax bound the waits for a store that cannot be used.
	storeWait    = time.Second
	storeWaitMax = 30 * time.Second
)

// StoreWaitProgress begins the progress of what waits for a store that cannot be used. The reason follows.
const StoreWaitProgress = string(failures.ResourceError) + ": waiting for the store: "

func (rs *Rounds) newExecution(ctx context.Context, id spec.AssignmentID) *execution {
	info := activity.GetInfo(ctx)
	key := sessionKey(info)
	return &execution{
		sessions: rs.Sessions, state: rs.State, agents: rs.Agents, observer: rs.Observer, drain: rs.Drain,
		info: info, key: key, id: id, waits: session.NewPausedTime(rs.Clock),
		dir: &directory{workDirs: rs.WorkDirs, agents: rs.Agents, clock: rs.Clock, key: key, id: id},
	}
}

// keepAlive returns the context of the execution's work: see [execution.untilStopped]. While it
// lasts, Temporal gets heartbeats. The returned function ends both.
func (e *execution) keepAlive(ctx context.Context, port Heartbeats, current func() Heartbeat) (work context.Context, end func()) {
	work, stop := e.untilStopped(ctx)
	h := heartbeats{port: port, current: current, replaced: e.abortIfReplaced, accepted: e.heartbeatAccepted}
	halt := h.start(ctx)
	return work, func() {
		stop(context.Canceled)
		halt()
	}
}

// untilStopped ends its context, with errHandedOver as the cause, when the
// worker stops and the time to drain is over; and with session.ErrFenced when a
// later run of the session has taken the assignment over. The returned
// function ends it, too.
func (e *execution) untilStopped(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(ctx)
	e.stop = cancel
	if e.id.Persona != "" {
		go e.watchFence(work)
	}
	go func() {
		select {
		case <-work.Done():
			return
		case <-activity.GetWorkerStopChannel(ctx):
		}
		timer := time.NewTimer(e.drain)
		defer timer.Stop()
		select {
		case <-work.Done():
		case <-timer.C:
			cancel(errHandedOver)
		}
	}()
	return work, cancel
}

// watchFence checks at intervals whether the session has a later run. Otherwise an
// executor that Temporal has lost would continue to work and to pay.
func (e *execution) watchFence(ctx context.Context) {
	for sleep(ctx, fenceEvery) == nil {
		if later, err := e.state.IsFenced(ctx, e.key, e.info.WorkflowExecution.RunID); err == nil && later {
			e.stop(session.ErrFenced)
		}
	}
}

// abortIfReplaced ends an execution that Temporal has replaced while it waited for the
// assignment's lock: its replacement waits for the lock, too, and the slot is needed.
func (e *execution) abortIfReplaced() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == nil {
		e.stop(errReplaced)
	}
}

// acquireLock makes this the assignment's only live executor. It waits for the end of another
// one: on a live worker whose execution Temporal has timed out, or the remaining processes of
// a killed worker.
func (e *execution) acquireLock(ctx context.Context) (unlock func(), err error) {
	for wait := lockEvery; ; wait = min(2*wait, lockEveryMost) {
		var held session.Lock
		var ok bool
		if err := e.retryStore(ctx, func() (err error) {
			held, ok, err = e.sessions.Lock(ctx, e.key, e.id)
			return err
		}); err != nil {
			return nil, err
		}
		if ok {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.held, e.progress = held, ""
			if lease := held.Lease(); lease != nil {
				go e.watchLease(ctx, lease)
			}
			return held.Unlock, nil
		}
		e.agents.EndStopped()
		if wait == lockEvery {
			activity.GetLogger(ctx).Info("waiting for another process that still executes the assignment")
		}
		e.setProgress("waiting: another process still executes this assignment")
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// watchLease ends the work when another host has taken the assignment, or may take it.
func (e *execution) watchLease(ctx context.Context, lease *session.Lease) {
	for sleep(ctx, leaseEvery) == nil {
		if until, lost := lease.Until(); lost || time.Now().After(until) { //nolint:forbidigo // leases last in real time
			e.stop(errLeaseEnded)
		}
	}
}

// heartbeatAccepted extends the lease: while Temporal accepts heartbeats, nobody else is asked to do the work, so it goes on
// while the database is away.
func (e *execution) heartbeatAccepted(asked time.Time) {
	if held := e.lock(); held != nil && held.Lease() != nil {
		held.Lease().Extend(asked.Add(session.HeartbeatHolds))
	}
}

func (e *execution) lock() session.Lock {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// setProgress sets the progress line of the next heartbeat.
func (e *execution) setProgress(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress = line
}

func (e *execution) progressNow() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.progress
}

// retryStore calls try until the store can be used. The heartbeat reports the error
// meanwhile, and no attempt is used up. It returns permanent errors.
func (e *execution) retryStore(ctx context.Context, try func() error) error {
	freed := false
	for wait := storeWait; ; {
		err := try()
		switch {
		case err == nil || isPermanent(err):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case diskspace.IsFull(err) && !freed && e.dir.workDirs.FreeDisk(ctx):
			freed = true // until the next wait: a try may leave an unused layer each time
			continue
		case diskspace.IsFull(err) && e.dir.makeRoom(ctx, err):
			continue
		}
		activity.GetLogger(ctx).Warn("the store cannot be used; retrying", "error", err, "wait", wait)
		e.setProgress(StoreWaitProgress + textfmt.Shorten(err.Error(), session.MaxMessage))
		e.observer.StoreWaited(wait)
		waited := e.waits.Begin()
		err = sleep(ctx, wait)
		waited()
		if err != nil {
			return err
		}
		freed, wait = false, min(2*wait, storeWaitMax)
	}
}

// fromStore returns the result of a read from the store, with retries by retryStore.
func fromStore[T any](ctx context.Context, retryStore func(context.Context, func() error) error, read func() (T, error)) (value T,
	err error,
) {
	err = retryStore(ctx, func() (err error) {
		value, err = read()
		return err
	})
	return value, err
}

// executionEnd is the error of an execution that ends without a result and without an
// attempt's failure. details are those of a cancelled one.
func executionEnd(ctx context.Context, err error, details ...any) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return nil
	case continuesElsewhere(cause),
		errors.Is(cause, activity.ErrActivityPaused), errors.Is(cause, activity.ErrActivityReset):
		return newHandedOver(cause)
	case errors.Is(cause, session.ErrFenced):
		return storeError(ctx, session.ErrFenced)
	case ctx.Err() != nil:
		return temporal.NewCanceledError(details...)
	case isApplicationError(err):
		return err
	}
	return storeError(ctx, err)
}

// continuesElsewhere reports whether another execution does the work from now on.
func continuesElsewhere(cause error) bool {
	return errors.Is(cause, errHandedOver) || errors.Is(cause, errReplaced) || errors.Is(cause, errLeaseEnded)
}

// resumesAfter reports whether another execution of the activity continues at once after
// this one has ended with err.
func resumesAfter(ctx context.Context, err error) bool {
	if cause := context.Cause(ctx); ctx.Err() != nil {
		return continuesElsewhere(cause)
	}
	return isApplicationError(err) || !isPermanent(err)
}

// sleep waits. It returns the cause if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error { return sleepUnless(ctx, d, nil) }

// sleepUnlessStopped waits, or ends at once with a HandedOver error when the worker stops:
// for waits in which nothing is at work.
func sleepUnlessStopped(ctx context.Context, d time.Duration) error {
	return sleepUnless(ctx, d, activity.GetWorkerStopChannel(ctx))
}

func sleepUnless(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-stop:
		return newHandedOver(errHandedOver)
	}
}

// The times of heartbeats.
const (
	// firstBeat is when an execution first reports to Temporal, and beatEvery how often
	// after that. beatLimit bounds a report.
	firstBeat = time.Second
	beatEvery = 5 * time.Second
	beatLimit = 10 * time.Second
)

// heartbeats reports an execution of an activity to Temporal.
type heartbeats struct {
	port Heartbeats
	// current returns the heartbeat to send.
	current func() Heartbeat
	// replaced is called when Temporal has started another execution in place of this one.
	replaced func()
	// accepted is called after Temporal has accepted a heartbeat that was sent at some time.
	accepted func(asked time.Time)
}

// start sends heartbeats until the returned function is called.
func (h heartbeats) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.send(ctx)
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// send sends heartbeats until ctx ends. Work that is done within a second sends none.
//
// The SDK's own heartbeats would end the activity's context when Temporal cannot be
// reached for some seconds, and with it an agent's work of hours. They are used
// only when Temporal has answered that the activity is no longer wanted.
func (h heartbeats) send(ctx context.Context) {
	logger, failing := activity.GetLogger(ctx), false
	for wait := firstBeat; sleep(ctx, wait) == nil; wait = beatEvery {
		asked := time.Now() //nolint:forbidigo // leases last in real time
		bounded, cancel := context.WithTimeout(ctx, beatLimit)
		err := h.port.Beat(bounded, h.current())
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrUnwanted): // the activity's context ends
			activity.RecordHeartbeat(ctx, h.current())
			continue
		case errors.Is(err, ErrReplaced):
			h.replaced()
		case err == nil:
			h.accepted(asked)
		}
		if before := failing; before != (err != nil) { // an outage of hours is worth one line
			if failing = err != nil; failing {
				logger.Warn("the heartbeat failed; the work continues", "error", err)
			} else {
				logger.Info("heartbeats succeed again")
			}
		}
	}
}

func sessionKey(info activity.Info) session.Key {
	return session.Key{Namespace: info.Namespace, Session: info.WorkflowExecution.ID}
}
