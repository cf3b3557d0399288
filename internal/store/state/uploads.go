package state

import (
	"context"
	"time"
)

// Upload is a row of the files that were uploaded for a team.
type Upload struct {
	Team, Digest, By string
	// LeftOut says, in sentences, what of the archive was not stored.
	LeftOut []string
}

// AddUpload notes an upload, in place of an earlier one of the same files. Those older than kept are deleted.
func (d *DB) AddUpload(ctx context.Context, u Upload, kept time.Duration) error {
	return d.writeAt(ctx, func(t *Tx, now int64) error {
		if _, err := t.exec(`delete from uploads where at <= $1`, now-kept.Microseconds()); err != nil {
			return err
		}
		row := columns{{"team", &u.Team}, {"digest", &u.Digest}, {"by_person", &u.By}, {"left_out", document{&u.LeftOut}}, {"at", &now}}
		return t.put("uploads", "team, digest", row, "true")
	})
}

// Upload reads what was uploaded for a team, not longer than kept ago.
func (d *DB) Upload(ctx context.Context, team, digest string, kept time.Duration) (u Upload, err error) {
	u = Upload{Team: team, Digest: digest}
	err = d.readAt(ctx, func(t *Tx, now int64) error {
		return t.row(`select by_person, left_out from uploads where team = $1 and digest = $2 and at > $3`, team, digest, now-kept.Microseconds()).
			Scan(&u.By, document{&u.LeftOut})
	})
	return u, err
}
