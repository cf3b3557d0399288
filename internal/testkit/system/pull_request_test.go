package system

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

// TestWorkerKilledWhileItDelivers kills the only worker between what it does on GitHub and its record of that. Another worker
// finds what was done, and does nothing twice: one pull request, one commit, one answer.
func TestWorkerKilledWhileItDelivers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ session, failpoint string }{
		{"pushed", "branch pushed, not recorded@1"},
		{"opened", "pull request opened, not recorded@1"},
		{"sent-back", "feedback recorded, not sent back@1"},
		{"answered", "comment answered, not recorded@1"},
		{"ready", "pull request changed, not recorded@1"},
	} {
		t.Run(c.session, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			git := gittest.New(t)
			git.Create("acme/shop", map[string]string{"README": "a shop\n"})
			github := githubtest.New(t, githubtest.Options{
				Git: git, GitUser: gittest.User, GitPassword: gittest.Password, Dir: git.Dir,
			})
			repo := github.Create("acme/shop")
			clone := filepath.Join(w.dir, "shop")
			for _, args := range [][]string{
				{"clone", "--quiet", git.Dir("acme/shop"), clone},
				{"-C", clone, "remote", "set-url", "origin", github.URL + "/acme/shop.git"},
			} {
				out, err := exec.Command("git", args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			w.write("agents.yaml", fmt.Sprintf(`{version: 1, agents: {
				coder: {kind: command, argv: [/bin/sh, -c, 'if grep -q "Say it twice"; then echo SHOP SHOP > README; else echo SHOP > README; fi']},
				github: {kind: delivery, url: %q, token_env: GITHUB_TOKEN}}}`, github.URL))
			teamFile := w.write("team.yaml", `{version: 1, name: shout, personas: {dev: {role: r, agent: coder, instructions: do}},
				phases: [{name: build, personas: [dev]}, {name: ship, deliver: {to: github, merge: auto}}]}`)
			credentials := []string{"GITHUB_TOKEN=" + githubtest.Token}
			worker := w.serves(w.startWith(append(credentials, "MAESTRO_FAILPOINT="+c.failpoint), filepath.Join(programs, fragileWorker),
				"--drain", "1s"))
			w.must("run", teamFile, "Shout", "--workspace", clone, "--session", c.session)
			next := make(chan struct{})
			go func() {
				defer close(next)
				w.dies(worker)
				w.serves(w.startWith(credentials, filepath.Join(programs, "maestro-worker"), "--drain", "1s"))
			}()
			head := func() string { return git.Branch("acme/shop", "maestro/"+c.session) }
			w.eventually("there is a pull request", func() bool { return len(repo.Pulls()) == 1 })
			repo.LineComment(1, "ben", "OWNER", "README", 1, "Say it twice.", 0)
			repo.SetCheck(head(), "test", "success", "")
			w.shows(c.session, "the comment is worked in", func(session.Status) bool {
				return git.Files("acme/shop", head())["README"] == "SHOP SHOP\n"
			})
			repo.SetCheck(head(), "test", "success", "")
			s := w.completes(c.session)
			<-next
			require.Contains(t, worker.output.String(), "failpoint: ")
			w.sound(s)
			pulls := repo.Pulls()
			require.Len(t, pulls, 1)
			require.True(t, pulls[0].Merged)
			require.Equal(t, 1, strings.Count(fmt.Sprint(pulls[0].LineComments), "Done in"), "%v", pulls[0].LineComments)
			require.Equal(t, "2", git.Git("acme/shop", "rev-list", "--count", "--no-merges", "main", "--not", "main~1"))
			require.Equal(t, "SHOP SHOP\n", git.Files("acme/shop", git.Branch("acme/shop", "main"))["README"])
			require.Equal(t, session.Completed, s.Status)
		})
	}
}
