package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/hiveimport"
)

// migration makes a session from a checkpoint of Maestro Hive: a checkpoint
// before the first phase and one after each that was completed, with the work as
// supplied.
type migration struct {
	store *store.Store
	team  spec.Team
	work  hiveimport.Work
	key   session.Key
	now   time.Time

	empty     spec.Digest // the delta that changes nothing
	workspace spec.Digest
	done      map[spec.AssignmentID]session.CheckpointAssignment
	chain     []session.Checkpoint
}

// importSession stores the session and returns its newest checkpoint.
func (m *migration) importSession(ctx context.Context) (spec.Digest, error) {
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
	m.done = map[spec.AssignmentID]session.CheckpointAssignment{}
	if m.empty, err = m.store.Content.PutDelta(ctx, cas.Delta{}); err != nil {
		return err
	}
	if m.workspace, err = m.store.Content.PutManifest(ctx, cas.Manifest{}); err != nil {
		return err
	}
	data, err := json.Marshal(m.team)
	if err != nil {
		return err
	}
	blob, err := m.store.Content.PutBlob(ctx, data)
	m.chain = []session.Checkpoint{{
		Run: 1, Team: session.Ref{Name: m.team.Name, Blob: blob}, Requirement: m.work.Requirement,
		Workspace: m.workspace, Tree: m.workspace, CurrentPhase: spec.ReservedPhase, CreatedAt: m.now,
		Assignments: []session.CheckpointAssignment{}, Decisions: map[string]string{}, Artifacts: []session.Artifact{},
		Temporal: session.TemporalIDs{Namespace: m.key.Namespace, Workflow: m.key.Session},
	}}
	return err
}

// phase adds a completed phase and the checkpoint after it.
func (m *migration) phase(ctx context.Context, p hiveimport.Phase) error {
	phase, _ := m.team.Phase(p.Name)
	content, err := m.store.Content.PutBlob(ctx, p.Content)
	if err != nil {
		return err
	}
	delta, err := m.store.Content.PutDelta(ctx, cas.Delta{p.Path: {Entry: cas.Entry{SHA256: content, Size: int64(len(p.Content))}}})
	if err != nil {
		return err
	}
	input, err := m.store.Content.Fold(ctx, m.workspace, session.Steps(m.team, m.team.Ancestors(p.Name), m.done))
	if err != nil {
		return err
	}
	work := session.Work{Delta: delta, Decisions: p.Decisions}
	for _, a := range session.SupplyPhase(phase, work, input.Manifest, m.empty, "imported from Maestro Hive: "+p.From) {
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
	steps := session.Steps(m.team, m.team.PhaseNames(), m.done)
	folded, err := m.store.Content.Fold(ctx, m.workspace, steps)
	if err != nil {
		return err
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = session.MergeDecisions(nil, steps)
	c.Artifacts, err = m.store.Content.Artifacts(ctx, steps)
	m.chain = append(m.chain, c)
	return err
}

// state is the session's state after the last phase.
func (m *migration) state() session.Execution {
	last := m.chain[len(m.chain)-1]
	e := session.Execution{Status: session.NewStatus(m.key.Session, m.team)}
	e.Status.Status, e.StartedAt, e.ClosedAt, e.Decisions = session.Failed, &m.now, &m.now, last.Decisions
	e.Reason = "imported; go on with `maestro resume " + m.key.Session + "`"
	for _, a := range last.Assignments {
		as := e.Assignment(a.AssignmentID)
		as.Status, as.Summary = a.Status, a.Summary
	}
	for i, p := range e.Phases {
		for _, done := range m.work.Phases {
			if done.Name == p.Name {
				e.Phases[i].Status = session.Supplied
			}
		}
	}
	return e
}
