package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Checkpoints are the states of sessions after their phases.
type Checkpoints struct{ *Base }

// CheckpointList is the document of a session's checkpoints.
type CheckpointList struct {
	Session string `json:"session"`
	// Checkpoints are sorted newest first.
	Checkpoints []ListedCheckpoint `json:"checkpoints"`
	Damage
}

// ListedCheckpoint is a checkpoint in a list.
type ListedCheckpoint struct {
	// Checkpoint is its digest.
	Checkpoint spec.Digest `json:"checkpoint"`
	Phase      string      `json:"phase"`
	// TimesDone counts how often the phase was done until then, from 1. SentBack: its work was just undone.
	// Approved: persons have approved it.
	TimesDone int       `json:"times_done"`
	SentBack  bool      `json:"sent_back,omitempty"`
	Approved  bool      `json:"approved,omitempty"`
	Run       int       `json:"run"`
	CreatedAt time.Time `json:"created_at"`
	// Assignments and Artifacts are counts.
	Assignments int         `json:"assignments"`
	Artifacts   int         `json:"artifacts"`
	Usage       cost.Usage  `json:"usage"`
	Previous    spec.Digest `json:"previous"`
	// File is the file of the mirror for checkpoints after the phase.
	File string `json:"file"`
}

// Name says for people after what the checkpoint was taken.
func (c ListedCheckpoint) Name() string {
	name := c.Phase
	switch {
	case c.Phase == spec.ReservedPhase:
		return "the start"
	case c.SentBack:
		return name + ", sent back"
	case c.TimesDone > 1:
		name += fmt.Sprintf(", done %d times", c.TimesDone)
	}
	if c.Approved {
		name += ", approved"
	}
	return name
}

// ShownCheckpoint is the document of a checkpoint: the checkpoint and the digest that names it.
type ShownCheckpoint struct {
	Name spec.Digest `json:"checkpoint"`
	session.Checkpoint
	Damage
}

// List lists a session's checkpoints.
func (c Checkpoints) List(ctx context.Context, sessionID string) (CheckpointList, error) {
	doc := CheckpointList{Session: sessionID, Checkpoints: []ListedCheckpoint{}}
	s, key, err := c.InStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	all, damage, err := chain(ctx, s, key)
	if err != nil {
		return doc, err
	}
	doc.Damage = damage
	for _, one := range all {
		file, err := s.CheckpointPath(key, one.CurrentPhase)
		if err != nil {
			return doc, err
		}
		sentBack, approved := one.Review(one.CurrentPhase)
		doc.Checkpoints = append(doc.Checkpoints, ListedCheckpoint{
			Checkpoint: one.Name, Phase: one.CurrentPhase,
			TimesDone: one.TimesDone(one.CurrentPhase), SentBack: sentBack, Approved: approved,
			Run: one.Run, CreatedAt: one.CreatedAt,
			Assignments: len(one.Assignments), Artifacts: len(one.Artifacts), Usage: one.Usage, Previous: one.Previous, File: file,
		})
	}
	return doc, nil
}

// CheckpointInput names a checkpoint.
type CheckpointInput struct {
	Session    string `path:"session" maxLength:"200" doc:"the session's id"`
	Checkpoint string `path:"checkpoint" maxLength:"200" doc:"the phase that it was taken after, or the beginning of its digest"`
}

// Read finds a checkpoint by its phase or a prefix of its digest; without one, the newest.
func (c Checkpoints) Read(ctx context.Context, in CheckpointInput) (ShownCheckpoint, error) {
	which := in.Checkpoint
	s, key, err := c.InStore(ctx, in.Session)
	if err != nil {
		return ShownCheckpoint{}, err
	}
	all, damage, err := chain(ctx, s, key)
	if err != nil {
		return ShownCheckpoint{}, err
	}
	if which == "" && len(all) > 0 {
		which = string(all[0].Name)
	}
	one, err := checkpointOf(all, in.Session, which)
	return ShownCheckpoint{one.Name, one.Checkpoint, damage}, err
}

// checkpointOf is the newest of a session's checkpoints that was taken after a phase, or whose digest begins so.
func checkpointOf(all []store.StoredCheckpoint, sessionID, which string) (store.StoredCheckpoint, error) {
	var phases []string
	for _, one := range all {
		if one.CurrentPhase == which || len(which) >= 6 && strings.HasPrefix(string(one.Name), which) {
			return one, nil
		}
		phases = append(phases, one.CurrentPhase)
	}
	return store.StoredCheckpoint{}, notFoundf("checkpoint %q of session %s not found; it has those after %s",
		textfmt.Shorten(which, 80), sessionID, strings.Join(phases, ", "))
}

// Verify reads a session's rows, mirror and blobs, and repairs them if possible; damaged blobs are
// moved to the directory damaged of the store. That may affect other sessions, too: the caller needs a role for
// all teams.
func (c Checkpoints) Verify(ctx context.Context, sessionID string) (store.Report, error) {
	s, key, err := c.InStore(ctx, sessionID)
	if err != nil {
		return store.Report{}, err
	}
	return c.verify(ctx, s, sessionID, func(ctx context.Context) (store.Report, error) { return s.VerifySession(ctx, key) })
}

// VerifyAll is like Verify for the whole store.
func (c Checkpoints) VerifyAll(ctx context.Context) (store.Report, error) {
	return c.verify(ctx, c.Store, "", c.Store.VerifyAll)
}

func (c Checkpoints) verify(
	ctx context.Context, s *store.Store, sessionID string, rows func(context.Context) (store.Report, error),
) (report store.Report, err error) {
	event := access.Event{Action: "checkpoints.verify", Session: sessionID, Team: access.AllTeams}
	err = c.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		report, err = rows(ctx)
		return errors.Join(err, verifyLayers(s, &report))
	})
	report.Faults = append([]cas.Fault{}, report.Faults...) // never null in a document
	return report, err
}

// verifyLayers adds the layers on this host that are not as they were made.
func verifyLayers(s *store.Store, report *store.Report) error {
	for _, dir := range []string{s.Dir(), workdir.Beside(s.Dir())} {
		root := filepath.Join(dir, "layers")
		removed, err := layers.Verify(root)
		if err != nil {
			return fmt.Errorf("verify the layers in %s: %w", root, err)
		}
		for _, name := range removed {
			report.Faults = append(report.Faults, cas.Fault{
				Path: filepath.Join("layers", name), What: "its files were changed since it was made", Kind: session.ErrCorrupt,
				Repaired: "removed; it is made again from the store",
			})
		}
	}
	return nil
}
