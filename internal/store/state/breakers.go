package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// PutBreaker stores the state of a breaker, unless a newer one is stored.
func (d *DB) PutBreaker(ctx context.Context, b session.BreakerStatus) error {
	return d.Write(ctx, func(t *Tx) error {
		return t.put("breakers", "name", columnsOf(&b),
			"excluded.since > breakers.since or excluded.since = breakers.since and excluded.revision > breakers.revision")
	})
}

// Breakers lists the stored states of breakers by name.
func (d *DB) Breakers(ctx context.Context) ([]session.BreakerStatus, error) {
	return list[session.BreakerStatus](ctx, d, "breakers", "order by name")
}

// Breaker reads the stored state of a breaker. The error is [ErrNotFound] if there is none.
func (d *DB) Breaker(ctx context.Context, name string) (session.BreakerStatus, error) {
	return one[session.BreakerStatus](ctx, d, "breakers", "where name = $1", name)
}
