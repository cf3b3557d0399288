package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Seals merges and verifies the phases in which several personas work.
type Seals struct {
	Rounds *Rounds
}

// Seal folds the personas' deltas onto the phase's input, looks whether the
// phase produced what it must, and runs its checks on the merged tree. What is
// wrong with the work is in the result: it is for the workflow to have it
// fixed. An unusable store or a stopping worker is an error that Temporal
// tries again. A check that takes its worker down again and again is given up as
// worker_lost, and a merge of an earlier incarnation is fenced, like a round.
func (s *Seals) Seal(ctx context.Context, in SealInput) (SealResult, error) {
	// A seal is at work like a round: it beats, it stops with its worker, and
	// it holds the lock of the integrator, in whose directory it works.
	r := &round{Rounds: s.Rounds, info: activity.GetInfo(ctx)}
	r.in = RoundInput{AssignmentID: spec.AssignmentID{Phase: in.Phase, Persona: in.Integrator}, Incarnation: in.Incarnation, Input: in.Input}
	work, over := r.atWork(ctx)
	defer over()
	if err := r.retryStore(work, func() (err error) {
		r.session, err = loadSessionContext(work, r.Files, r.Sessions, in.Head)
		return err
	}); err != nil {
		return SealResult{}, r.interrupted(work, err)
	}
	phase, _ := r.session.team.Phase(in.Phase)
	unlock, err := r.lock(work)
	if err != nil {
		return SealResult{}, r.interrupted(work, err)
	}
	defer unlock()

	defer r.relieve(work)
	result, err := r.sealed(work, phase, in)
	if ended := r.endMerge(work); err == nil {
		err = ended
	}
	if err == nil && result.Failure != nil {
		f := *result.Failure
		result.Failure = &failures.Failure{Category: f.Category, Message: textfmt.Shorten(f.Message, session.MaxMessage)}
		err = r.retryStore(work, func() (err error) {
			result.Feedback, err = encodeFeedback(work, r.Files, f)
			return err
		})
	}
	return result, r.interrupted(work, err)
}

func (r *round) sealed(ctx context.Context, phase spec.Phase, in SealInput) (SealResult, error) {
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, a := range in.Assignments {
		done[a.AssignmentID] = a
	}
	steps := session.Steps(r.session.team, []string{phase.Name}, done)
	var folded session.Folded
	if err := r.retryStore(ctx, func() (err error) {
		folded, err = r.Files.Fold(ctx, in.Input, steps)
		return err
	}); err != nil {
		return SealResult{}, err
	}
	result := SealResult{Tree: folded.Manifest}
	_, conflicts := session.MergeDecisions(nil, steps)
	if conflicts = append(folded.Conflicts, conflicts...); len(conflicts) > 0 {
		result.Failure = conflictFailure(phase.Name, conflicts)
		return result, nil
	}
	return r.verify(ctx, phase, in, result)
}

// verify holds the merged tree against what the phase has to produce and pass.
func (r *round) verify(ctx context.Context, phase spec.Phase, in SealInput, result SealResult) (SealResult, error) {
	changed, err := r.changedBetween(ctx, in.Input, result.Tree)
	if err != nil {
		return result, err
	}
	if result.Failure = missing(phase.Produces, changed); result.Failure != nil || len(phase.Checks) == 0 {
		return result, nil
	}
	var dir session.WorkDir
	if err := r.retryStore(ctx, func() error {
		if dir, err = r.workDir(); err != nil {
			return err
		}
		return r.Files.Materialise(ctx, result.Tree, dir.Tree)
	}); err != nil {
		result.Failure, err = r.failedChecks(ctx, in.Outage, err)
		return result, err
	}
	req := session.Collect{Base: result.Tree, Dir: dir.Tree, Ignore: r.session.team.Ignore, Secrets: r.Agents.Secrets()}
	if f, err := r.startMerge(ctx); err != nil || f != nil {
		result.Failure = f
		return result, err
	}
	var kept session.Collected
	var outcome session.Outcome
	for _, check := range phase.Checks {
		if kept, err = r.check(ctx, check, dir, req, kept, &outcome); err != nil {
			result.Failure, err = r.failedChecks(ctx, in.Outage, counted(err))
			return result, err
		}
	}
	if kept.Delta != "" {
		result.Kept, result.Tree = kept.Delta, kept.Output
	}
	return result, nil
}

