package system

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRootContinuesAsTheOwner has root run commands on nobody's store: they read and write it as nobody does.
func TestRootContinuesAsTheOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile, worker := w.ofNobody()
	w.credential = &syscall.Credential{Groups: []uint32{0}} // root, with root's group as at a login
	w.variables = append(w.variables, "HOME="+w.outside("home"))
	require.NoError(t, os.Mkdir(w.outside("home"), 0o700))
	require.Contains(t, w.must("status", "owned"), "completed")
	require.Contains(t, w.must("list"), "owned")
	require.Contains(t, w.must("checkpoints", "list", "owned"), "work ")
	w.must("checkpoints", "verify", "--all")
	w.must("token", "create", "robot", "--role", "viewer")
	require.Contains(t, w.must("audit"), "root@", "who acted is not hidden")
	w.allOfNobody()
	w.must("run", teamFile, "again", "--session", "again")
	w.completes("again")
	findings := w.maestro("doctor").stdout
	require.Contains(t, findings, "a test file was written and removed")
	require.NotContains(t, findings, "store owner")
	worker.kill()
	w.allOfNobody()

	for _, name := range []string{"tmp", "locks"} {
		require.NoError(t, os.RemoveAll(filepath.Join(w.state, name)))
		require.NoError(t, os.Mkdir(w.outside(name), 0o700))
		require.NoError(t, os.Chmod(w.outside(name), 0o770)) // root's group may write, too
		require.NoError(t, os.Symlink(w.outside(name), filepath.Join(w.state, name)))
	}
	require.Contains(t, w.must("list"), "owned")
	require.Contains(t, w.maestro("checkpoints", "prune").stderr, "permission denied")
	for _, name := range []string{"tmp", "locks"} {
		left, err := os.ReadDir(w.outside(name))
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
	identity := filepath.Join(w.state, "store.json")
	require.NoError(t, os.Rename(identity, w.outside("store.json")))
	require.NoError(t, os.Chown(w.outside("store.json"), 0, 0))
	require.NoError(t, os.Chmod(w.outside("store.json"), 0o640))
	require.NoError(t, os.Symlink(w.outside("store.json"), identity))
	for _, reading := range [][]string{{"status", "owned"}, {"list"}, {"checkpoints", "verify", "--all"}} {
		require.Contains(t, w.maestro(reading...).stderr, "store.json: permission denied")
	}
}

// outside is a path of root's, outside of the store.
func (w *world) outside(name string) string { return filepath.Join(w.dir, "of-root-"+name) }

// TestOthersAreRefused: root's workers on nobody's store, because agents may need root, and all programs of a third user.
func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, worker := w.ofNobody()
	worker.kill()
	refused := func(a answer) {
		t.Helper()
		require.Equal(t, 2, a.code, a.stderr)
		require.Contains(t, a.stderr, w.state+" belongs to user nobody")
		require.Contains(t, a.stderr, "sudo -u nobody maestro")
	}
	w.credential = nil
	refused(w.maestro("worker"))
	w.credential = &syscall.Credential{Uid: 65533, Gid: 65533}
	require.NoError(t, os.Chmod(w.state, 0o777)) // it is not the mode that refuses
	refused(w.maestro("worker"))
	refused(w.maestro("status", "owned"))
	refused(w.maestro("list"))
	refused(w.maestro("resume", "owned"))
	found := w.maestro("doctor")
	require.Equal(t, 1, found.code)
	require.Contains(t, found.stdout, "sudo -u nobody maestro doctor --state-dir "+w.state)
	w.allOfNobody()
}

// TestAStoreThatCannotBeWrittenIsRead on a file system that is mounted read-only.
func TestAStoreThatCannotBeWrittenIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onSmallDisk("size=64m")
	_, worker := w.ofNobody()
	worker.kill()
	require.NoError(t, syscall.Mount("maestro-test", w.state, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for _, by := range []*syscall.Credential{w.credential, nil} {
		w.credential = by
		require.Contains(t, w.must("status", "owned"), "completed")
		require.Contains(t, w.must("list"), "owned")
		require.Contains(t, w.must("checkpoints", "list", "owned"), "work ")
		require.Contains(t, w.must("logs", "owned"), "work")
		require.Contains(t, w.maestro("doctor").stdout, "read-only file system")
	}
}

// ofNobody makes a store that belongs to nobody, with a completed session.
func (w *world) ofNobody() (teamFile string, worker *process) {
	w.t.Helper()
	w.write("agents.yaml", "{version: 1, isolation: none, agents: {a: {kind: command, argv: [sh, -c, 'echo made > made.txt']}}}")
	teamFile = w.write("team.yaml", "{version: 1, name: t, personas: {dev: {role: r, agent: a, instructions: do}}, phases: "+
		"[{name: work, personas: [dev]}]}")
	w.asNobody()
	worker = w.startWorker()
	w.must("run", teamFile, "make it", "--session", "owned")
	w.completes("owned")
	return teamFile, worker
}

// allOfNobody requires that all files of the store belong to nobody.
func (w *world) allOfNobody() {
	w.t.Helper()
	require.NoError(w.t, filepath.WalkDir(w.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // the worker has removed it
		}
		st := info.Sys().(*syscall.Stat_t)
		require.Equal(w.t, []uint32{65534, 65534}, []uint32{st.Uid, st.Gid}, path)
		return nil
	}))
}

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
