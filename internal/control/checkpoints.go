package control

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Checkpoints are the states of sessions after their phases.
type Checkpoints struct{ *Base }

// CheckpointList is the document of a session's checkpoints.
type CheckpointList struct {
	Session string `json:"session"`
	// Checkpoints are the newest first.
	Checkpoints []ListedCheckpoint `json:"checkpoints"`
	Damage
}

// ListedCheckpoint is a checkpoint in a listing.
type ListedCheckpoint struct {
	// Checkpoint is the digest that names it.
	Checkpoint  spec.Digest `json:"checkpoint"`
	Phase       string      `json:"phase"`
	Incarnation int         `json:"incarnation"`
	CreatedAt   time.Time   `json:"created_at"`
	// Assignments and Artifacts are counts.
	Assignments int         `json:"assignments"`
	Artifacts   int         `json:"artifacts"`
	Usage       cost.Usage  `json:"usage"`
	Previous    spec.Digest `json:"previous"`
}

// List lists a session's checkpoints that can be read, the newest first.
func (c Checkpoints) List(ctx context.Context, sessionID string) (CheckpointList, error) {
	doc := CheckpointList{Session: sessionID, Checkpoints: []ListedCheckpoint{}}
	s, key, err := c.inStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	all, damage, err := chain(ctx, s, key)
	if err != nil {
		return doc, err
	}
	doc.Damage = damage
	for _, k := range all {
		doc.Checkpoints = append(doc.Checkpoints, ListedCheckpoint{
			Checkpoint: k.Name, Phase: k.CurrentPhase, Incarnation: k.Incarnation, CreatedAt: k.CreatedAt, Assignments: len(k.Assignments),
			Artifacts: len(k.Artifacts), Usage: k.Usage, Previous: k.Previous,
		})
	}
	return doc, nil
}
