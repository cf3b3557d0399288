package control

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

const (
	// uploadedFor is how long files may be named after an upload.
	uploadedFor = 30 * 24 * time.Hour
	// searchedSessions is in how many of a team's sessions files are searched.
	searchedSessions = 200
)

// leftOutOf says what the upload of files has left out; empty: nothing, or it is unknown.
func (b *Base) leftOutOf(ctx context.Context, team string, files spec.Digest) []string {
	found, _ := b.Store.State.Upload(ctx, team, string(files), uploadedFor)
	return found.LeftOut
}

// uploaded records that files were uploaded for a team: a digest is no permission to read what has it.
func (b *Base) uploaded(ctx context.Context, team string, files spec.Digest, leftOut []string) error {
	if team == access.AllTeams {
		return nil
	}
	return b.Store.State.AddUpload(ctx, state.Upload{Team: team, Digest: string(files), By: actor(ctx), LeftOut: leftOut},
		uploadedFor)
}

// checkFiles rejects a digest that is not that of files in the store, or that the caller may not name:
// those of an upload for the team, of its newer sessions, and any by an operator of all teams. The error is the
// same for files of others and for files that do not exist. field is the name of the input.
func (b *Base) checkFiles(ctx context.Context, team, field string, files spec.Digest) error {
	if !files.Valid() {
		return invalidf(field, "not the digest of a manifest; upload the files first")
	}
	var err error
	if access.Check(ctx, access.Operate, access.AllTeams) != nil {
		_, err = b.Store.State.Upload(ctx, team, string(files), uploadedFor)
	}
	if errors.Is(err, state.ErrNotFound) {
		err = b.checkSessionsFiles(ctx, team, files)
	}
	if err == nil {
		err = b.Store.Content.Intact(ctx, files)
	}
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return invalidf(field, "the store does not have manifest %s among the uploads for team %s and the files of its newer "+
			"sessions; upload the files again", files.Short(), team)
	}
	return err
}

// checkSessionsFiles returns [session.ErrNotFound] unless one of a team's newer sessions began with these files,
// or has them in its newest checkpoint.
func (b *Base) checkSessionsFiles(ctx context.Context, team string, files spec.Digest) error {
	newer, err := b.Store.State.Sessions(ctx, state.Filter{Namespace: b.Namespace, Teams: []string{team}, Limit: searchedSessions})
	for _, s := range newer {
		// Damage is told where the session is read.
		e, _ := b.Store.State.Execution(ctx, b.key(s.Session))
		if c, _ := b.Store.PeekCheckpoint(ctx, e.Checkpoint); c.Workspace == files || c.Tree == files {
			return nil
		}
	}
	return cmp.Or(err, session.ErrNotFound)
}

// afterTeam is what follows a team's name in an id. It has no hyphen after the first one, unless it is
// that of [launch.NewID]: else team web could choose the ids of team web-shop. No name of a team has a dot.
var afterTeam = regexp.MustCompile(`^(-[A-Za-z0-9_]+|-[0-9]{8}-[a-z2-7]{6}|\..+)$`)

// checkChosen rejects an id that a caller with a role for some teams has chosen for a session, unless it
// can only be of this team: otherwise a conflict would tell which sessions other teams have.
func checkChosen(ctx context.Context, field, team, id string) error {
	if who, _ := access.Of(ctx); who.Via == access.ViaHook { // a hook's ids are computed, not chosen
		return nil
	}
	rest, ok := strings.CutPrefix(id, team)
	if ok && afterTeam.MatchString(rest) || access.Check(ctx, access.Operate, access.AllTeams) == nil {
		return nil
	}
	return invalidf(field, "the id of a session of team %[1]s has to begin with %[1]s- and have no other hyphen after that, or to "+
		"begin with %[1]s.", team)
}
