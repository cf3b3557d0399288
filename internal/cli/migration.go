package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/maestro-hive/maestro/internal/hive"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
)

// migration makes a session out of what Maestro Hive had done: a checkpoint
// before the first phase and one after each that was completed, with the work as
// supplied.
type migration struct {
	store *store.Store
	team  team.Team
	work  hive.Work
	key   team.SessionKey
	now   time.Time

	empty     team.Digest // the delta that changes nothing
	workspace team.Digest
	done      map[team.AssignmentID]team.CheckpointAssignment
	chain     []team.Checkpoint
}

// importSession stores the session and returns its newest checkpoint.
func (m *migration) importSession(ctx context.Context) (team.Digest, error) {
	if err := m.begin(ctx); err != nil {
		return "", err
	}
	for _, p := range m.work.Phases {
		if err := m.phase(ctx, p); err != nil {
			return "", err
		}
	}
	return m.store.ImportCheckpoints(ctx, m.key, m.state(), m.chain)
}

// begin makes the checkpoint before the first phase.
func (m *migration) begin(ctx context.Context) (err error) {
	m.done = map[team.AssignmentID]team.CheckpointAssignment{}
	if m.empty, err = m.store.PutDelta(ctx, store.Delta{}); err != nil {
		return err
	}
	if m.workspace, err = m.store.PutManifest(ctx, store.Manifest{}); err != nil {
		return err
	}
	data, err := json.Marshal(m.team)
	if err != nil {
		return err
	}
	blob, err := m.store.PutBlob(ctx, data)
	m.chain = []team.Checkpoint{{
		Incarnation: 1, Team: team.Ref{Name: m.team.Name, Blob: blob}, Requirement: m.work.Requirement,
		Workspace: m.workspace, Tree: m.workspace, CurrentPhase: team.ReservedPhase, CreatedAt: m.now,
		Assignments: []team.CheckpointAssignment{}, Decisions: map[string]string{}, Artifacts: []team.Artifact{},
		Temporal: team.TemporalIDs{Namespace: m.key.Namespace, Workflow: m.key.Session},
	}}
	return err
}

// phase adds a completed phase and the checkpoint after it.
func (m *migration) phase(ctx context.Context, p hive.Phase) error {
	phase, _ := m.team.Phase(p.Name)
	content, err := m.store.PutBlob(ctx, p.Content)
	if err != nil {
		return err
	}
	delta, err := m.store.PutDelta(ctx, store.Delta{p.Path: {Entry: store.Entry{SHA256: content, Size: int64(len(p.Content))}}})
	if err != nil {
		return err
	}
	input, err := m.store.Fold(ctx, m.workspace, team.Steps(m.team, m.team.Ancestors(p.Name), m.done))
	if err != nil {
		return err
	}
	work := team.Work{Delta: delta, Decisions: p.Decisions}
	for _, a := range team.SupplyPhase(phase, work, input.Manifest, m.empty, "imported from Maestro Hive: "+p.From) {
		m.done[a.AssignmentID] = a
	}
	c := m.chain[len(m.chain)-1]
	c.CurrentPhase, c.Assignments = p.Name, nil
	if c.CreatedAt = p.CompletedAt; c.CreatedAt.IsZero() {
		c.CreatedAt = m.now
	}
	for _, id := range m.team.Assignments() {
		if a, ok := m.done[id]; ok {
			c.Assignments = append(c.Assignments, a)
		}
	}
	steps := team.Steps(m.team, m.team.PhaseNames(), m.done)
	folded, err := m.store.Fold(ctx, m.workspace, steps)
	if err != nil {
		return err
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = team.MergeDecisions(nil, steps)
	c.Artifacts, err = m.store.Artifacts(ctx, steps)
	m.chain = append(m.chain, c)
	return err
}

// state is the session's state after the last phase.
func (m *migration) state() team.Execution {
	last := m.chain[len(m.chain)-1]
	e := team.Execution{Status: team.NewStatus(m.key.Session, m.team)}
	e.Status.Status, e.StartedAt, e.Decisions = team.Running, &m.now, last.Decisions
	for _, a := range last.Assignments {
		*e.Assignment(a.AssignmentID) = team.AssignmentStatus{
			Persona: a.Persona, Status: a.Status, Failures: []team.AttemptFailure{}, Summary: a.Summary,
		}
	}
	for i, p := range e.Phases {
		for _, done := range m.work.Phases {
			if done.Name == p.Name {
				e.Phases[i].Status = team.Supplied
			}
		}
	}
	return e
}
