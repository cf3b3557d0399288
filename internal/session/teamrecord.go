package session

import (
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// TeamRecordSchema identifies the format of a [TeamRecord].
const TeamRecordSchema = "maestro.team/v1"

// MaxTeamVersions is how many versions of a registered team are kept.
const MaxTeamVersions = 100

// TeamRecord is the document of a registered team in the store.
type TeamRecord struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// Versions, the newest first.
	Versions []TeamVersion `json:"versions"`
}

// TeamVersion is a version of a registered team.
type TeamVersion struct {
	// Digest identifies the version: it is that of the team, as sessions record it.
	Digest spec.Digest `json:"digest"`
	// Text is the team file as it was written.
	Text spec.Digest `json:"text"`
	// By is who registered it, At the time.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Register makes a version the newest. It reports whether that changes the record.
func (r *TeamRecord) Register(v TeamVersion) bool {
	if len(r.Versions) > 0 && r.Versions[0].Digest == v.Digest && r.Versions[0].Text == v.Text {
		return false
	}
	versions := []TeamVersion{v}
	for _, old := range r.Versions {
		if old.Digest != v.Digest && len(versions) < MaxTeamVersions {
			versions = append(versions, old)
		}
	}
	r.Versions = versions
	return true
}
