package agent

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
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
