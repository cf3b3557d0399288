package system

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// programs is where TestMain leaves the built maestro.
var programs string

// programsVariable names that directory to a test that runs itself again.
const programsVariable = "MAESTRO_TEST_PROGRAMS"

// fragileWorker is a worker with failpoints.
const fragileWorker = "fragile"

func TestMain(m *testing.M) {
	room.Shim()
	proctest.RunWithout()
	if signal.Ignored(syscall.SIGINT) { // as shells start what they have in the background
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT) // programs get the default again
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if programs = os.Getenv(programsVariable); programs != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "maestro-system-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	err = proctest.Build("../../..", filepath.Join(dir, fragileWorker), "./worker", "-tags", "failpoints")
	for _, name := range []string{"maestro", "maestro-worker", room.ProgramName} {
		err = errors.Join(err, proctest.Build("../../..", filepath.Join(dir, name), proctest.Programs[name]))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
		return 1
	}
	return m.Run()
}

// limit bounds every wait in these tests.
const limit = 5 * time.Minute

// quiet is the logger of clients that are expected to fail now and then.
var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// world is one test's own namespace in Temporal, store and workers.
type world struct {
	t         *testing.T
	dir       string
	state     string
	address   string
	namespace string
	// server is the test's own, if it has one.
	server *process
	// cwd is where commands run; empty: in dir.
	cwd string
	// variables are those that programs have besides the usual ones.
	variables []string
	// location is where the store is besides its directory.
	location store.Location
	// credential is who programs run as; nil: who runs the tests.
	credential *syscall.Credential
	// without is a feature of the kernel that workers lack; empty: none.
	without proctest.Feature
	// network is the network namespace of programs; empty: that of the test.
	network string
}

// process is a program that a test has started and may kill.
type process struct {
	cmd    *exec.Cmd
	output *proctest.Output
	done   chan struct{}
}

// newWorld is a world on the server that these tests share.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.address, w.namespace = temporaltest.Namespace(t, searchAttributes...)
	return w
}

// newWorldAlone is a world whose server may be killed.
func newWorldAlone(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.address, w.namespace = "127.0.0.1:"+proctest.FreePort(t), "default"
	w.startServer()
	return w
}

func emptyWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	ledger := filepath.Join(dir, "ledger")
	require.NoError(t, os.Mkdir(ledger, 0o700))
	require.NoError(t, os.Chmod(ledger, 0o777)) // for the user of rooms
	return &world{t: t, dir: dir, state: filepath.Join(dir, "state")}
}

// searchAttributes are flags of a server.
var searchAttributes = []string{
	"--search-attribute", "MaestroTeam=Keyword", "--search-attribute", "MaestroStatus=Keyword",
	"--search-attribute", "MaestroPhase=KeywordList", "--search-attribute", "MaestroTokens=Int",
}

// start runs a program until the test ends or kills it.
func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	return w.startWith(nil, name, args...)
}

// startWith starts a program with more variables than the others have.
func (w *world) startWith(variables []string, name string, args ...string) *process {
	w.t.Helper()
	p := &process{cmd: w.command(context.Background(), name, args...), output: &proctest.Output{}, done: make(chan struct{})}
	if w.without != "" && filepath.Base(name) == "maestro-worker" {
		p.cmd = proctest.Without(w.without, name, args...)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Env = append(w.environment(), variables...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: w.credential}
	require.NoError(w.t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	w.t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", filepath.Base(name), tail(p.output.String(), 6000))
		}
	})
	return p
}

// command is a command in the world's network.
func (w *world) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if w.network != "" {
		name, args = "nsenter", append([]string{"--net=" + w.network, "--", name}, args...) // it becomes the program
	}
	return exec.CommandContext(ctx, name, args...)
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process as a crash would, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (w *world) environment() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir(),
		"TEMPORAL_ADDRESS=" + w.address, "TEMPORAL_NAMESPACE=" + w.namespace,
		"MAESTRO_STATE_DIR=" + w.state, "MAESTRO_AGENTS=" + filepath.Join(w.dir, "agents.yaml"),
	}, slices.Concat(w.location.Environ(), w.variables)...)
}

