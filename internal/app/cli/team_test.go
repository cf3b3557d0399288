package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestASessionOfARegisteredTeamKeepsItsLabels starts a session by name, and resumes and forks it.
func TestASessionOfARegisteredTeamKeepsItsLabels(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": writerScript, "coder": coderScript})
	d.must(0, "team", "register", d.file("team.yaml", twoTeam))
	var team struct{ Digest string }
	d.json(&team, "team", "show", "pair")
	d.must(0, "run", "pair@"+team.Digest[:8], "Make it so.", "--session", "s-1", "--label", "area=web", "--label", "ticket=MD-1",
		"--watch")
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

	require.Equal(t, 2, d.run("list", "--label", "area").code)
	require.Equal(t, 2, d.run("run", "pair", "x", "--label", "-=x").code)
}
