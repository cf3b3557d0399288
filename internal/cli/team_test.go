package cli_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
)

const registeredTeam = `version: 1
name: web
description: Builds web services.
personas:
  ann: {role: Writer, agent: coder, instructions_file: ann.md}
phases:
  - {name: design, personas: [ann]}
  - {name: build, personas: [ann], approve: true}
`

func TestTeamsAreRegisteredListedAndRemoved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "web.yaml")
	instructions := filepath.Join(filepath.Dir(file), "ann.md")
	require.NoError(t, os.WriteFile(file, []byte(registeredTeam), 0o600))
	require.NoError(t, os.WriteFile(instructions, []byte("Write it."), 0o600))

	got := d.run("team", "register", file)
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Regexp(t, `^team web is registered in version [0-9a-f]{12}\n$`, got.stdout.String())
	require.Contains(t, d.run("team", "register", file).stdout.String(), "was registered in version")
	require.NoError(t, os.WriteFile(instructions, []byte("Write it well."), 0o600))
	var changed struct {
		Digest   string
		Versions int
		Changed  bool
	}
	d.json(&changed, "team", "register", file)
	require.True(t, changed.Changed, "instructions in other files are a part of the team")
	require.Equal(t, 2, changed.Versions)

	require.Regexp(t, `(?m)^web +`+changed.Digest[:12]+` .* 2 +design, build +Builds web services\.`, d.run("team", "list").stdout.String())
	shown := d.run("team", "show", "web").stdout.String()
	require.Contains(t, shown, "Team web, version "+changed.Digest)
	require.Regexp(t, `(?m)^build +design +ann +yes$`, shown)
	var doc struct {
		Newest   bool
		Versions []struct{ Digest, By string }
		Team     struct {
			Personas map[string]struct{ Instructions string }
		}
	}
	d.json(&doc, "team", "show", "web")
	require.Len(t, doc.Versions, 2)
	require.Contains(t, doc.Versions[0].By, "@desk")
	require.Equal(t, "Write it well.", doc.Team.Personas["ann"].Instructions)
	d.json(&doc, "team", "show", "web", "--version", doc.Versions[1].Digest[:10])
	require.False(t, doc.Newest)
	require.Equal(t, "Write it.", doc.Team.Personas["ann"].Instructions)
	require.Equal(t, registeredTeam, d.run("team", "show", "web", "-o", "yaml").stdout.String())

	got = d.run("team", "show", "wep")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), `did you mean "web"?`)
	require.Equal(t, 0, d.run("team", "remove", "web").code)
	require.Equal(t, 2, d.run("team", "remove", "web").code)
	require.Contains(t, d.run("team", "list").stderr.String(), "no teams are registered")
	require.Contains(t, d.run("audit", "--team", "web").stdout.String(), "team.remove")
}
