package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

// TestACompletedSessionIsDelivered, and people see how its pull request stands.
func TestACompletedSessionIsDelivered(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	git.Create("acme/shop", map[string]string{"README.md": "shop\n"})
	host := githubtest.New(t, githubtest.Options{Git: git, GitUser: gittest.User, GitPassword: gittest.Password, Dir: git.Dir})
	repository := host.Create("acme/shop")
	d := newDesk(t).withServer()
	require.NoError(t, os.Chmod(d.dir, 0o777)) // for the user of rooms
	d.set("SHOP_TOKEN", githubtest.Token)
	d.serves(d.file("agents.yaml", fmt.Sprintf(`version: 1
mounts: [{path: %[1]s, writable: true}]
agents:
  coder: {kind: command, argv: [sh, %[2]s]}
  github: {kind: delivery, url: %[3]q, token_env: SHOP_TOKEN}
`, d.dir, d.file("coder.sh", "echo done > code.txt; echo x >> "+d.dir+"/runs"), host.URL)))
	d.must(0, "run", d.file("team.yaml", oneTeam), "Build it.", "--session", "s", "--watch")

	refused := d.run("deliver", "s")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr.String(), "give the repository, like acme/shop")
	got := d.run("deliver", "s", "--repository", "acme/shop")
	require.Equal(t, 0, got.code, got.stderr.String())
	var shown string
	until(t, func() bool {
		shown = d.must(0, "status", "s")
		return strings.Contains(shown, "deliver: pull request #1 of acme/shop: open") &&
			strings.Contains(shown, "the next look is at")
	}, "%s", (*latest)(&shown))
	require.Contains(t, shown, host.URL+"/acme/shop/pull/1")
	require.NotContains(t, shown, "has failed since", "it is no outage")
	require.Equal(t, "maestro/s", repository.Pulls()[0].Branch)
	var s session.Status
	d.json(&s, "status", "s")
	require.Equal(t, 1, s.Phases[1].PullRequest.Number)
	require.Equal(t, session.Restored, s.Phases[0].Status, "finished work is reused")
	runs, err := os.ReadFile(d.dir + "/runs")
	require.NoError(t, err)
	require.Equal(t, "x\n", string(runs))

	refused = d.run("deliver", "s", "--repository", "acme/shop")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr.String(), "`maestro resume s` continues the session")
}

// latest is a text that changes.
type latest string

func (l *latest) String() string { return string(*l) }
