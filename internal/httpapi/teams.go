package httpapi

import (
	"context"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

// maxTeamFile is the largest team file that is read, in bytes. What is larger than such a file may
// be is refused with the reason.
const maxTeamFile = 2 << 20

// ofTeamVersion is the input of an operation on a version of a registered team.
type ofTeamVersion struct {
	Team    string `path:"team" maxLength:"100" doc:"the team's name"`
	Version string `query:"version" maxLength:"64" doc:"the beginning of the version's digest; left out: the newest version"`
}

// registration is a team to register.
type registration struct {
	Team    string `path:"team" maxLength:"100" doc:"the name of the team, as the file has it"`
	RawBody []byte `contentType:"application/yaml" doc:"the text of the team file, as YAML or JSON, which names no other files"`
}

func teams(api huma.API, t control.Teams) {
	register(api, operation("GET /teams", "list-teams", "List the teams that are registered with the store"),
		func(ctx context.Context, _ *none) (control.TeamList, error) { return t.List(ctx) })
	register(api, operation("GET /teams/{team}", "read-team", "Read a version of a registered team, and which others there are"),
		func(ctx context.Context, in *ofTeamVersion) (control.RegisteredTeam, error) {
			return t.Read(ctx, in.Team, in.Version)
		})
	register(api, operation("GET /teams/{team}/form", "read-team-form", "Read what a start of a session of a registered team takes, as a JSON Schema"),
		func(ctx context.Context, in *ofTeamVersion) (control.TeamForm, error) {
			return t.Form(ctx, control.TeamInput{Name: strings.TrimSuffix(in.Team+"@"+in.Version, "@")})
		})
	put := operation("PUT /teams/{team}", "register-team", "Register a version of a team; the same content again changes nothing")
	put.MaxBodyBytes = maxTeamFile
	register(api, put, func(ctx context.Context, in *registration) (control.TeamChange, error) {
		return t.Register(ctx, control.Registration{Name: in.Team, Text: string(in.RawBody)})
	})
	register(api, operation("DELETE /teams/{team}", "remove-team", "Remove a registered team with its versions; its sessions keep what they use"),
		func(ctx context.Context, in *ofTeam) (control.TeamChange, error) { return t.Remove(ctx, in.Team) })
}
