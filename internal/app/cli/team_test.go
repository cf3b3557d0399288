package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
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

	require.Contains(t, d.run("plan", "web").stdout.String(), "design")
	require.Equal(t, 0, d.run("plan", "web@"+changed.Digest[:9]).code)
	got = d.run("run", "wep", "Build.")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), `file wep not found, and team "wep" is not registered in the store in `+d.state+`; did you mean "web"?`)
	got = d.run("team", "show", "wep")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), `did you mean "web"?`)
	require.Equal(t, 0, d.run("team", "remove", "web").code)
	require.Equal(t, 2, d.run("team", "remove", "web").code)
	require.Contains(t, d.run("team", "list").stderr.String(), "no teams are registered")
	require.Contains(t, d.run("audit", "--team", "web").stdout.String(), "team.remove")
}

// TestASessionOfARegisteredTeamKeepsItsLabels starts a session by name, and resumes and forks it.
func TestASessionOfARegisteredTeamKeepsItsLabels(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": coderScript})
	d.must(0, "team", "register", d.file("team.yaml", twoTeam))
	var team struct{ Digest string }
	d.json(&team, "team", "show", "pair")
	d.must(0, "run", "pair@"+team.Digest[:8], "Make it so.", "--session", "s-1", "--label", "area=web", "--label", "ticket=MD-1", "--watch")
	require.Contains(t, d.must(0, "status", "s-1"), "area=web, ticket=MD-1")
	labels := func(id string) map[string]string {
		var s session.Status
		d.json(&s, "status", id)
		require.Equal(t, session.Completed, s.Status)
		return s.Labels
	}
	want := map[string]string{"area": "web", "ticket": "MD-1"}
	require.Equal(t, want, labels("s-1"))
	d.must(0, "resume", "s-1", "--team", "pair", "--force", "build", "--watch")
	require.Equal(t, want, labels("s-1"))
	d.must(0, "fork", "s-1", "--from", "build", "--team", "pair@"+team.Digest[:8], "--as", "s-2", "--watch")
	require.Contains(t, d.run("fork", "s-1", "--from", "build", "--team", "piar").stderr.String(), `did you mean "pair"?`)
	require.Equal(t, want, labels("s-2"))
	d.must(0, "run", "pair", "Another.", "--session", "s-3", "--watch")
	require.Empty(t, labels("s-3"))
	costs := d.must(0, "usage", "--label", "area=web", "--by", "session", "-o", "csv")
	require.Contains(t, costs, "s-1")
	require.NotContains(t, costs, "s-3")
	d.must(2, "usage", "s-1", "--label", "area=web")

	listed := func(d *desk, pair string) (ids []string) {
		var doc struct {
			Sessions []struct {
				Session string
				Labels  map[string]string
			}
		}
		d.json(&doc, "list", "--label", pair)
		for _, l := range doc.Sessions {
			require.Equal(d.t, want, l.Labels)
			ids = append(ids, l.Session)
		}
		slices.Sort(ids)
		return ids
	}
	until(t, func() bool { return len(listed(d, "area=web")) == 2 }, "two sessions with a label") // visibility lags a moment behind
	require.Equal(t, []string{"s-1", "s-2"}, listed(d, "ticket=MD-1"))
	require.Empty(t, listed(d, "area=api"))
	away := *d
	away.set("TEMPORAL_ADDRESS", "127.0.0.1:1")
	require.Equal(t, []string{"s-1", "s-2"}, listed(&away, "area=web"), "the store knows them, too")
	require.Equal(t, 2, d.run("list", "--label", "area").code)
	require.Equal(t, 2, d.run("run", "pair", "x", "--label", "-=x").code)
}
