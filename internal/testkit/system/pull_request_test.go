//go:build system

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

// TestWorkersKilledWhileTheyDeliver kills the only worker between each effect on the host of a pull request and its record. The
// host has seen each effect once. The team is the one of examples/pull-request.
func TestWorkersKilledWhileTheyDeliver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git := gittest.New(t)
	first := git.Create("acme/shop", map[string]string{"README": "a shop\n"})
	github := githubtest.New(t, githubtest.Options{Git: git, GitUser: gittest.User, GitPassword: gittest.Password, Dir: git.Dir})
	repo := github.Create("acme/shop")
	comments, checked := sync.Once{}, sync.Map{}
	github.Fail(func(r githubtest.Request) githubtest.Fault { // people and CI are faster than the next look
		if strings.HasSuffix(r.Path, "/pulls/1") {
			comments.Do(func() { repo.LineComment(1, "ben", "OWNER", "docs/notes.md", 1, "Louder.", 0) })
		}
		if _, rest, ok := strings.Cut(r.Path, "/commits/"); ok {
			sha, _, _ := strings.Cut(rest, "/")
			if _, known := checked.LoadOrStore(sha, true); !known {
				repo.SetCheck(sha, "test", "success", "")
			}
		}
		return githubtest.Fault{}
	})
	sample := func(name, old, replaced string) string {
		data, err := os.ReadFile("../../../examples/pull-request/" + name)
		require.NoError(t, err)
		require.Contains(t, string(data), old)
		return w.write(name, strings.Replace(string(data), old, replaced, 1))
	}
	sample("coder.sh", "", "")
	sample("agents.yaml", "kind: delivery", fmt.Sprintf("kind: delivery, url: %q", github.URL))
	teamFile := sample("team.yaml", "merge: ask, method: squash", "repository: acme/shop, merge: auto")
	w.variables = []string{"GITHUB_TOKEN=" + githubtest.Token}
	for i, failpoint := range []string{
		"branch pushed, not recorded", "pull request opened, not recorded", "feedback recorded, not sent back",
		"branch pushed, not recorded", "comment answered, not recorded", "pull request changed, not recorded", // ready
		"pull request changed, not recorded", // merged
	} {
		worker := w.serves(w.startWith([]string{"MAESTRO_FAILPOINT=" + failpoint + "@1"}, filepath.Join(programs, fragileWorker),
			"--drain", "1s"))
		if i == 0 {
			w.must("run", teamFile, "Shout", "--session", "shout")
		}
		w.dies(worker)
		require.Contains(t, worker.output.String(), "failpoint: "+failpoint)
	}
	w.startWorker()
	w.completes("shout")

	pulls, branch := repo.Pulls(), "maestro/shout"
	require.Len(t, pulls, 1)
	p := pulls[0]
	require.True(t, p.Merged)
	require.Len(t, p.LineComments, 2)
	require.Contains(t, p.LineComments[1], "ben: Done in "+git.Branch("acme/shop", branch)[:10])
	require.Empty(t, p.Comments)
	require.Len(t, p.ResolvedThreads, 1)
	require.Equal(t, "2", git.Git("acme/shop", "rev-list", "--count", first+".."+branch), "a commit for each pass")
	require.Equal(t, "1", git.Git("acme/shop", "rev-list", "--count", "--merges", "main"))
	require.Contains(t, git.Files("acme/shop", "main")["docs/notes.md"], "ben comments on docs/notes.md:1")
}
