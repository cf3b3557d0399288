package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// ErrSessionExists says that the store has a session of this name already.
var ErrSessionExists = errors.New("the store has this session already")

// planted is a session that comes from elsewhere, whose blobs are stored.
type planted struct {
	key   team.SessionKey
	state team.Execution
	// copies are the bytes of the newest checkpoint after each phase.
	copies  map[string][]byte
	records []team.Record
	notes   prunedNote
	// journals are whole; ledger is zero where nothing was paid.
	journals map[team.AssignmentID]*journalFile
	ledger   budget.Ledger
}

// plant puts a session into the store, all of its documents at once: after a
// crash either the whole session is there or nothing of it. One that is there
// already is [ErrSessionExists]. A session that was under way counts as failed:
// nothing runs it.
func (s *Store) plant(ctx context.Context, p planted) (err error) {
	if err := s.checkVacancy(p.key); err != nil {
		return err
	}
	dir, err := s.SessionDir(p.key)
	if err != nil {
		return err
	}
	if err := s.makeDir(s.path("tmp"), untilPowerLoss); err != nil {
		return err
	}
	stage, err := os.MkdirTemp(s.path("tmp"), "import-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(stage)
		}
	}()
	documents, err := s.render(p)
	if err != nil {
		return err
	}
	for name, data := range documents {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.write(filepath.Join(stage, name), data, durable); err != nil {
			return err
		}
	}
	if err := s.makeDir(filepath.Dir(dir), durable); err != nil {
		return err
	}
	if err := os.Rename(stage, dir); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("session %s: %w", p.key.Session, ErrSessionExists)
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func (s *Store) checkVacancy(key team.SessionKey) error {
	known, err := s.HasSession(key)
	if err != nil {
		return err
	}
	if known {
		return fmt.Errorf("session %s: %w", key.Session, ErrSessionExists)
	}
	return nil
}

// render writes a session's documents, by name.
func (s *Store) render(p planted) (map[string][]byte, error) {
	out := map[string][]byte{}
	for phase, data := range p.copies {
		out[checkpointPrefix+phase+".json"] = data
	}
	var err error
	for _, r := range p.records {
		r.Schema = team.RecordSchema
		if out[filepath.Join("assignments", r.Assignment.Phase+"."+r.Assignment.Persona+".json")], err = seal(r); err != nil {
			return nil, err
		}
	}
	if len(p.notes.Checkpoints) > 0 {
		p.notes.Schema, p.notes.Session = prunedSchema, p.key.Session
		if out[prunedFile], err = seal(p.notes); err != nil {
			return nil, err
		}
	}
	for id, f := range p.journals {
		out[filepath.Join("assignments", journalName(id))] = f.sound
	}
	if p.ledger.Schema != "" {
		if out[ledgerFile], err = sealLedger(p.ledger); err != nil {
			return nil, err
		}
		if allowed, err := allowancesOf(p.ledger); err != nil {
			return nil, err
		} else if len(allowed) > 0 {
			out[allowanceFile] = allowed
		}
	}
	e, now := p.state, s.now().UTC()
	if !e.Status.Status.Closed() {
		e.Reason = "imported; go on with `maestro resume " + p.key.Session + "`"
		e.Status.Status, e.ClosedAt = team.Failed, &now
		settleImported(&e.Status)
	}
	e.Schema, e.Store, e.Namespace, e.Session = team.ExecutionSchema, s.id, p.key.Namespace, p.key.Session
	e.Revision, e.UpdatedAt = e.Revision+1, now
	out[executionFile], err = seal(e)
	return out, err
}

// settleImported makes what was under way yet to do.
func settleImported(st *team.Status) {
	for i, p := range st.Phases {
		for j, a := range p.Assignments {
			if !a.Status.Done() {
				st.Phases[i].Assignments[j].Status, st.Phases[i].Assignments[j].Progress = team.Pending, ""
			}
		}
		if !p.Status.Done() {
			st.Phases[i].Status = team.Pending
		}
	}
}

// PlantSession makes a closed session out of work that was done elsewhere: a
// chain of checkpoints, the oldest first, and the state of the last. Their blobs
// must be stored. Previous and Session of the checkpoints are filled in. A session
// that is there already is [ErrSessionExists].
func (s *Store) PlantSession(ctx context.Context, key team.SessionKey, e team.Execution, chain []team.Checkpoint) (team.Digest, error) {
	if err := s.checkVacancy(key); err != nil {
		return "", err
	}
	p := planted{key: key, state: e, copies: map[string][]byte{}}
	var head team.Digest
	for _, c := range chain {
		c.Schema, c.Session, c.Previous = team.CheckpointSchema, key.Session, head
		data, err := seal(c)
		if err != nil {
			return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
		}
		if head, err = s.PutBlob(ctx, data); err != nil {
			return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
		}
		p.copies[c.CurrentPhase] = data
		p.state.Advance(c.CurrentPhase, head, c.Tree, s.now().UTC())
	}
	if err := s.plant(ctx, p); err != nil {
		return "", err
	}
	return head, nil
}
