package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func breakerColumns(b *session.BreakerStatus) columns {
	return columns{
		{"name", &b.Name},
		{"revision", &b.Revision},
		{"since", moment{&b.Since}},
		{"state", &b.State},
		{"failures", &b.Failures},
		{"generation", &b.Generation},
		{"trips", &b.Trips},
		{"open_until", optional{&b.OpenUntil}},
		{"probes", document{&b.Probes}},
		{"forced", document{&b.Forced}},
		{"last_failure", document{&b.LastFailure}},
		{"settings", document{&b.Settings}},
		{"changed_by", &b.ChangedBy},
		{"why", &b.Why},
		{"changed_at", moment{&b.ChangedAt}},
	}
}

// PutBreaker stores the state of a breaker, unless a newer one is stored.
func (d *DB) PutBreaker(ctx context.Context, b session.BreakerStatus) error {
	return d.Write(ctx, func(t *Tx) error {
		return t.put("breakers", "name", breakerColumns(&b),
			"excluded.since > breakers.since or excluded.since = breakers.since and excluded.revision > breakers.revision")
	})
}

// Breakers lists the stored states of breakers by name.
func (d *DB) Breakers(ctx context.Context) ([]session.BreakerStatus, error) {
	return list(ctx, d, "breakers", breakerColumns, "order by name")
}

// Breaker reads the stored state of a breaker. The error is [ErrNotFound] if there is none.
func (d *DB) Breaker(ctx context.Context, name string) (session.BreakerStatus, error) {
	return one(ctx, d, "breakers", breakerColumns, "where name = $1", name)
}
