package activities

import (
	"cmp"
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// lostCalls ends the calls that were in flight when their worker was lost: their cost is unsettled.
type lostCalls struct {
	state    State
	sessions Sessions
	// programs reads in workDirs the usage that agent programs have noted; nil: nobody does.
	programs ProgramUsage
	workDirs WorkDirs
	// ended is the attempt whose agent has ended, with the cost that it has stated; nil: there is none.
	ended *endedCost
}

// endedCost is the cost of an attempt whose agent has ended, and which was not booked before its worker was lost.
type endedCost struct {
	attempt state.AttemptKey
	used    cost.Usage
}

// endAll ends the lost calls of all assignments of a session that nobody executes. Reservations for them are released.
func (l lostCalls) endAll(ctx context.Context, key session.Key) error {
	open, err := l.state.UnfinishedCalls(ctx, state.Assignment{Key: key})
	if err != nil {
		return err
	}
	var failed []error
	seen := map[spec.AssignmentID]bool{}
	for _, c := range open {
		if c.State != state.CallBegun || seen[c.AssignmentID] {
			continue
		}
		seen[c.AssignmentID] = true
		lock, ok, err := l.sessions.Lock(ctx, key, c.AssignmentID)
		if err == nil && ok {
			err = l.endCalls(ctx, c.Assignment)
			lock.Unlock()
		} // an executor at work is fenced, and ends its calls itself
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// endCalls ends the lost calls of an assignment whose lock the caller holds.
func (l lostCalls) endCalls(ctx context.Context, a state.Assignment) error {
	open, err := l.state.UnfinishedCalls(ctx, a)
	if err != nil {
		return err
	}
	for _, c := range open {
		if c.State != state.CallBegun {
			continue
		}
		end := l.end(c)
		if err := l.state.End(ctx, c.ID, end); err != nil {
			return err
		}
		if end.State == state.CallUnsettled {
			activity.GetLogger(ctx).Warn("a paid call was in flight when its worker was lost; its unknown cost stays unsettled",
				"assignment", a.String(), "call", c.ID, "known", c.Usage.Max(end.Usage).Tokens(), "estimate",
				cmp.Or(end.Estimated.Tokens, c.Estimated.Tokens))
		}
	}
	return nil
}

// end is how a lost call has ended. The files of an agent program have its usage since its last report.
func (l lostCalls) end(c state.Call) state.CallEnd {
	if l.ended != nil && c.Call == 0 && c.AttemptKey == l.ended.attempt {
		return state.CallEnd{State: state.CallAnswered, Usage: l.ended.used}
	}
	end := state.CallEnd{State: state.CallUnsettled}
	if c.Call == 0 && l.programs != nil {
		if dir, err := l.workDirs.Make(c.Key, c.AssignmentID); err == nil {
			if used, estimate, ok := l.programs.Reported(c.Agent, dir, c.ID); ok {
				end.Usage, end.Estimated = used, estimate.Amount()
				end.Estimated.USD = cmp.Or(end.Estimated.USD, c.Estimated.USD)
			}
		}
	}
	if c.Usage.Max(end.Usage) == (cost.Usage{}) && end.Estimated == (cost.Amount{}) && c.Estimated == (cost.Amount{}) {
		end.State = state.CallFailed // an agent that has never cost anything
	}
	return end
}
