package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of a stuck agent are looked at, corrected, and supplied as a whole.
func TestTheFilesOfAFailedAttemptAreCorrected(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": "echo draft > notes.txt; echo wrong > old.txt; exit 7"})
	d.must(0, "run", d.file("team.yaml", oneTeam+"retry: {rounds: 1, attempts: 1}\n"), "Make it so.", "--session", "s")
	require.Equal(t, 3, d.run("watch", "s").code)

	out := filepath.Join(d.dir, "out")
	require.Equal(t, 2, d.run("artifacts", "get", "s", "--of", "build/nobody", "--out", out).code)
	got := d.run("artifacts", "get", "s", "--of", "build/dev", "--out", out)
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Equal(t, "notes.txt\nold.txt\n", got.stdout.String())
	require.Contains(t, got.stderr.String(), "maestro resolve s supply "+out+" --whole --for build/dev")

	require.NoError(t, os.Remove(filepath.Join(out, "old.txt")))
	require.NoError(t, os.WriteFile(filepath.Join(out, "code.txt"), []byte("right\n"), 0o600))
	d.must(0, "resolve", "s", "supply", out, "--whole", "--for", "build/dev")
	require.Equal(t, 0, d.run("watch", "s").code)
	require.Equal(t, "code.txt\nnotes.txt\n", d.must(0, "artifacts", "get", "s", "--out", filepath.Join(d.dir, "result")))
}
