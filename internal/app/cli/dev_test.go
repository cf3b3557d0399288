package cli_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// serverOf finds the server process that a state directory belongs to; 0 for none.
func serverOf(t *testing.T, state string) int {
	t.Helper()
	database := []byte(filepath.Join(state, "temporal", "temporal.db"))
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, p := range processes {
		line, err := os.ReadFile(p)
		if err == nil && bytes.Contains(line, database) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
			require.NoError(t, err)
			return pid
		}
	}
	return 0
}

// address reads where a `dev` said that Temporal is.
func address(t *testing.T, said string) string {
	t.Helper()
	found := regexp.MustCompile(`Temporal  (\S+), namespace default`).FindStringSubmatch(said)
	require.Len(t, found, 2, said)
	return found[1]
}

func TestDevIsKilledAndGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withProgram()
	port := proctest.FreePort(t)
	start := func() (*exec.Cmd, *proctest.Output) {
		cmd := exec.Command(os.Args[0], "dev", "--port", port, "--headless", "--agents",
			d.file("agents.yaml", "version: 1\nagents:\n  coder: {kind: command, argv: [sleep, \"600\"]}\n"))
		cmd.Env = append(d.environ, asProgram+"="+d.bin)
		stderr := &proctest.Output{}
		cmd.Stderr = stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		until(t, func() bool { return strings.Contains(stderr.String(), "Stop with Ctrl-C") }, "dev is not up: %s", stderr)
		return cmd, stderr
	}
	first, stderr := start()
	d.set("TEMPORAL_ADDRESS", "") // the store says where the server is
	d.host = "test"
	d.must(0, "run", d.file("team.yaml", oneTeam), "Build.", "--session", "s")
	require.Contains(t, d.must(0, "doctor"), "127.0.0.1:"+port+", ")
	announced, lives := temporalutil.FindLocal(d.state, "test")
	require.True(t, lives)
	require.Equal(t, temporalutil.LocalServer{
		Address: address(t, stderr.String()), Namespace: "default", Host: "test", PID: first.Process.Pid,
		WorkerFile: filepath.Join(d.dir, "agents.yaml"), Reloads: true,
	}, announced)
	_, lives = temporalutil.FindLocal(d.state, "another-machine")
	require.False(t, lives)
	info, err := os.Stat(filepath.Join(d.state, "temporal", "dev.json"))
	require.NoError(t, err)
	require.Equal(t, "-rw-------", info.Mode().String())
	elsewhere := *d
	elsewhere.set("TEMPORAL_ADDRESS", "127.0.0.1:1")
	require.Contains(t, elsewhere.run("status", "s").stderr.String(), "cannot reach Temporal at 127.0.0.1:1;",
		"the environment wins")

	server := serverOf(t, d.state)
	require.NotZero(t, server)
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	until(t, func() bool { return serverOf(t, d.state) == 0 }, "the server outlives a killed dev")
	stale, lives := temporalutil.FindLocal(d.state, "test")
	require.False(t, lives, "its process was killed")
	require.Equal(t, announced, stale)

	again, stderr := start()
	require.Equal(t, "127.0.0.1:"+port, address(t, stderr.String()))
	var s session.Status
	d.json(&s, "status", "s")
	require.Equal(t, session.Running, s.Status)
	require.NoError(t, again.Process.Signal(syscall.SIGTERM))
	require.NoError(t, again.Wait(), stderr.String())
	require.Zero(t, serverOf(t, d.state))
	require.NoFileExists(t, filepath.Join(d.state, "temporal", "dev.json"))
}

func TestDevRefusesAPortInUseBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for _, args := range [][]string{
		{"dev", "--headless", "--port", port},
		{"dev", "--port", "0", "--ui-port", port},
	} {
		d := newDesk(t).withProgram()
		d.ends(1, "port "+port+" is in use by another process", args...)
		require.NoFileExists(t, filepath.Join(d.state, "temporal", "temporal.db"))
	}
}

func TestDevSaysWhatIsMissingBesideIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ends(1, "maestro-server is not in the directory of this program", "dev")
	require.NoDirExists(t, d.state)
}

// The README shows a demo that ends by itself.
func TestDemoStaysUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withProgram()
	_, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	proctest.ShareGoCache(t, d.state)
	demo := d.begin("demo", "--keep")
	demo.says("Running until Ctrl-C.")
	link := regexp.MustCompile(`Web UI       http://(127\.0\.0\.1:\d+)/namespaces/default/workflows/shortener-`).FindStringSubmatch(demo.stdout.String())
	require.Len(t, link, 2, demo.stdout.String())
	conn, err := net.Dial("tcp", link[1])
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	for _, want := range []string{"decisions: code_length=7, storage=memory", "checkpoints  ", "maestro logs shortener-"} {
		require.Contains(t, demo.stdout.String(), want)
	}
	exported := regexp.MustCompile(`artifacts    \d+ files in (\S+)`).FindStringSubmatch(demo.stdout.String())
	require.Len(t, exported, 2, demo.stdout.String())
	require.FileExists(t, filepath.Join(exported[1], "go.mod"))
	demo.interrupt()
	require.Equal(t, 0, demo.wait(), demo.stderr.String())
	require.Zero(t, serverOf(t, d.state))
}
