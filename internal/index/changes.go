package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrReset reports that the reader's position is of an earlier or another index: the reader has to
// start again.
var ErrReset = errors.New("the index was rebuilt")

// Position is the last change that a reader has seen. The zero Position is before all changes.
type Position struct {
	// Epoch identifies the index until it is rebuilt.
	Epoch    string `json:"epoch"`
	Sequence int64  `json:"sequence"`
}

// Change reports that a session has changed.
type Change struct {
	Session string `json:"session"`
	// Removed: the store does not have it any more.
	Removed bool `json:"removed,omitempty"`
	// Sequence is that of the session's last change.
	Sequence int64 `json:"sequence"`
}

// Changes lists the sessions of a namespace that refreshes have found changed since a position,
// each once, in the order of their last changes, and the new position of the reader.
func (x *Index) Changes(ctx context.Context, namespace string, after Position) (changes []Change, now Position, err error) {
	err = x.use(ctx, func(db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // it has changed nothing
		if now, err = position(ctx, tx); err != nil {
			return err
		}
		if after != (Position{}) && (after.Epoch != now.Epoch || after.Sequence > now.Sequence || after.Sequence < 0) {
			return ErrReset
		}
		changes = []Change{}
		const query = `SELECT session, 0, sequence FROM sessions WHERE namespace = ?1 AND sequence > ?2
			UNION ALL SELECT session, 1, sequence FROM removed WHERE namespace = ?1 AND sequence > ?2 ORDER BY 3`
		return each(ctx, tx, query, []any{namespace, after.Sequence}, func(row *values) error {
			changes = append(changes, Change{Session: row.text(), Removed: row.integer() != 0, Sequence: row.integer()})
			return nil
		})
	})
	if errors.Is(err, ErrReset) {
		return nil, now, ErrReset
	}
	if err != nil {
		return nil, Position{}, fmt.Errorf("read the index: %w", err)
	}
	return changes, now, nil
}

// position is the position of the last change.
func position(ctx context.Context, db querier) (p Position, err error) {
	found := false
	err = each(ctx, db, "SELECT epoch, sequence FROM state", nil, func(row *values) error {
		p, found = Position{Epoch: row.text(), Sequence: row.integer()}, true
		return nil
	})
	if err == nil && !found {
		err = errValue
	}
	return p, err
}
