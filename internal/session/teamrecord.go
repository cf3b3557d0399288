package session

import (
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// TeamRecordSchema names the form of a [TeamRecord].
const TeamRecordSchema = "maestro.team/v1"

// MaxTeamVersions is how many versions of a registered team are kept.
const MaxTeamVersions = 100

// TeamRecord is what the store keeps of a registered team.
type TeamRecord struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// Versions, the newest first.
	Versions []TeamVersion `json:"versions"`
}

// TeamVersion is a version of a registered team.
type TeamVersion struct {
	// Digest names the version: it is that of the team, as sessions have it.
	Digest spec.Digest `json:"digest"`
	// Text is the team file as it was written.
	Text spec.Digest `json:"text"`
	// By registered it, at a time.
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Register makes a version the newest. It reports whether that changes anything.
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
