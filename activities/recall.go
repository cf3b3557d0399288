package activities

import (
	"cmp"
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/team"
)

// recall loads what earlier executions of the round have left: the log of its
// attempts and, if it had succeeded, its result. It counts lost workers: every
// execution that ended without a word.
func (r *round) recall(ctx context.Context) (*team.RoundResult, error) {
	if err := r.persist(ctx, func() (err error) {
		r.scene, err = loadScene(ctx, r.Files, r.Sessions, r.in.Head)
		return err
	}); err != nil {
		return nil, err
	}
	var record team.Record
	err := r.persist(ctx, func() (err error) {
		record, err = r.Sessions.Record(r.scene.key, r.in.AssignmentID)
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, team.ErrNotFound):
		record = r.newRecord()
	case errors.Is(err, team.ErrCorrupt):
		activity.GetLogger(ctx).Warn("the assignment's record was corrupt; its log goes on from the heartbeat", "error", err)
		record = r.newRecord()
	default:
		return nil, err
	}
	if record.Incarnation > r.in.Incarnation {
		return nil, team.ErrFenced
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = record
	r.goOn()
	this := r.thisRound()
	if this.Result != nil {
		r.log = this.RoundLog
		return this.Result, nil
	}
	r.log = laterLog(this.RoundLog, r.log)
	if r.log.Begin(int(r.info.Attempt), r.waited && this.Ended() > r.found) {
		observed(r.Observer).WorkerLost(r.agent())
	}
	return nil, nil
}

// rest has the next attempt begin no earlier than it may. Temporal sees to that where it
// has heard how the one before ended; where it has not, because that one's execution was
// given up or lost before, a short wait is made up for here. For a long one Temporal is
// told again, in a RecoverableError: the round holds a slot of its agent.
func (r *round) rest(ctx context.Context) error {
	n := len(r.log.Attempts)
	if n == 0 || r.goesOnWith || r.log.Attempts[n-1].Agent != r.agent() {
		return nil // or the session has decided when it goes on
	}
	last := r.log.Attempts[n-1]
	wait := r.wait(last.Failure)
	left := min(wait, last.EndedAt.Add(wait).Sub(r.Clock())) // clocks differ
	switch {
	case left <= 0:
		return nil
	case left > restMost:
		r.noteHandOver(ctx)
		return recoverable(last.Failure, left)
	}
	return sleep(ctx, left)
}

// goOn takes over the entry of the activity that this one goes on with.
func (r *round) goOn() {
	if r.in.After == "" {
		return
	}
	before := r.key()
	before.Activity = r.in.After
	if this := r.record.Round(before); this != nil {
		this.Key, this.Pass, this.Executions, this.Idle = r.key(), nil, 0, 0
		this.Earlier = this.Ended() + this.Lost
		r.goesOnWith = true
	}
}

// laterLog is the one of two logs of the same round that knows more. Neither need know
// of all hand-overs: an execution that waited for another's end tells of its own only
// in a heartbeat.
func laterLog(a, b team.RoundLog) team.RoundLog {
	later, handedOver := a, max(a.HandedOver, b.HandedOver)
	if cmp.Or(
		cmp.Compare(len(b.Attempts), len(a.Attempts)),
		cmp.Compare(b.HandedOver, a.HandedOver),
		cmp.Compare(b.Executions, a.Executions),
	) > 0 {
		later = b
	}
	later.HandedOver = handedOver
	return later
}

// heartbeatLog is the log in the last heartbeat that reached Temporal.
func heartbeatLog(ctx context.Context) team.RoundLog {
	var last Heartbeat
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
			return team.RoundLog{}
		}
	}
	return last.Log
}

func (r *round) newRecord() team.Record {
	return team.Record{Schema: team.RecordSchema, Assignment: r.in.AssignmentID, Incarnation: r.in.Incarnation, Epoch: 1}
}
