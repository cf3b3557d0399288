package agent

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// hasFloor skips a test where the kernel cannot bound processes without rooms.
func hasFloor(t *testing.T) {
	t.Helper()
	if room.Landlock() < room.ScopeVersion {
		t.Skip("this host's Landlock is older than version 6")
	}
}

// fill writes files with their own names as content.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("content of "+name), 0o755))
	}
}

// TestWhatAnAgentReachesWithoutARoom has an agent read, change and signal what is around it.
func TestWhatAnAgentReachesWithoutARoom(t *testing.T) {
	t.Parallel()
	hasFloor(t)
	b := newBench(t)
	store, home, host, shared := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	fill(t, store, "blob", "work/other/tree/file")
	fill(t, home, ".ssh/id", "tools/tool", "agents/own.sh")
	fill(t, host, "file", "key")
	fill(t, shared, "store/blob", "file")
	victim := exec.Command("sleep", "1000")
	victim.Env = []string{"SECRET=of-another"}
	require.NoError(t, victim.Start())
	defer func() { _ = errors.Join(victim.Process.Kill(), victim.Wait()) }()
	abstract, err := net.Listen("unix", "@maestro-floor-"+strconv.Itoa(os.Getpid()))
	require.NoError(t, err)
	defer abstract.Close()
	self := executable(t)
	script := strings.NewReplacer("STORE", store, "WHOME", home, "HOST", host, "SHARED", shared, "VICTIM",
		strconv.Itoa(victim.Process.Pid),
		"WORKER", strconv.Itoa(os.Getpid()), "DIAL", self+" "+dialArgument+" unix:"+abstract.Addr().String()).Replace(`#!/bin/sh
name() { echo "$1: $(eval "$2" 2>&1 | tr '\n' ' ')"; }
name own 'for f in tree/x home/x tmp/x caches/one/x; do echo x > ../$f || echo no $f; done; mkdir a; mv tmp a/ 2> /dev/null; mv ../tmp/x a/; mv a ../home/; ln ../home/x y; rm y; : > /dev/null; echo x > /dev/shm/floor-WORKER && rm /dev/shm/floor-WORKER; cat ../home/a/x'
name tools 'cat WHOME/tools/tool && in-path'
name shared 'cat SHARED/file && echo x > SHARED/file'
name host 'cat HOST/file'
name names 'ls STORE'
name read-store 'cat STORE/blob'
name read-other 'cat STORE/work/other/tree/file'
name read-home 'cat WHOME/.ssh/id'
name read-key 'cat HOST/key'
name read-shared 'cat SHARED/store/blob'
name read-link 'ln -s STORE/blob link; cat link'
name read-environment 'cat /proc/VICTIM/environ /proc/WORKER/environ'
name read-memory 'head -c 1 /proc/VICTIM/mem'
name read-by-root 'cat /proc/VICTIM/root/STORE/blob'
name link-in 'ln STORE/blob here && cat here'
name write-other 'echo x > STORE/work/other/tree/file'
name add-other 'mkdir STORE/work/other/tree/new'
name remove-other 'rm -rf STORE/work/other'
name write-store 'echo x > STORE/blob'
name truncate-store 'truncate -s 0 STORE/blob'
name write-host 'echo x > HOST/new; echo x >> HOST/file'
name write-shared 'echo x > SHARED/store/blob'
name write-tools 'echo x > WHOME/tools/tool'
name write-tmp 'echo x > /tmp/floor-WORKER'
name move-out 'echo x > out; mv out HOST/out'
name link-out 'echo x > out2; ln out2 HOST/out2'
name move-self 'mv ../tree ../elsewhere'
name socket 'DIAL'
name signal-worker 'kill -0 WORKER'
name signal-shim 'kill -0 $PPID'
name signal-victim 'kill -0 VICTIM'
name mount 'mount -t tmpfs none ../tmp || unshare -Urm mount -t tmpfs none ../tmp'
name device 'mknod disk b 254 0 || mknod zero c 1 5'
echo '{"summary": "looked around"}' > $MAESTRO_RESULT`)
	require.NoError(t, os.WriteFile(filepath.Join(home, "agents/own.sh"), []byte(script), 0o755))
	fill(t, home, ".sdk/lib")
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".sdk/bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".sdk/bin/in-path"),
		[]byte("#!/bin/sh\ncat "+home+"/.sdk/lib > /dev/null && echo ' found'"), 0o755))
	b.vars["HOME"], b.vars["PATH"] = home, filepath.Join(home, ".sdk/bin")+":"+b.vars["PATH"]
	s := b.set(Config{
		Mounts:    []Mount{{Path: filepath.Join(home, "tools")}, {Path: shared, Writable: true}},
		Caches:    map[string]Cache{"one": {Env: "CACHE", Shared: true}},
		Providers: map[string]Provider{"p": {Format: wire.Anthropic, KeyFile: filepath.Join(host, "key")}},
		Agents: map[string]Definition{"x": {
			Kind: KindCommand, Argv: []string{filepath.Join(home, "agents/own.sh")},
			Caches: []string{"one"},
		}},
	}, store, filepath.Join(shared, "store"))
	out := b.done(s, b.job())
	require.Equal(t, "looked around", out.Summary)
	said := answersIn(out.Log)
	for what, want := range map[string]string{
		"own": "x", "tools": "content of tools/tool found", "shared": "content of file", "host": "content of file",
		"names": "blob work",
	} {
		require.Equal(t, want, said[what], what)
		delete(said, what)
	}
	for what, text := range said {
		if what == "maestro" || what == "read-environment" && os.Geteuid() == 0 { // which the kernel permits by a capability
			continue
		}
		require.Regexp(t, "Permission denied|Operation not permitted|Invalid cross-device link|permission denied|operation not "+
			"permitted|must be superuser", text, what)
	}
	for path, want := range map[string]string{
		filepath.Join(store, "blob"):                 "content of blob",
		filepath.Join(store, "work/other/tree/file"): "content of work/other/tree/file",
		filepath.Join(host, "file"):                  "content of file", filepath.Join(home, "tools/tool"): "content of tools/tool",
		filepath.Join(shared, "file"): "x\n",
	} {
		require.Equal(t, want, read(t, path), path)
	}
	require.NoFileExists(t, filepath.Join(host, "out"))
	require.NoFileExists(t, b.path("disk"))
}

