package state

import (
	"context"
	"time"
)

// Repeatable is a row of a change that a client may send again with its key.
type Repeatable struct {
	// Key is the digest of the client and its key, and Request that of the request.
	Key, Request string
	// Change identifies the change for the operation, in all tries.
	Change string `sql:"change_id"`
	// TriedAt is when the try at work began; zero: none is at work.
	TriedAt time.Time
	// Status is zero without an answer.
	Status              int
	ContentType, Answer string
}

// Claim begins a try of the change with r's key; mine reports whether it did. It does not while another try is at work, which
// counts as lost after the time of patience, nor if there is an answer. Then claimed is what is stored. Rows older than
// kept are deleted.
func (d *DB) Claim(ctx context.Context, r Repeatable, kept, patience time.Duration) (claimed Repeatable, mine bool, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from idempotency where at <= $1`, now-kept.Microseconds()); err != nil {
			return err
		}
		inserted, err := t.exec(`insert into idempotency (key, request, change_id, tried_at, status, content_type, answer, at)
			values ($1, $2, $3, $4, 0, '', '', $4) on conflict (key) do nothing`, r.Key, r.Request, r.Change, now)
		if err != nil {
			return err
		}
		if err := t.get(&claimed, "idempotency", "where key = $1"+t.lockRows, r.Key); err != nil {
			return err
		}
		mine = inserted > 0 || claimed.Status == 0 && timeOf(now).Sub(claimed.TriedAt) >= patience
		if inserted > 0 || !mine {
			return nil
		}
		at := `at`
		if claimed.Request != r.Request { // another change, in place of one that has no answer
			claimed.Request, claimed.Change, at = r.Request, r.Change, `$4`
		}
		claimed.TriedAt = timeOf(now)
		_, err = t.exec(`update idempotency set request = $2, change_id = $3, tried_at = $4, at = `+at+` where key = $1`,
			r.Key, claimed.Request, claimed.Change, now)
		return err
	})
	return claimed, mine, err
}

// EndTry ends a try with its answer, or without one if the status is zero. A try that counts as lost changes nothing.
func (d *DB) EndTry(ctx context.Context, r Repeatable) error {
	return d.exec(ctx, `update idempotency set tried_at = null, status = $4, content_type = $5, answer = $6
		where key = $1 and change_id = $2 and tried_at = $3`, r.Key, r.Change, r.TriedAt.UnixMicro(), r.Status, r.ContentType, r.Answer)
}
