package control_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

const teamText = `version: 1
name: web
description: Builds web services.
personas:
  ann: {role: Writer, agent: coder, instructions: Write it.}
phases:
  - {name: design, personas: [ann]}
  - {name: build, personas: [ann]}
`

// TestATeamThatDeliversIsReadAsItsFileSays: no page and no client sees the persona that delivers.
func TestATeamThatDeliversIsReadAsItsFileSays(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.Audit = access.NewAudit(s.Store.State, time.Now)
	teams := control.Teams{Base: s.Base}
	_, err := teams.Register(s.ctx, control.Registration{Text: teamText + "  - {name: ship, deliver: {to: github}}\n"})
	require.NoError(t, err)
	delivers, err := teams.Read(s.ctx, "web", "")
	require.NoError(t, err)
	require.Len(t, delivers.Team.Personas, 1, "it is as a file has it")
	require.Empty(t, delivers.Team.Phases[2].Personas)
	sent, err := json.Marshal(control.TeamInput{Loaded: new(delivers.Team.Resolved())})
	require.NoError(t, err)
	var received control.TeamInput
	require.NoError(t, json.Unmarshal(sent, &received))
	crew, version, err := teams.Crew(s.ctx, received)
	require.NoError(t, err, "what a client sends is a team file")
	require.Equal(t, delivers.Digest, version)
	require.Equal(t, delivers.Team.Phases, crew.Phases)
}

func TestTeamsAreRegisteredInVersions(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.Audit = access.NewAudit(s.Store.State, time.Now)
	teams := control.Teams{Base: s.Base}
	first, err := teams.Register(s.ctx, control.Registration{Name: "web", Text: teamText})
	require.NoError(t, err)
	require.True(t, first.Changed)
	again, err := teams.Register(s.ctx, control.Registration{Text: teamText})
	require.NoError(t, err)
	require.Equal(t, control.TeamChange{Name: "web", Digest: first.Digest, Versions: 1}, again)
	second, err := teams.Register(s.ctx, control.Registration{Text: strings.Replace(teamText, "Write it", "Test it", 1)})
	require.NoError(t, err)
	require.Equal(t, 2, second.Versions)

	list, err := teams.List(s.ctx)
	require.NoError(t, err)
	require.Len(t, list.Teams, 1)
	require.Equal(t, second.Digest, list.Teams[0].Digest)
	require.Equal(t, []string{"design", "build"}, list.Teams[0].Phases)
	newest, err := teams.Read(s.ctx, "web", "")
	require.NoError(t, err)
	require.True(t, newest.Newest)
	require.Equal(t, "ann@desk", newest.By)
	require.Equal(t, "Test it.", newest.Team.Personas["ann"].Instructions)
	require.Len(t, newest.Versions, 2)
	old, err := teams.Read(s.ctx, "web", string(first.Digest[:8]))
	require.NoError(t, err)
	require.False(t, old.Newest)
	require.Equal(t, teamText, old.File)
	crew, err := teams.Named(s.ctx, "web@"+string(first.Digest[:8]))
	require.NoError(t, err)
	require.Equal(t, old.Team, crew)

	wrong := func(says string, in control.Registration) {
		_, err := teams.Register(s.ctx, in)
		require.ErrorContains(t, err, says)
		require.Equal(t, control.Invalid, kind(err))
	}
	wrong("the file is of team web, not api", control.Registration{Name: "api", Text: teamText})
	for says, file := range map[string]string{
		"personas.ann.agent": "", "instructions": "agent: coder, instructions_file: /etc/passwd",
		"only the text of this file was given": "agent: coder, instructions_file: ann.md",
	} {
		wrong(says, control.Registration{Text: strings.Replace(teamText, "agent: coder, instructions: Write it.", file, 1)})
	}
	_, err = teams.Read(s.ctx, "wep", "")
	require.ErrorContains(t, err, `did you mean "web"?`)
	_, err = teams.Read(s.ctx, "web", "zz")
	require.ErrorContains(t, err, "team web has no version zz")

	removed, err := teams.Remove(s.ctx, "web")
	require.NoError(t, err)
	require.Equal(t, second.Digest, removed.Digest)
	_, err = teams.Remove(s.ctx, "web")
	require.ErrorContains(t, err, "is not registered")
	page, err := s.Audit.Events(s.ctx, access.EventFilter{Team: "web", Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Events, 5)
	require.Equal(t, "team.remove", page.Events[1].Action)
	require.Equal(t, second.Digest.Short(), page.Events[2].Subject)
}
