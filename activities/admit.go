package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
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
// reused, fences executors of earlier incarnations, and writes the incarnation's
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
		return Admission{}, storeError(err)
	}
	if in.Continues {
		out, err := a.proceed(ctx, in, t)
		return out, storeError(err)
	}
	offers, err := a.Sessions.Offers(ctx)
	if err != nil {
		return Admission{}, storeError(err)
	}
	agents, faults := t.Admissible(offers, a.Clock())
	if faults = append(faults, in.Course.Problems(t)...); len(faults) > 0 {
		return Admission{Problems: faults}, nil
	}
	var r *restoration
	for fenced := false; !fenced; {
		if r, err = a.restore(ctx, in, t, agents); err != nil {
			return Admission{}, storeError(err)
		}
		if len(r.faults) > 0 {
			return Admission{Problems: r.faults}, nil
		}
		if fenced, err = r.fence(); err != nil {
			return Admission{}, storeError(err)
		}
	}
	if err := r.enter(activity.GetInfo(ctx)); err != nil {
		return Admission{}, storeError(err)
	}
	out := r.admission()
	out.Fallbacks, out.Webhook = t.Fallbacks(agents), spec.Webhook(offers, a.Clock())
	if out.Head, err = a.begin(ctx, r); err != nil {
		return Admission{}, storeError(err)
	}
	out.SearchAttributes = a.SearchAttributes.Ready(ctx)
	a.observe(r.status)
	activity.GetLogger(ctx).Info("session admitted", "team", t.Name, "incarnation", out.Incarnation, "phases", len(out.Todo))
	out, err = a.fitting(ctx, out)
	return out, storeError(err)
}

// proceed begins an incarnation of a session that continues as new. It decides nothing again,
// even if workers' offers have changed. It fences executors of the incarnation before and
// writes the first checkpoint.
func (a *Admissions) proceed(ctx context.Context, in AdmitInput, t spec.Team) (Admission, error) {
	info := activity.GetInfo(ctx)
	key := sessionKey(info)
	base, err := a.Sessions.Checkpoint(ctx, in.Base)
	if err != nil {
		return Admission{}, fmt.Errorf("read checkpoint %s: %w", in.Base.Short(), err)
	}
	for _, id := range t.Assignments() {
		if _, err := a.Sessions.UpdateRecord(key, id, in.Incarnation, func(*session.Record) {}); err != nil {
			return Admission{}, err
		}
	}
	if _, err := a.State.Admit(ctx, admissionOf(key, info, t)); err != nil {
		return Admission{}, err
	}
	at := Boundary{At: in.At, Status: in.Status, Course: in.Course, OriginalRun: in.OriginalRun, FirstRun: in.FirstRun}
	at.Status.Incarnation, at.Status.Checkpoint = in.Incarnation, in.Base
	next := nextCheckpoint(ctx, base, at)
	next.Incarnation, next.CurrentPhase = in.Incarnation, spec.ReservedPhase
	out := Admission{Incarnation: in.Incarnation}
	if out.Head, err = a.Sessions.PutCheckpoint(ctx, key, next); err != nil {
		return Admission{}, err
	}
	at.Status.Checkpoint = out.Head
	_, err = writeStatus(a.Sessions, info, at)
	return out, err
}

// observe reports the session, and its assignments that need no work, to the observer.
func (a *Admissions) observe(s session.Status) {
	o := observerOrNone(a.Observer)
	o.SessionStarted(s.Team)
	for _, phase := range s.Phases {
		for _, assignment := range phase.Assignments {
			if assignment.Status.Done() {
				o.AssignmentEnded(s.Team, assignment.Status)
			}
		}
	}
}

// enter makes the run the only one that may begin calls, and sets the session's limits. Calls of earlier runs that have no
// executor are ended: otherwise those of this run would wait for what is reserved for them.
func (r *restoration) enter(info activity.Info) error {
	admission := admissionOf(r.key, info, r.team)
	requirement, err := r.Files.Blob(r.ctx, r.in.Requirement)
	if err != nil {
		return err
	}
	admission.TeamDigest, admission.Requirement, admission.Workspace, admission.Base = string(r.in.Team), string(requirement), string(r.in.Workspace), string(r.in.Base)
	admission.ReportTo, admission.StartedBy, admission.StartedByID = r.in.ReportTo, r.in.StartedBy, r.in.StartedByID
	if _, err := r.State.Admit(r.ctx, admission); err != nil || r.in.Incarnation == 1 {
		return err
	}
	return lostCalls{r.State, r.Sessions, r.Programs, r.WorkDirs}.settleAll(r.ctx, r.key)
}

// begin writes the documents of a session before its first phase: the checkpoint from
// which this incarnation starts, and its status.
func (a *Admissions) begin(ctx context.Context, r *restoration) (spec.Digest, error) {
	info := activity.GetInfo(ctx)
	next, err := r.checkpoint()
	if err != nil {
		return "", err
	}
	next.CreatedAt, next.Temporal = r.in.At, temporalIDs(info)
	head, err := a.Sessions.PutCheckpoint(ctx, r.key, next)
	if err != nil {
		return "", err
	}
	r.status.Status, r.status.StartedAt, r.status.Checkpoint = session.Running, &r.in.At, head
	r.status.Starter = r.in.Starter
	_, err = writeStatus(a.Sessions, info, Boundary{
		At: r.in.At, Status: r.status, Course: r.in.Course, OriginalRun: r.in.OriginalRun, FirstRun: r.in.FirstRun,
	})
	return head, err
}

func temporalIDs(info activity.Info) session.TemporalIDs {
	return session.TemporalIDs{Namespace: info.Namespace, Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
}
