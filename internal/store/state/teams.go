package state

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// maxTeamVersions is how many versions of a registered team are kept.
const maxTeamVersions = 100

// TeamVersion is a version of a registered team.
type TeamVersion struct {
	Team string `json:"-"`
	// Digest identifies the version: it is that of the team, as sessions record it.
	Digest spec.Digest `json:"digest"`
	// Text is the team file as it was written.
	Text spec.Digest `json:"text" sql:"file"`
	// By is who registered it, At the time.
	By string    `json:"by" sql:"by_person"`
	At time.Time `json:"at"`
}

// AddTeamVersion makes a version of a registered team the newest. It reports whether that changes anything, and how many
// versions there are.
func (d *DB) AddTeamVersion(ctx context.Context, v TeamVersion) (changed bool, versions int, err error) {
	err = d.writeAt(ctx, func(t *Tx, now int64) error {
		if err := t.lock("teams"); err != nil {
			return err
		}
		var newest TeamVersion
		err := t.get(&newest, "teams", "where team = $1 order by at desc limit 1", v.Team)
		if err != nil && !isNoRows(err) {
			return err
		}
		if changed = newest.Digest != v.Digest || newest.Text != v.Text; changed {
			v.At = timeOf(max(now, micros(newest.At)+1)) // also if the clock has been set back
			if err := t.put("teams", "team, digest", columnsOf(&v), "true"); err != nil {
				return err
			}
			if _, err := t.exec(`delete from teams where team = $1 and at < (
				select at from teams where team = $1 order by at desc limit 1 offset $2)`, v.Team, maxTeamVersions-1); err != nil {
				return err
			}
		}
		return t.row(`select count(*) from teams where team = $1`, v.Team).Scan(&versions)
	})
	return changed, versions, err
}

// TeamVersions lists the versions of a registered team, the newest first, or of all teams, by name, if the name is empty.
func (d *DB) TeamVersions(ctx context.Context, team string) ([]TeamVersion, error) {
	return list[TeamVersion](ctx, d, "teams", "where team = $1 or $1 = '' order by team, at desc", team)
}

// RemoveTeam removes all versions of a registered team.
func (d *DB) RemoveTeam(ctx context.Context, team string) error {
	return d.exec(ctx, `delete from teams where team = $1`, team)
}
