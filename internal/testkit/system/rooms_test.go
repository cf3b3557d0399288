package system

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

// builder is an agent that leaves the wrong work first, with files that a check must not see.
const builder = `#!/bin/sh
ledger=$1
echo x >> "$ledger/built"
mkdir -p node_modules && echo dep >> node_modules/dep
echo cheat > "$HOME/pass"; echo cheat > "$TMPDIR/pass"
rm -f old.txt; mv docs papers
if [ "$(wc -l < "$ledger/built")" -eq 1 ]; then echo bad > work.txt; exit 0; fi
cp node_modules/dep "$ledger/kept"
echo more >> go.mod
echo good > work.txt
`

const inRooms = `version: 1
isolation: required
MOUNTS
agents:
  builder: {kind: command, argv: [./builder.sh, LEDGER]}
  left: {kind: command, argv: [sh, -c, 'pwd > left.txt; cat work.txt >> left.txt']}
  right: {kind: command, argv: [sh, -c, 'ls > right.txt']}
  holding: {kind: command, argv: [sh, -c, 'echo half > half.txt; touch LEDGER/holding; while [ -e LEDGER/hold ]; do sleep 0.05; done; echo whole > whole.txt']}
checks:
  good: {argv: [sh, -c, 'ls -A "$HOME" "$TMPDIR" | grep pass && exit 3; ls > LEDGER/checked; grep -q good work.txt && echo fine > report.txt && echo more >> work.txt'], keep: [report.txt]}
  merged: {argv: [sh, -c, 'cat left.txt right.txt report.txt'], network: none}
`

const roomsTeam = `version: 1
name: rooms
personas:
  builder: {role: r, agent: builder, instructions: x, checks: [good]}
  left: {role: r, agent: left, instructions: x}
  right: {role: r, agent: right, instructions: x}
  last: {role: r, agent: holding, instructions: x}
phases:
  - {name: build, personas: [builder], produces: [work.txt], protected: [go.mod]}
  - {name: both, personas: [left, right], checks: [merged]}
  - {name: last, personas: [last], produces: [whole.txt]}
`

// permitsRooms skips a test where the kernel permits no rooms.
func permitsRooms(t *testing.T) {
	t.Helper()
	try := &procgroup.Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: procgroup.Threads{Each: 100}}
	if err := try.TryRoom(nil); err != nil {
		mounts := exec.CommandContext(t.Context(), "unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/tmp").Run()
		require.Error(t, mounts, "this host permits namespaces, but no rooms: %v", err)
		t.Skipf("this host permits no rooms: %v", err)
	}
}

// TestASessionInRooms goes through a session whose agents and checks work in rooms: a failed
// attempt, personas side by side, a merge, and a worker that is killed.
func TestASessionInRooms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	permitsRooms(t)
	ledger := filepath.Dir(w.ledger("x"))
	require.NoError(t, os.Chmod(w.write("builder.sh", builder), 0o755))
	w.write("agents.yaml", strings.NewReplacer("LEDGER", ledger, "MOUNTS", w.mounts()).Replace(inRooms))
	workspace := filepath.Join(w.dir, "workspace")
	for path, text := range map[string]string{
		"old.txt": "old", "docs/a.md": "a", ".gitignore": "node_modules/\n",
		"go.mod": "module x\n",
	} {
		w.write(filepath.Join("workspace", path), text)
	}
	require.NoError(t, os.WriteFile(w.ledger("hold"), nil, 0o600))
	worker := w.startWorker()
	w.must("run", w.write("team.yaml", roomsTeam), "build it", "--session", "rooms", "--workspace", workspace)
	w.eventually("the last agent is at work", func() bool { return w.exists("holding") })
	worker.kill()
	require.NoError(t, os.Remove(w.ledger("holding")))
	w.startWorker()
	w.eventually("the last agent is at work again", func() bool { return w.exists("holding") })
	require.NoError(t, os.Remove(w.ledger("hold")))
	s := w.completes("rooms")

	build := s.Phases[0].Assignments[0]
	require.Equal(t, 2, build.Attempts, "the check refused the first work")
	require.Contains(t, build.Summary, "changes to protected files are not used: go.mod")
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "rooms", "--out", out)
	for path, want := range map[string]string{
		"work.txt": "good\n", "report.txt": "fine\n", "papers/a.md": "a", "left.txt": "/workspace\ngood\n", "whole.txt": "whole\n",
		"half.txt": "half\n",
	} {
		data, err := os.ReadFile(filepath.Join(out, path))
		require.NoError(t, err, path)
		require.Equal(t, want, string(data), path)
	}
	require.NotContains(t, w.must("artifacts", "list", "rooms"), "node_modules")
	require.NotContains(t, w.must("artifacts", "list", "rooms"), "go.mod")
	for name, lacks := range map[string]string{"checked": "node_modules", "kept": "cheat"} {
		data, err := os.ReadFile(w.ledger(name))
		require.NoError(t, err)
		require.NotContains(t, string(data), lacks)
	}
	data, err := os.ReadFile(w.ledger("kept"))
	require.NoError(t, err)
	require.Equal(t, "dep\ndep\n", string(data), "the second attempt has what the first left, ignored files too")
	w.must("artifacts", "diff", "rooms")
	w.must("checkpoints", "verify", "--all")
}

// TestAnAgentThatTakesTooMuchFails and the worker goes on: with a file that it has open and has
// removed, with more files than it may have, with memory, and with output.
//
//nolint:paralleltest // what others write to the disk at the same time, or remove, counts
func TestAnAgentThatTakesTooMuchFails(t *testing.T) {
	for _, isolation := range []string{agent.IsolationNone, agent.IsolationRequired} {
		for limit, c := range map[string]struct{ most, script string }{
			"disk_bytes":   {"50MB", "exec 9> big; rm big; head -c 300000000 /dev/zero >&9; sleep 100"},
			"disk_files":   {"500", "mkdir d; cd d; seq 3000 | xargs touch; sleep 100"},
			"memory":       {"50MB", "head -c 200000000 /dev/zero | tail -c 150000000 | sleep 100"},
			"output_bytes": {"1MB", "yes"},
		} {
			t.Run(isolation+" "+limit, func(t *testing.T) {
				if isolation == agent.IsolationRequired {
					permitsRooms(t)
				}
				w := newWorld(t)
				w.write("agents.yaml", "version: 1\nisolation: "+isolation+"\nlimits: {"+limit+": "+c.most+`}
agents: {much: {kind: command, argv: [/bin/sh, -c, '`+c.script+`']}}
`)
				w.startWorker()
				w.must("run", w.write("team.yaml",
					`{version: 1, name: much, help: {mode: fail}, retry: {attempts: 1, rounds: 1, initial: 10ms}, personas: {dev: {role: r, agent: much, instructions: do}},
					phases: [{name: one, personas: [dev]}]}`), "take it", "--session", "much")
				failed := w.ends("much").Phases[0].Assignments[0].Failures
				require.Len(t, failed, 1)
				require.Equal(t, failures.InvalidOutput, failed[0].Category)
				require.Contains(t, failed[0].Message, "limits."+limit)
				require.Empty(t, w.agents())
			})
		}
	}
}

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