// TestProgramsWorkAboveTheFloor runs what agents run, without rooms.
func TestProgramsWorkAboveTheFloor(t *testing.T) {
	t.Parallel()
	for program, script := range map[string]string{
		"git": `git init -q . && echo a > a && git add . && git -c user.name=n -c user.email=e commit -qm one && git gc -q && git clone -q . ../tmp/copy && git worktree add -q ../tmp/second && git -C ../tmp/copy log --oneline | grep one`,
		"go":  `mkdir m && cd m && printf 'module m\n' > go.mod && printf 'package m\nimport "testing"\nfunc TestX(t *testing.T) { t.TempDir() }\n' > m_test.go && GOCACHE=$HOME/cache GOFLAGS= go test .`,
		"python3": `python3 -c 'import tempfile, multiprocessing as m, sqlite3
tempfile.NamedTemporaryFile().write(b"x")
m.Lock(); m.Queue().put(1)
sqlite3.connect("db").execute("create table t (x)")
print("done")'`,
		"npm": `npm init -y > /dev/null && mkdir dep && (cd dep && npm init -y > /dev/null) && npm install --no-audit --no-fund ./dep && npm exec --offline -c 'node -e "require(\"dep\")" || node -e "console.log(1)"'`,
		"bash": `cat <<X; diff <(echo a) <(echo a); echo a | tee /dev/stderr >(cat > f) > /dev/null; trap : EXIT
here
X`,
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			hasPrograms(t, program)
			b := newBench(t)
			b.vars["HOME"] = os.Getenv("HOME")
			s := b.set(Config{Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"bash", "-ec", script}}}})
			b.done(s, b.job())
		})
	}
}

// TestAKernelWithoutLandlock has an agent work without the floor.
func TestAKernelWithoutLandlock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.without = proctest.Landlock
	outside := filepath.Join(t.TempDir(), "written")
	cmd, out := b.worker("echo x > " + outside)
	require.NoError(t, cmd.Wait())
	require.Equal(t, "null\n", out.String())
	require.FileExists(t, outside)
}

// TestAKernelWithoutUserNamespaces has an agent of a worker with isolation auto work without a
// room, above the floor.
func TestAKernelWithoutUserNamespaces(t *testing.T) {
	t.Parallel()
	hasFloor(t)
	b := newBench(t)
	b.isolation, b.without = IsolationAuto, proctest.UserNamespaces
	outside := filepath.Join(t.TempDir(), "written")
	cmd, out := b.worker("pwd > place; echo x > " + outside)
	require.NoError(t, cmd.Wait())
	require.Contains(t, out.String(), "Permission denied")
	require.NoFileExists(t, outside)
	require.Equal(t, filepath.Join(b.dir, "tree")+"\n", read(t, b.path("place")))
}
