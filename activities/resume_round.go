package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/session"
)

// resumeRound loads what earlier executions of the round have left: the log of its
// attempts and, if it had succeeded, its result. The caller holds the assignment's lock: if
// the agent was started and nobody has noted how that ended, a worker was lost.
func (r *round) resumeRound(ctx context.Context) (*session.RoundResult, error) {
	if err := r.retryStore(ctx, func() (err error) {
		r.session, err = loadSessionContext(ctx, r.Files, r.Sessions, r.in.Head)
		return err
	}); err != nil {
		return nil, err
	}
	var record session.Record
	err := r.retryStore(ctx, func() (err error) {
		record, err = r.Sessions.Record(r.session.key, r.in.AssignmentID)
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, session.ErrNotFound):
		record = r.newRecord()
	case errors.Is(err, session.ErrCorrupt):
		activity.GetLogger(ctx).Warn("the assignment's record was corrupt; its log continues from the heartbeat", "error", err)
		record = r.newRecord()
	default:
		return nil, err
	}
	run := r.run()
	if record.Incarnation > r.in.Incarnation || record.Run == run && record.Seq > r.in.Seq {
		return nil, session.ErrFenced
	}
	record.Run, record.Seq = run, r.in.Seq
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = record
	r.goOn()
	r.stored = r.record.Round(r.key()) != nil
	this := r.thisRound()
	if this.Result != nil {
		r.log = this.RoundLog
		return this.Result, nil
	}
	if this.Revision >= r.log.Revision {
		r.log = this.RoundLog
	}
	if r.log.Started {
		r.log.Revision++
		r.log.Started = false
		r.log.Lost++
		if r.log.Outage != nil { // the files may be half of what the agent was writing
			outage := *r.log.Outage
			outage.Left = false
			r.log.Outage = &outage
		}
		observerOrNone(r.Observer).WorkerLost(r.agent())
	}
	return nil, nil
}

// rest has the next attempt begin no earlier than it may. Temporal sees to that where it
// has heard how the one before ended; where it has not, because that one's execution was
// given up or lost before, a short wait is made up for here. For a long one Temporal is
// told again, in a RecoverableError: the round holds a slot of its agent.
func (r *round) rest(ctx context.Context) error {
	if o := r.outage(); o != nil {
		return r.restOutage(ctx, *o)
	}
	n := len(r.log.Attempts)
	if n == 0 || r.goesOnWith || r.log.Attempts[n-1].Agent != r.agent() {
		return nil // or the session has decided when it continues
	}
	last := r.log.Attempts[n-1]
	wait := r.wait(last.Failure)
	left := min(wait, last.EndedAt.Add(wait).Sub(r.Clock())) // clocks differ
	switch {
	case left <= 0:
		return nil
	case left > restMost:
		return recoverable(last.Failure, left)
	}
	return sleep(ctx, left)
}

// goOn takes over the entry of the activity that this one continues with.
func (r *round) goOn() {
	if r.in.After == "" {
		return
	}
	before := r.key()
	before.Activity = r.in.After
	if this := r.record.Round(before); this != nil {
		this.Key, this.Agent, this.Pass = r.key(), r.in.Agent, nil
		if o := this.Outage; o != nil {
			o.Noticed = r.in.Outage == OutageNoticed
			if now := r.Clock().UTC(); r.in.Outage == OutageRetry {
				o.Since, o.PatienceFrom, o.Until, o.Waits, o.Told = now, now, now, 0, ""
			}
		}
		r.goesOnWith = true
	}
}

// heartbeatLog is the log in the last heartbeat that reached Temporal.
func heartbeatLog(ctx context.Context) session.RoundLog {
	var last Heartbeat
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
			return session.RoundLog{}
		}
	}
	return last.Log
}

func (r *round) newRecord() session.Record {
	return session.Record{Schema: session.RecordSchema, Assignment: r.in.AssignmentID, Incarnation: r.in.Incarnation, Epoch: 1}
}
