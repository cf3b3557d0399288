package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
)

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
