package agent

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// inRooms skips a test where the kernel permits no rooms.
func inRooms(t *testing.T) {
	t.Helper()
	if err := (&procgroup.Launcher{
		Secrets: secrets.New(nil), MaxOutput: 1 << 20,
		Threads: procgroup.Threads{Each: 100},
	}).TryRoom(nil); err != nil {
		t.Skipf("this host permits no rooms: %v", err)
	}
}

// atWork lists the host's processes whose arguments have a text.
func atWork(text string) (pids []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		if data, err := os.ReadFile(line); err == nil && bytes.Contains(data, []byte(text)) {
			pids = append(pids, strings.Split(line, "/")[2])
		}
	}
	return pids
}

// TestWhatAnAgentSeesOfTheHost has an agent look and reach for everything around it.
func TestWhatAnAgentSeesOfTheHost(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	outside, shared, given := t.TempDir(), t.TempDir(), t.TempDir()
	for dir, name := range map[string]string{outside: "secret", shared: "tool", given: "store/blob"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name+" of the host"), 0o644))
	}
	require.NoError(t, os.WriteFile(b.path("input"), []byte("input"), 0o600))
	mark := "7" + strconv.Itoa(os.Getpid()) + ".25"
	script := `
name() { echo "$1: $(eval "$2" 2>&1 | tr '\n' ' ')"; }
name user 'id -u; id -g; id -un'
name place 'pwd; echo $HOME $TMPDIR; cat input'
name capabilities 'grep -h "Cap[PEBA]" /proc/self/status | cut -f2 | sort -u'
name processes 'ls /proc | grep -c "^[0-9]*$"'
name outside 'cat ` + outside + `/secret'
name shared 'cat ` + shared + `/tool'
name shared-write 'echo x > ` + shared + `/new'
name hidden 'ls ` + given + `/store'
name given 'echo x > ` + given + `/new && echo written'
name system 'touch /usr/x /etc/x /x'
name root 'ls -A /root /home /run'
name devices 'ls /dev | grep -v -e pts -e shm -e std -e fd'
name first 'kill -9 1; kill -STOP 1; echo alive'
name ptrace 'cat /proc/1/environ | wc -c; ls /proc/1/fd'
name threads 'cd /proc/1/task && for t in *; do for f in environ maps mem auxv; do (: < $t/$f) && echo $t/$f; done; for f in cwd root exe ns/mnt; do readlink $t/$f; done; ls $t/fd; done 2> /dev/null; echo end'
name mount 'mount -t tmpfs none /usr; umount /etc'
name device 'mknod /workspace/disk b 254 0'
name sysctl 'echo 1 > /proc/sys/kernel/core_pattern'
name host 'uname -n'
name nested 'unshare -Ur sh -c "id -u; mount -o remount,rw /usr; touch /usr/x"'
name uncover 'unshare -Urm sh -c "umount ` + given + `/store; ls ` + given + `/store; mount --bind / /mnt"'
name cache 'echo x > $CACHE/x; echo $CACHE'
echo '{"summary": "looked around"}' > $MAESTRO_RESULT
setsid sleep ` + mark + ` & (setsid sh -c 'exec sleep ` + mark + `' &)
echo work > done`
	s := b.set(Config{
		Isolation: IsolationRequired, Mounts: []Mount{{Path: shared}, {Path: given, Writable: true}},
		Caches: map[string]Cache{"one": {Env: "CACHE", Shared: true}},
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script}, Caches: []string{"one"}}},
	}, filepath.Join(given, "store"))
	if s.launcher.User != nil {
		require.NoError(t, os.Lchown(given, int(s.launcher.User.UID), int(s.launcher.User.GID)))
	}
	out := b.done(s, b.job())
	require.Equal(t, "looked around", out.Summary)
	said := answersIn(out.Log)
	for what, want := range map[string]string{
		"user":  "1000 1000 agent",
		"place": "/workspace /home/agent /tmp input", "capabilities": "0000000000000000",
		"shared": "tool of the host", "given": "written", "devices": "full mqueue null ptmx random tty urandom zero",
		"first": "alive", "host": "maestro", "cache": "/caches/one", "threads": "end",
	} {
		require.Equal(t, want, said[what], what)
	}
	processes, err := strconv.Atoi(said["processes"])
	require.NoError(t, err)
	require.Less(t, processes, 10)
	for what, want := range map[string]string{
		"outside": "No such file", "shared-write": "Read-only file system", "system": "Read-only file system",
		"ptrace": "Permission denied",
		"mount":  "must be superuser", "device": "Operation not permitted", "sysctl": "Permission denied",
	} {
		require.Contains(t, said[what], want, what)
	}
	require.Empty(t, said["hidden"], "the store is not shown")
	require.NotContains(t, said["root"], "secret")
	require.NotContains(t, said["system"], "'/x': Permission")
	if strings.HasPrefix(said["nested"], "0") { // programs with a sandbox of their own
		require.Contains(t, said["nested"], "Read-only file system")
	}
	require.NotContains(t, said["uncover"], "blob")
	require.FileExists(t, b.path("done"))
	require.FileExists(t, filepath.Join(given, "new"))
	require.FileExists(t, filepath.Join(b.dir, "caches", "one", "x"))
	require.NoFileExists(t, filepath.Join(given, "store", "new"))
	require.Empty(t, atWork("sleep\x00"+mark), "daemons end with the room")
}

