package state

import (
	"context"
	"time"
)

// Upload is a row of the files that were uploaded for a team.
type Upload struct {
	Team, Digest string
	By           string `sql:"by_person"`
	// LeftOut says, in sentences, what of the archive was not stored.
	LeftOut []string
}

// AddUpload notes an upload, in place of an earlier one of the same files. Those older than kept are deleted.
func (d *DB) AddUpload(ctx context.Context, u Upload, kept time.Duration) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from uploads where at <= $1`, now-kept.Microseconds()); err != nil {
			return err
		}
		return t.put("uploads", "team, digest", append(columnsOf(&u), column{"at", &now}), "true")
	})
}

// Upload reads what was uploaded for a team, not longer than kept ago.
func (d *DB) Upload(ctx context.Context, team, digest string, kept time.Duration) (u Upload, err error) {
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		return t.get(&u, "uploads", "where team = $1 and digest = $2 and at > $3", team, digest, now-kept.Microseconds())
	})
	return u, err
}
