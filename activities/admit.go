package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// SearchAttributes finds out whether the namespace has Maestro's search attributes.
type SearchAttributes interface {
	// Ready registers them if it is permitted, and reports whether they exist. It returns
	// within about a second; false: the session runs without them.
	Ready(ctx context.Context) bool
}

// Admissions decides whether sessions may start, and which of their earlier work is
// reused.
type Admissions struct {
	Files    Files
	Sessions Sessions
	State    State
	// Programs reads in WorkDirs the usage of calls that were cut off; nil: nobody does.
	Programs         ProgramUsage
	WorkDirs         WorkDirs
	SearchAttributes SearchAttributes
	// Observer records sessions that start.
	Observer Observer
	Clock    Clock
}

// Admit compares the team with the offers of the store's live workers. If every
// agent and check is offered, it decides which of the session's earlier work is
// reused, fences executors of earlier runs, and writes the run's
// first checkpoint and its status. Otherwise it returns the faults and writes
// nothing. An admission that is too large for a payload is returned as a [LargeValue].
func (a *Admissions) Admit(ctx context.Context, in AdmitInput) (Admission, error) {
	if in.Store != a.Sessions.ID() {
		return Admission{Problems: []string{fmt.Sprintf(
			"the session belongs to store %s, but this worker serves store %s; start a worker with that store's --state-dir",
			in.Store, a.Sessions.ID())}}, nil
	}
	t, err := a.Sessions.Team(ctx, in.Team)
	if err != nil {
		return Admission{}, storeError(ctx, err)
	}
	if in.Continues {
		out, err := a.proceed(ctx, in, t)
		return out, storeError(ctx, err)
	}
	offers, err := a.State.Offers(ctx)
	if err != nil {
		return Admission{}, storeError(ctx, err)
	}
	agents, faults := t.Admissible(offers, a.Clock())
	if agents == nil { // this worker lives, but its offer could not be renewed in time: the database was away
		return Admission{}, storeError(ctx, fmt.Errorf("no worker has renewed its offer within %s", spec.OfferLifetime))
	}
	if faults = append(faults, in.Course.Problems(t)...); len(faults) > 0 {
		return refuseAdmission(ctx, faults), nil
	}
	r, err := a.claimAndRestore(ctx, in, t, agents)
	if err != nil {
		return Admission{}, storeError(ctx, err)
	}
	if len(r.faults) > 0 {
		return refuseAdmission(ctx, r.faults), nil
	}
	if r.status.Checkpoint, err = a.writeFirstCheckpoint(ctx, r); err != nil {
		return Admission{}, storeError(ctx, err)
	}
	out := r.admission()
	out.Fallbacks, out.Webhook, out.SearchAttributes = t.Fallbacks(agents), spec.Webhook(offers, a.Clock()),
		a.SearchAttributes.Ready(ctx)
	a.observe(r.status)
	activity.GetLogger(ctx).Info("session admitted", "team", t.Name, "run", r.status.Run, "phases", len(out.Todo))
	out, err = a.fitting(ctx, out)
	return out, storeError(ctx, err)
}

// claimAndRestore decides on the session's work, and makes this run the only one that may write. A resume decides twice:
// before it fences the run before, and after, because that run may have finished work in between. Calls of earlier runs that
// have no executor are ended: otherwise those of this run would wait for what is reserved for them.
func (a *Admissions) claimAndRestore(ctx context.Context, in AdmitInput, t spec.Team,
	agents map[string]spec.OfferedAgent,
) (*restoration, error) {
	r, err := a.restore(ctx, in, t, agents)
	if err != nil || len(r.faults) > 0 {
		return r, err
	}
	info := activity.GetInfo(ctx)
	admission := admissionOf(r.key, info, t)
	admission.TeamDigest, admission.Requirement, admission.Workspace, admission.Base = string(in.Team), r.requirement,
		string(in.Workspace), string(in.Base)
	admission.Selection, admission.ReportTo = in.Course, in.ReportTo
	admission.OriginalRun = in.OriginalRun
	run, err := a.State.Admit(ctx, admission)
	if err != nil {
		return r, err
	}
	if in.Run > 1 {
		if r, err = a.restore(ctx, in, t, agents); err != nil || len(r.faults) > 0 {
			return r, err
		}
		if err := a.State.Undo(ctx, r.key, info.WorkflowExecution.RunID, r.undone()); err != nil {
			return r, err
		}
		if err := (lostCalls{a.State, a.Sessions, a.Programs, a.WorkDirs, nil}).endAll(ctx, r.key); err != nil {
			return r, err
		}
	}
	r.status.Run = int(run)
	return r, nil
}

// admissionOf is the admission of an activity's run in the state.
func admissionOf(key session.Key, info activity.Info, t spec.Team) state.Admission {
	return state.Admission{
		Key: key, TemporalRun: info.WorkflowExecution.RunID, OriginalRun: info.WorkflowExecution.RunID, Team: t.Name,
		Caps: budget.Caps(t),
	}
}

// writeFirstCheckpoint writes what a session has before its first phase: the checkpoint from
// which this run starts, and its status.
func (a *Admissions) writeFirstCheckpoint(ctx context.Context, r *restoration) (spec.Digest, error) {
	info := activity.GetInfo(ctx)
	next, err := r.checkpoint()
	if err != nil {
		return "", err
	}
	next.CreatedAt, next.Temporal = r.in.At, temporalIDs(info)
	r.status.Status, r.status.StartedAt = session.Running, &r.in.At
	return a.boundaries().writeBoundary(ctx, Boundary{At: r.in.At, Status: r.status, FirstRun: r.in.FirstRun}, &next)
}

func temporalIDs(info activity.Info) session.TemporalIDs {
	return session.TemporalIDs{Namespace: info.Namespace, Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
}

func (a *Admissions) boundaries() boundaryWriter {
	return boundaryWriter{a.Sessions, a.State, a.Observer}
}

// observe reports the session, and its assignments that need no work, to the observer.
func (a *Admissions) observe(s session.Status) {
	a.Observer.SessionStarted(s.Team)
	for _, phase := range s.Phases {
		for _, assignment := range phase.Assignments {
			if assignment.Status.Done() {
				a.Observer.AssignmentEnded(s.Team, assignment.Status)
			}
		}
	}
}

// proceed begins a run of a session that continues as new. It decides nothing again,
// even if workers' offers have changed. It fences executors of the run before and
// writes the first checkpoint.
func (a *Admissions) proceed(ctx context.Context, in AdmitInput, t spec.Team) (Admission, error) {
	info := activity.GetInfo(ctx)
	key := sessionKey(info)
	base, err := a.Sessions.Checkpoint(ctx, in.Base)
	if err != nil {
		return Admission{}, fmt.Errorf("read checkpoint %s: %w", in.Base.Short(), err)
	}
	admission := admissionOf(key, info, t)
	admission.OriginalRun, admission.TeamDigest, admission.Base = in.OriginalRun, string(in.Team), string(in.Base)
	admission.Selection, admission.Continues = in.Course, true
	run, err := a.State.Admit(ctx, admission)
	if err != nil {
		return Admission{}, err
	}
	at := Boundary{At: in.At, Status: in.Status, FirstRun: in.FirstRun}
	at.Status.Run, at.Status.Checkpoint = int(run), in.Base
	next := nextCheckpoint(ctx, base, at)
	next.Run, next.CurrentPhase = int(run), spec.ReservedPhase
	out := Admission{Status: session.Status{Run: int(run)}}
	out.Status.Checkpoint, err = a.boundaries().writeBoundary(ctx, at, &next)
	return out, err
}
