package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/team"
)

// SearchAttributes knows whether the namespace has Maestro's search attributes.
type SearchAttributes interface {
	// Ready registers them where it may. It answers within a second or so, and
	// false where a session has to do without.
	Ready(ctx context.Context) bool
}

// Admissions decides whether sessions may start.
type Admissions struct {
	Files            Files
	Sessions         Sessions
	SearchAttributes SearchAttributes
	Clock            Clock
}

// Admit holds the team against what the store's live workers offer. If every
// agent and check is there, it writes the session's first checkpoint and its
// execution_state.json; else it returns the faults and writes nothing.
func (a *Admissions) Admit(ctx context.Context, in AdmitInput) (Admission, error) {
	if in.Store != a.Sessions.ID() {
		return Admission{Faults: []string{fmt.Sprintf(
			"the session belongs to store %s, but this worker serves store %s; start a worker with that store's --state-dir",
			in.Store, a.Sessions.ID())}}, nil
	}
	t, err := loadTeam(ctx, a.Files, in.Team)
	if err != nil {
		return Admission{}, storeError(err)
	}
	offers, err := a.Sessions.Offers(ctx)
	if err != nil {
		return Admission{}, storeError(err)
	}
	agents, faults := t.Admissible(offers, a.Clock())
	if len(faults) > 0 {
		return Admission{Faults: faults}, nil
	}
	head, err := a.begin(ctx, in, t)
	if err != nil {
		return Admission{}, storeError(err)
	}
	return Admission{
		Team: t.Outline(), Agents: agents, Head: head,
		SearchAttributes: a.SearchAttributes.Ready(ctx),
	}, nil
}

// begin writes what a session has before its first phase.
func (a *Admissions) begin(ctx context.Context, in AdmitInput, t team.Team) (team.Digest, error) {
	requirement, err := a.Files.Blob(ctx, in.Requirement)
	if err != nil {
		return "", fmt.Errorf("read requirement: %w", err)
	}
	info := activity.GetInfo(ctx)
	key, now := sessionKey(info), a.Clock().UTC()
	head, err := a.Sessions.PutCheckpoint(ctx, key, team.Checkpoint{
		Schema: team.CheckpointSchema, Session: key.Session, Incarnation: in.Incarnation,
		Team:        team.Ref{Name: t.Name, Blob: in.Team},
		Requirement: string(requirement), Workspace: in.Workspace, Tree: in.Workspace,
		CurrentPhase: team.ReservedPhase, Decisions: map[string]string{},
		Assignments: []team.CheckpointAssignment{}, Artifacts: []team.Artifact{},
		CreatedAt: now, Temporal: temporalIDs(info),
	})
	if err != nil {
		return "", err
	}
	return head, a.Sessions.UpdateExecution(key, func(e *team.Execution) {
		e.Status = team.NewStatus(key.Session, t)
		e.Status.Status, e.Incarnation, e.StartedAt = team.Running, in.Incarnation, &now
		e.Schema, e.Namespace, e.Store, e.RunID = team.ExecutionSchema, key.Namespace, in.Store, info.WorkflowExecution.RunID
		e.Advance(team.ReservedPhase, head, in.Workspace, now)
	})
}

func temporalIDs(info activity.Info) team.TemporalIDs {
	return team.TemporalIDs{Namespace: info.Namespace, Workflow: info.WorkflowExecution.ID, Run: info.WorkflowExecution.RunID}
}