// startServer starts the server, or starts it again after a kill, on the same
// address and database.
func (w *world) startServer() {
	w.t.Helper()
	server, err := filepath.Abs("../../../bin/maestro-server")
	require.NoError(w.t, err)
	require.FileExists(w.t, server, "run `make build` first")
	host, port, err := net.SplitHostPort(w.address)
	require.NoError(w.t, err)
	w.server = w.start(server, append([]string{
		"--ip", host, "--port", port, "--headless", "--db-filename", filepath.Join(w.dir, "temporal.db"),
	}, searchAttributes...)...)
	w.eventually("the server answers", func() bool {
		c, err := client.Dial(client.Options{HostPort: w.address, Logger: quiet})
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// startWorker starts a worker and waits until the store knows its offer.
func (w *world) startWorker() *process {
	w.t.Helper()
	return w.serves(w.start(filepath.Join(programs, "maestro-worker"), "--drain", "1s"))
}

func (w *world) serves(worker *process) *process {
	w.t.Helper()
	w.eventually("the worker serves", func() bool {
		select {
		case <-worker.done:
			require.Fail(w.t, "the worker has ended")
		default:
		}
		return strings.Contains(worker.output.String(), "worker serves")
	})
	return worker
}

// dies waits until a process is gone.
func (w *world) dies(p *process) {
	w.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		require.Fail(w.t, "it should have died", tail(p.output.String(), 6000))
	}
}

// eventually waits for a condition.
func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	require.Eventually(w.t, condition, limit, 50*time.Millisecond, what)
}

// write leaves a file in the test's directory and returns its path.
func (w *world) write(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(content), 0o755))
	return path
}

// ledger is a path outside the store at which agents and test meet.
func (w *world) ledger(name string) string { return filepath.Join(w.dir, "ledger", name) }

// mounts is the key of a worker file that shows the ledger in rooms.
func (w *world) mounts() string {
	return "mounts: [{path: " + filepath.Join(w.dir, "ledger") + ", writable: true}]"
}

// answer is what a command printed and how it ended.
type answer struct {
	stdout, stderr string
	code           int
}

// maestro runs the command line to its end.
func (w *world) maestro(args ...string) answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := w.command(ctx, filepath.Join(programs, "maestro"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = &stdout, &stderr, w.environment(), cmp.Or(w.cwd, w.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.credential}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(w.t, err)
	}
	return answer{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed and returns what it printed. That a slow machine admits
// a session late is no failure of the command that has started it.
func (w *world) must(args ...string) string {
	w.t.Helper()
	a := w.maestro(args...)
	if strings.Contains(a.stderr, "the session is started, but no worker admitted it within") {
		return a.stdout
	}
	require.Zero(w.t, a.code, "maestro %s\n%s%s", strings.Join(args, " "), a.stdout, a.stderr)
	return a.stdout
}

func (w *world) status(sessionID string) session.Status {
	w.t.Helper()
	var s session.Status
	require.NoError(w.t, json.Unmarshal([]byte(w.must("status", sessionID, "-o", "json")), &s))
	return s
}

// ends waits for the session's end. The store says when it is time to have a program
// look, which costs far more.
func (w *world) ends(sessionID string) session.Status {
	w.t.Helper()
	if w.credential != nil { // whose store these tests may not open
		return w.shows(sessionID, "session "+sessionID+" ends", func(s session.Status) bool { return s.Status.Closed() })
	}
	var s session.Status
	st := w.open()
	w.eventually("session "+sessionID+" ends", func() bool {
		stored, err := st.State.Execution(w.t.Context(), session.Key{Namespace: w.namespace, Session: sessionID})
		if err != nil || !stored.Status.Status.Closed() {
			return false
		}
		s = w.status(sessionID)
		return s.Status.Closed()
	})
	return s
}

// completes waits for the session's end, which has to be completed.
func (w *world) completes(sessionID string) session.Status {
	w.t.Helper()
	s := w.ends(sessionID)
	require.Equal(w.t, session.Completed, s.Status, "%+v", s)
	return s
}

// shows waits until a condition holds for a session's status, and returns it.
func (w *world) shows(sessionID, what string, condition func(session.Status) bool) session.Status {
	w.t.Helper()
	var s session.Status
	require.Eventually(w.t, func() bool {
		s = w.status(sessionID)
		return condition(s)
	}, limit, 250*time.Millisecond, what)
	return s
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// exists reports whether a file of the ledger is there.
func (w *world) exists(name string) bool {
	_, err := os.Stat(w.ledger(name))
	return err == nil
}

// metricsURL is where a worker says that it serves its metrics.
func metricsURL(t *testing.T, worker *process) string {
	t.Helper()
	found := regexp.MustCompile(`url=(\S+/metrics)`).FindStringSubmatch(worker.output.String())
	require.Len(t, found, 2, worker.output.String())
	return found[1]
}

// calls lists the paid calls of a session; of an assignment alone, if one is given.
func (w *world) calls(sessionID string, id spec.AssignmentID) []state.Call {
	w.t.Helper()
	calls, err := w.open().State.Calls(w.t.Context(), state.Assignment{
		Key:          session.Key{Namespace: w.namespace, Session: sessionID},
		AssignmentID: id,
	})
	require.NoError(w.t, err)
	return calls
}

// costs are the sums of a session's calls.
func (w *world) costs(sessionID string) state.Cost {
	w.t.Helper()
	account, err := w.open().State.Account(w.t.Context(), session.Key{Namespace: w.namespace, Session: sessionID})
	require.NoError(w.t, err)
	return account.Of(spec.AssignmentID{})
}
