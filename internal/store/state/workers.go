package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// offersKept is how long the offer of a worker is kept after its last renewal.
const offersKept = 30 * 24 * time.Hour

func offerColumns(o *spec.Offer) columns {
	return columns{
		{"id", &o.Worker},
		{"host", &o.Host},
		{"version", &o.Version},
		{"started_at", moment{&o.StartedAt}},
		{"renewed_at", moment{&o.RenewedAt}},
		{"offer", document{o}},
	}
}

// PutOffer stores a worker's offer in place of its previous one, and deletes those of workers that ended long ago, and other
// rows that nobody needs any more.
func (d *DB) PutOffer(ctx context.Context, o spec.Offer) error {
	return d.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(`delete from workers where renewed_at < $1`, o.RenewedAt.Add(-offersKept).UnixMicro()); err != nil {
			return err
		}
		if err := t.forgetWrites(o.RenewedAt.UnixMicro()); err != nil {
			return err
		}
		return t.put("workers", "id", offerColumns(&o), "true")
	})
}

// RemoveOffer removes a worker's offer, if there is one.
func (d *DB) RemoveOffer(ctx context.Context, worker string) error {
	return d.exec(ctx, `delete from workers where id = $1`, worker)
}

// Offers lists the offers of workers by id, including those of workers that have ended; see [spec.Offer.Live].
func (d *DB) Offers(ctx context.Context) ([]spec.Offer, error) {
	return read(ctx, d, func(t *Tx) (offers []spec.Offer, err error) {
		err = t.each(func(r *sql.Rows) error {
			offers = append(offers, spec.Offer{})
			return r.Scan(offerColumns(&offers[len(offers)-1]).fields()...)
		}, "select "+offerColumns(new(spec.Offer)).names()+" from workers order by id")
		return offers, err
	})
}
