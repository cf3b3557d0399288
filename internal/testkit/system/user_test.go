package system

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reachableByNobody lets nobody get to the world's directory.
func (w *world) reachableByNobody() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("only root can run agents as another user")
	}
	if _, err := user.Lookup("nobody"); err != nil {
		w.t.Skip("this host has no user nobody")
	}
	for dir := w.dir; dir != filepath.Clean(os.TempDir()) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			require.NoError(w.t, os.Chmod(dir, info.Mode().Perm()|0o011), "nobody has to get there")
		}
	}
}

// TestAgentsRunAsAnotherUser has agents and checks run as nobody, who can
// work in the session's directories and cannot read the store.
func TestAgentsRunAsAnotherUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reachableByNobody()
	script := w.write("who.sh", "#!/bin/sh\nid -un > who.txt\nif ls "+w.state+" >/dev/null 2>&1; then echo reads the store >> who.txt; fi\n")
	require.NoError(t, os.Chmod(script, 0o755))
	w.write("agents.yaml", `version: 1
isolation: none
run_as: nobody
agents:
  who: {kind: command, argv: [./who.sh], git: true}
  next: {kind: command, argv: [sh, -c, 'id -un > next.txt']}
checks: {owned: {argv: [sh, -c, 'test "$(id -un)" = nobody && echo more >> who.txt']}}
`)
	teamFile := w.write("team.yaml", `version: 1
name: other
personas:
  a: {role: A, agent: who, instructions: x}
  b: {role: B, agent: next, instructions: x}
phases:
  - {name: one, personas: [a], produces: [who.txt], checks: [owned]}
  - {name: two, personas: [b], produces: [next.txt]}
`)
	w.startWorker()
	w.must("run", teamFile, "who", "--session", "who")
	w.completes("who")
	w.must("artifacts", "get", "who", "--out", filepath.Join(w.dir, "out"))
	data, err := os.ReadFile(filepath.Join(w.dir, "out", "who.txt"))
	require.NoError(t, err)
	require.Equal(t, "nobody\n", string(data))
}

// TestAgentsDoNotFindEachOther has an agent look for the files of one that is at work at the
// same time, as the same user: what it can list does not lead there.
func TestAgentsDoNotFindEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reachableByNobody()
	work := filepath.Join(w.state+".work", "sessions")
	require.NoError(t, os.Chmod(w.write("private.sh", "#!/bin/sh\necho private > private.txt; while [ ! -e "+w.ledger("seen")+" ]; do sleep 0.05; done\n"), 0o755))
	require.NoError(t, os.Chmod(w.write("spy.sh", `#!/bin/sh
{
  for up in .. ../.. ../../.. ../../../.. ../../../../.. `+work+`/`+w.namespace+`/private/one/dev; do
    ls -A $up && echo "lists $up"
    touch $up/planted && echo "writes to $up"
  done
  find `+work+` -name private.txt
  cat `+work+`/`+w.namespace+`/private/one/dev/*/tree/private.txt
} > found.txt 2> refused.txt
true
`), 0o755))
	w.write("agents.yaml", `{version: 1, isolation: none, run_as: nobody, agents: {private: {kind: command, argv: [./private.sh]}, spy: {kind: command, argv: [./spy.sh]}}}`)
	require.NoError(t, os.Chmod(filepath.Dir(w.ledger("seen")), 0o755))
	w.startWorker()
	for _, sessionID := range []string{"private", "spy"} {
		teamFile := w.write(sessionID+".yaml", `{version: 1, name: t, personas: {dev: {role: r, agent: `+sessionID+`, instructions: do}}, phases: [{name: one, personas: [dev]}]}`)
		w.must("run", teamFile, "look around", "--session", sessionID)
		w.eventually("the agent is at work, or done", func() bool {
			left, err := filepath.Glob(filepath.Join(work, w.namespace, "private", "one", "dev", "*", "tree", "private.txt"))
			return err == nil && len(left) == 1
		})
	}
	w.completes("spy")
	require.NoError(t, os.WriteFile(w.ledger("seen"), nil, 0o600))
	w.completes("private")
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "spy", "--out", out)
	found, err := os.ReadFile(filepath.Join(out, "found.txt"))
	require.NoError(t, err)
	require.Empty(t, string(found))
	refused, err := os.ReadFile(filepath.Join(out, "refused.txt"))
	require.NoError(t, err)
	require.Equal(t, 14, strings.Count(string(refused), "\n"), "each try was refused: %s", refused)
}
