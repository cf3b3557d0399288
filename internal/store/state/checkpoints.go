package state

import (
	"context"
	"database/sql"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Checkpoint is a row of checkpoints. Its document is a blob.
type Checkpoint struct {
	session.Key
	Run int64
	// BoundaryAt is in microseconds. It orders the checkpoints of one run.
	BoundaryAt             int64
	Phase                  string
	Digest, Previous, Tree spec.Digest
	MirroredAt, PrunedAt   sql.Null[int64]
}

// PutCheckpoints writes the rows of checkpoints of one session, whose blobs are stored, without a boundary.
func (d *DB) PutCheckpoints(ctx context.Context, team string, rows ...Checkpoint) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		for _, c := range rows {
			if err := t.insertSession(c.Key, team, "", now); err != nil {
				return err
			}
			if err := t.putCheckpoint(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// Checkpoints lists the checkpoints of a session, newest first, with those that were pruned.
func (d *DB) Checkpoints(ctx context.Context, s session.Key) ([]Checkpoint, error) {
	return list[Checkpoint](ctx, d, "checkpoints", `where namespace = $1 and session = $2 order by run desc, boundary_at desc`,
		s.Namespace, s.Session)
}

// ToMirror lists the sessions whose status or checkpoints the mirror lacks.
func (d *DB) ToMirror(ctx context.Context) ([]session.Key, error) {
	return list[session.Key](ctx, d, "sessions", `where mirrored <> revision order by namespace, session`)
}

// MirroredExecution is Execution, and the revision of the status that the mirror has; -1 if nothing is known of the mirror.
func (d *DB) MirroredExecution(ctx context.Context, key session.Key) (e session.Execution, mirrored int64, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		if e, err = t.execution(key); err != nil {
			return err
		}
		return t.row(`select mirrored from sessions where namespace = $1 and session = $2`,
			key.Namespace, key.Session).Scan(&mirrored)
	})
	return e, mirrored, err
}

// SetPruned notes that the documents of checkpoints may be deleted. The newest of a session stays.
func (d *DB) SetPruned(ctx context.Context, pruned []Checkpoint) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		for _, c := range pruned {
			if _, err := t.exec(`update checkpoints set pruned_at = $5 where namespace = $1 and session = $2 and run = $3
					and boundary_at = $4
				and pruned_at is null and exists (select 1 from checkpoints n where n.namespace = $1 and n.session = $2
					and (n.run > $3 or n.run = $3 and n.boundary_at > $4))`,
				c.Namespace, c.Session, c.Run, c.BoundaryAt, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// Standing is what a prune has to know of a session.
type Standing struct {
	session.Key
	Status session.State
	// Revision is zero if the session has no status yet.
	Revision, StartedAt, UpdatedAt int64
}

// Standings lists all sessions, sorted.
func (d *DB) Standings(ctx context.Context) ([]Standing, error) {
	return list[Standing](ctx, d, "sessions", `order by namespace, session`)
}

// Standing reads one session. The error is [ErrNotFound] if there is none.
func (d *DB) Standing(ctx context.Context, s session.Key) (Standing, error) {
	return one[Standing](ctx, d, "sessions", "where namespace = $1 and session = $2", s.Namespace, s.Session)
}
