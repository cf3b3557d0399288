package state

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// ErrRepeated means that a change with this id was made before.
var ErrRepeated = errors.New("this change was made before")

// rememberedReports is how many ids of changes a breaker knows again.
const rememberedReports = 100

// breakerRow is a row of breakers.
type breakerRow struct {
	session.BreakerStatus
	// Applied has the ids of the last changes, oldest first.
	Applied []string
}

// ChangeBreaker reads a breaker at the database's time, and writes it unless change returns false. The error is [ErrRepeated] if
// a change with the same id was made before; an empty id is none.
func (d *DB) ChangeBreaker(ctx context.Context, name, id string,
	change func(b session.BreakerStatus, now time.Time) (after session.BreakerStatus, changed bool),
) error {
	return d.writeAt(ctx, func(t *Tx, micros int64) error {
		now := timeOf(micros)
		fresh := breakerRow{BreakerStatus: session.NewBreaker(name), Applied: []string{}}
		fresh.Since = now
		if err := t.put("breakers", "name", columnsOf(&fresh), "false"); err != nil {
			return err
		}
		var row breakerRow
		if err := t.get(&row, "breakers", "where name = $1"+t.lockRows, name); err != nil {
			return err
		}
		if id != "" && slices.Contains(row.Applied, id) {
			return ErrRepeated
		}
		after, changed := change(row.BreakerStatus, now)
		if !changed {
			return nil
		}
		row.BreakerStatus = after
		if id != "" {
			row.Applied = append(row.Applied, id)
			row.Applied = row.Applied[max(0, len(row.Applied)-rememberedReports):]
		}
		return t.put("breakers", "name", columnsOf(&row), "true")
	})
}

// Breakers lists the breakers that have counted something by name.
func (d *DB) Breakers(ctx context.Context) ([]session.BreakerStatus, error) {
	return list[session.BreakerStatus](ctx, d, "breakers", "order by name")
}

// Breaker reads a breaker. The error is [ErrNotFound] if it has never counted anything.
func (d *DB) Breaker(ctx context.Context, name string) (session.BreakerStatus, error) {
	return one[session.BreakerStatus](ctx, d, "breakers", "where name = $1", name)
}