// TestWhatRoomsShareOfTheKernel has an agent reach for what no namespace separates.
func TestWhatRoomsShareOfTheKernel(t *testing.T) {
	t.Parallel()
	inRooms(t)
	self := executable(t)
	b := newBench(t)
	s := b.set(Config{
		Isolation: IsolationRequired, Mounts: []Mount{{Path: filepath.Dir(self)}},
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", self + " " + keysArgument + `
echo "mounts: $(cat /proc/sys/user/max_mnt_namespaces)"
echo "inotify: $(cat /proc/sys/user/max_inotify_instances)"
echo "namespaces: $(unshare -Ur cat /proc/sys/user/max_user_namespaces 2>&1)"
echo 100000 > /proc/sys/user/max_inotify_instances
echo "shm: $(df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2)"`}}},
	})
	out := b.done(s, b.job())
	for _, want := range []string{
		"keys: function not implemented / function not implemented",
		"copies of mounts: function not implemented", "mounts: 32", "inotify: 32", "max_inotify_instances: Permission denied",
		"shm: 1048576",
	} {
		require.Contains(t, string(out.Log), want)
	}
}

// TestARoomEndsWithItsWorker kills a worker whose agent has left a daemon in a session of its
// own.
func TestARoomEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	mark := "8" + strconv.Itoa(os.Getpid()) + ".125"
	b.isolation = IsolationRequired
	cmd, _ := b.worker("(setsid setsid sleep " + mark + " &); setsid sleep " + mark + " & sleep " + mark)
	eventually(t, "its processes start", func() bool { return len(atWork("sleep\x00"+mark)) >= 3 })
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, "its processes end", func() bool { return len(atWork("sleep\x00"+mark)) == 0 })
}

// TestTheNetworkOfARoom has a check reach for a server of the host.
func TestTheNetworkOfARoom(t *testing.T) {
	t.Parallel()
	inRooms(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	self := executable(t)
	for _, c := range []struct {
		network Network
		address string
		want    string
	}{
		{nil, l.Addr().String(), ""},
		{Network{"host"}, l.Addr().String(), ""},
		{Network{"none"}, l.Addr().String(), "connection refused"}, // only the room's own loopback device is there
		{Network{"none"}, "vsock", "address family not supported"}, // a virtual machine's host is no host of the room
	} {
		b := newBench(t)
		s := b.set(Config{
			Isolation: IsolationRequired,
			Agents:    map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"true"}}},
			Checks:    map[string]CheckDefinition{"dial": {Argv: []string{self, dialArgument, c.address}, Network: c.network}},
		})
		out, err := s.Check(t.Context(), b.checkJob("dial"))
		require.Equal(t, c.want == "", err == nil, string(out.Log))
		require.Contains(t, string(out.Log), c.want)
	}
}

// TestRemovedFilesInARoomCount has an agent fill the disk with files that have no name.
func TestRemovedFilesInARoomCount(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	b.isolation = IsolationRequired
	s := b.set(Config{
		Isolation: IsolationRequired,
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", `
for dir in /workspace /home/agent /tmp; do (exec 9> $dir/big; rm $dir/big; head -c 1000000 /dev/zero >&9; while [ ! -e /workspace/go ]; do sleep 0.05; done) & done
(exec 9> /dev/shm/big; rm /dev/shm/big; head -c 9000000 /dev/zero >&9; while [ ! -e /workspace/go ]; do sleep 0.05; done) & wait`}}},
	})
	job, ended := b.job(), make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context(), job)
		ended <- err
	}()
	removed := func() int64 {
		bytes, hidden := s.Removed(job.WorkDir)
		require.False(t, hidden)
		return bytes
	}
	eventually(t, "they are seen", func() bool { return removed() >= 3_000_000 })
	require.Less(t, removed(), int64(9_000_000), "memory is not counted")
	require.NoError(t, os.WriteFile(b.path("go"), nil, 0o644))
	require.NoError(t, <-ended)
	require.Zero(t, removed())
}

// TestNoMountShowsTheStore has agents look for the store below mounts: by a path with a link, and by moving a directory above it.
func TestNoMountShowsTheStore(t *testing.T) {
	t.Parallel()
	inRooms(t)
	b := newBench(t)
	host := t.TempDir()
	store, link, linked := filepath.Join(host, "given", "data", "store"), filepath.Join(host, "link"), filepath.Join(host, "linked")
	fill(t, store, "blob")
	require.NoError(t, os.Symlink("given", link))
	require.NoError(t, os.Symlink(filepath.Join("given", "data", "store"), linked))
	given := filepath.Join(host, "given")
	s := b.set(Config{
		Isolation: IsolationRequired, Mounts: []Mount{{Path: given, Writable: true}, {Path: link, Writable: true}},
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", `cd "$0"
for given in given link; do
	mv $given/data $given/moved; (unshare -Urm mv $given/data $given/moved)
	cat $given/data/store/blob $given/moved/store/blob
	echo x > $given/data/new && mv $given/data/new $given/data/$given
done 2>&1; true`, host}}},
	}, linked)
	if s.launcher.User != nil {
		require.NoError(t, s.launcher.User.Chown(given))
	}
	out := b.done(s, b.job())
	require.NotContains(t, string(out.Log), "content of blob")
	require.FileExists(t, filepath.Join(store, "blob"), "nobody has moved it")
	for _, name := range []string{"given", "link"} {
		require.FileExists(t, filepath.Join(given, "data", name), string(out.Log))
	}
}

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
