package state

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Delivery is a row of deliveries.
type Delivery struct {
	session.Key
	Phase string
	delivery.Record
}

// PutDelivery writes what is known of a delivery. The error is [ErrFenced] if another execution has replaced the writer.
func (d *DB) PutDelivery(ctx context.Context, f Fence, persona string, row Delivery) error {
	return d.Write(ctx, func(t *Tx) error {
		a := Assignment{row.Key, spec.AssignmentID{Phase: row.Phase, Persona: persona}}
		if err := t.fence(a, f); err != nil {
			return err
		}
		return t.put("deliveries", "namespace, session, phase", columnsOf(&row), "true")
	})
}

// Delivery reads what is known of a delivery. The error is [ErrNotFound] if there is nothing.
func (d *DB) Delivery(ctx context.Context, s session.Key, phase string) (Delivery, error) {
	return one[Delivery](ctx, d, "deliveries", "where namespace = $1 and session = $2 and phase = $3", s.Namespace, s.Session, phase)
}

// Deliveries reads the deliveries of a session.
func (d *DB) Deliveries(ctx context.Context, s session.Key) ([]Delivery, error) {
	return list[Delivery](ctx, d, "deliveries", "where namespace = $1 and session = $2 order by phase", s.Namespace, s.Session)
}

// DeliveriesTo reads the open deliveries by a pull request, newest first.
func (d *DB) DeliveriesTo(ctx context.Context, namespace, repository string, number int) ([]Delivery, error) {
	return list[Delivery](ctx, d, "deliveries", `where namespace = $1 and repository = $2 and number = $3 and state <> 'merged'
		order by pushed_at desc limit 10`, namespace, repository, number)
}
