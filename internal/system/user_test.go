package system

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

// TestAgentsRunAsAnotherUser has agents, scripts and checks run as nobody, who
// can work in the session's directories and cannot read the store.
func TestAgentsRunAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run agents as another user")
	}
	if _, err := user.Lookup("nobody"); err != nil {
		t.Skip("this host has no user nobody")
	}
	w := newWorld(t)
	for dir := w.dir; dir != filepath.Clean(os.TempDir()) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			require.NoError(t, os.Chmod(dir, info.Mode().Perm()|0o011), "nobody has to get there")
		}
	}
	script := w.write("who.sh", "#!/bin/sh\nid -un > who.txt\nif ls "+w.state+" >/dev/null 2>&1; then echo reads the store >> who.txt; fi\n")
	require.NoError(t, os.Chmod(script, 0o755))
	w.write("script.yaml", "version: 1\nplays: {\"*\": [{turns: [{files: {played.txt: x}}]}]}\n")
	w.write("agents.yaml", `version: 1
run_as: nobody
agents:
  who: {kind: command, argv: [./who.sh], git: true}
  play: {kind: scripted, script: script.yaml}
checks: {owned: {argv: [sh, -c, 'test "$(id -un)" = nobody && echo more >> who.txt']}}
`)
	teamFile := w.write("team.yaml", `version: 1
name: other
personas:
  a: {role: A, agent: who, instructions: x}
  b: {role: B, agent: play, instructions: x}
phases:
  - {name: one, personas: [a], produces: [who.txt], checks: [owned]}
  - {name: two, personas: [b], produces: [played.txt]}
`)
	w.startWorker()
	w.must("run", teamFile, "who", "--session", "who")
	s := w.ends("who")
	require.Equal(t, team.Completed, s.Status, "%+v", s)
	w.must("artifacts", "get", "who", "--out", filepath.Join(w.dir, "out"))
	data, err := os.ReadFile(filepath.Join(w.dir, "out", "who.txt"))
	require.NoError(t, err)
	require.Equal(t, "nobody\n", string(data))
}
