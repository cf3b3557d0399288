package system

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// reachableByNobody lets nobody get to the world's directory.
func (w *world) reachableByNobody() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("only root can start programs as another user")
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
	script := w.write("who.sh", "#!/bin/sh\nid -un > who.txt\nif ls "+w.state+
		" >/dev/null 2>&1; then echo reads the store >> who.txt; fi\n")
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

// asNobody has the world's programs run as nobody, who can get to its directory.
func (w *world) asNobody() {
	w.t.Helper()
	w.reachableByNobody()
	nobody, err := user.Lookup("nobody")
	require.NoError(w.t, err)
	uid, err := strconv.Atoi(nobody.Uid)
	require.NoError(w.t, err)
	gid, err := strconv.Atoi(nobody.Gid)
	require.NoError(w.t, err)
	require.NoError(w.t, os.Chmod(programs, 0o755))
	require.NoError(w.t, filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	}))
	w.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