// startMerge notes durably that the checks are about to be started, and counts a lost worker
// if an execution before this one has not noted their end. The failure says that
// they take their workers down.
func (r *round) startMerge(ctx context.Context) (failure *failures.Failure, err error) {
	err = r.changeMerge(ctx, func(m *session.MergeLog) {
		if m.Started {
			m.Lost++
			observerOrNone(r.Observer).WorkerLost(r.agent())
		}
		m.Started = r.LostLimit == 0 || m.Lost < r.LostLimit
		if !m.Started {
			failure = failures.Failf(failures.WorkerLost, "the worker was lost %d times in a row during the checks of phase %s", m.Lost, r.in.Phase)
		}
	})
	return failure, err
}

// endMerge notes that the checks have ended. It does so, too, for an execution that
// is stopped: only where the store cannot take it, the next one counts a lost worker.
func (r *round) endMerge(ctx context.Context) error {
	if !r.merging {
		return nil
	}
	end := func(m *session.MergeLog) { m.Started = false }
	if ctx.Err() == nil {
		return r.changeMerge(ctx, end)
	}
	return r.putMerge(end)
}

// changeMerge changes the merge's log in the integrator's record, durably.
func (r *round) changeMerge(ctx context.Context, change func(*session.MergeLog)) error {
	err := r.retryStore(ctx, func() error { return r.putMerge(change) })
	r.merging = err == nil
	return err
}

func (r *round) putMerge(change func(*session.MergeLog)) error {
	_, err := r.Sessions.UpdateRecord(r.session.key, r.in.AssignmentID, r.in.Incarnation, func(record *session.Record) {
		if record.Merge == nil || record.Merge.Key != r.key() {
			record.Merge = &session.MergeLog{Key: r.key()}
		}
		change(record.Merge)
	})
	return err
}

// failedChecks tells a failure of the work, which somebody has to fix, from the
// activity's own errors. Trouble of the host is waited out like that of a round: by
// another execution of the merge, without a slot.
func (r *round) failedChecks(ctx context.Context, order OutageOrder, err error) (*failures.Failure, error) {
	f, ok := asFailure(err)
	switch {
	case !ok:
		return nil, err
	case ctx.Err() != nil || !r.waitsOut(*f):
		return f, nil
	}
	now, patience := r.Clock().UTC(), r.session.team.Retry.WaitsOut()
	var o session.Outage
	if err := r.changeMerge(ctx, func(m *session.MergeLog) {
		o = m.Outage.After(r.masked(*f), r.agent(), now, patience, r.Random.next())
		m.Outage = &o
	}); err != nil {
		return nil, err
	}
	until := o.PatienceUntil(patience)
	switch {
	case order == OutageNoticed:
		return nil, recoverable(o.Failure, o.Until.Sub(now))
	case now.Before(until):
		return nil, recoverable(o.Failure, min(o.Until.Sub(now), until.Sub(now)))
	case r.session.team.Retry.OnOutage == spec.OutageFail:
		return f, nil
	}
	record, err := r.Sessions.Record(r.session.key, r.in.AssignmentID)
	if err != nil {
		return nil, err
	}
	return nil, providerOutage(o, record.Usage)
}

// changedBetween lists the files of a tree that differ from its input's.
func (r *round) changedBetween(ctx context.Context, input, tree spec.Digest) (changed []string, err error) {
	err = r.retryStore(ctx, func() (err error) {
		changed, err = r.Files.Changed(ctx, input, tree)
		return err
	})
	return changed, err
}

// conflictFailure tells the integrator on what the personas disagree.
func conflictFailure(phase string, conflicts []session.Conflict) *failures.Failure {
	var lines []string
	for _, c := range conflicts {
		lines = append(lines, c.String())
	}
	slices.Sort(lines)
	f := failures.Failf(failures.ContractViolation, "merge conflict between personas of phase %s: %s", phase, strings.Join(lines, "; "))
	f.Output = fmt.Sprintf("%s\nThe tree has the version of the last one named. Merge all versions into one.", strings.Join(lines, "\n"))
	return f
}
