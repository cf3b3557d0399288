package cli_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/app/cli"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/jsontest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// asProgram makes the test binary the maestro program, for tests that kill it.
const asProgram = "MAESTRO_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	cli.Shim()
	proctest.RunWithout()
	if bin := os.Getenv(asProgram); bin != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(cli.Execute(ctx, cli.Env{
			Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, IsTerminal: cli.IsTerminal,
			Environ: os.Environ(), Executable: bin, Dir: "/", Host: "test", PID: os.Getpid(), Now: time.Now,
		}))
	}
	os.Exit(m.Run())
}

// desk is a place to type commands at: a directory, a store and an environment
// of its own.
type desk struct {
	t     *testing.T
	dir   string
	state string
	// environ is the commands' environment, bin where maestro and
	// maestro-server would be.
	environ  []string
	stdin    string
	bin      string
	terminal bool
	// host is the machine's name, cwd the working directory; empty: the usual ones.
	host, cwd string
	// namespace is the one in Temporal that commands use.
	namespace string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	d := &desk{t: t, dir: dir, state: filepath.Join(dir, "state"), bin: filepath.Join(dir, "bin", "maestro"), namespace: "default"}
	d.environ = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "MAESTRO_STATE_DIR=" + d.state,
		"TEMPORAL_CONFIG_FILE=" + filepath.Join(dir, "no-temporal.toml"), "TEMPORAL_ADDRESS=127.0.0.1:1",
	}
	return d
}

// withServer gives the desk a namespace of its own on a Temporal server.
func (d *desk) withServer() *desk {
	d.t.Helper()
	return d.at(temporaltest.Namespace(d.t, searchAttributes...))
}

// withAnotherServer gives the desk a server of its own with another desk's namespace.
func (d *desk) withAnotherServer(namespace string) *desk {
	d.t.Helper()
	return d.at(temporaltest.Start(d.t, append([]string{"--namespace", namespace}, searchAttributes...)...), namespace)
}

func (d *desk) at(address, namespace string) *desk {
	d.namespace = namespace
	d.set("TEMPORAL_ADDRESS", address)
	d.set("TEMPORAL_NAMESPACE", namespace)
	return d
}

// searchAttributes are flags of a server.
var searchAttributes = []string{
	"--search-attribute", "MaestroTeam=Keyword", "--search-attribute", "MaestroStatus=Keyword",
	"--search-attribute", "MaestroPhase=KeywordList", "--search-attribute", "MaestroTokens=Int",
}

// withProgram lets commands find the programs that are beside maestro.
func (d *desk) withProgram() *desk {
	d.t.Helper()
	d.bin = filepath.Join(filepath.Dir(temporaltest.Binary(d.t, "maestro-server")), "maestro")
	return d
}

// withStore makes an empty store in the directory that MAESTRO_STATE_DIR names.
func (d *desk) withStore() {
	d.t.Helper()
	_, err := store.Create(d.variable("MAESTRO_STATE_DIR"), store.Options{Clock: time.Now})
	require.NoError(d.t, err)
}

func (d *desk) set(name, value string) { d.environ = append(d.environ, name+"="+value) }

// file writes a file into the desk's directory and returns its path.
func (d *desk) file(name, content string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	require.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(d.t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// command is a command line under way or done.
type command struct {
	t              *testing.T
	stdout, stderr proctest.Output
	code           int
	interrupt      context.CancelFunc
	done           chan struct{}
}

// begin starts a command line. It is interrupted at the end of the test.
func (d *desk) begin(args ...string) *command {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{t: d.t, interrupt: cancel, done: make(chan struct{})}
	env := cli.Env{
		Args: append([]string{}, args...), Stdin: strings.NewReader(d.stdin), Stdout: &c.stdout, Stderr: &c.stderr,
		IsTerminal: func(any) bool { return d.terminal }, Environ: d.environ, Executable: d.bin,
		Dir: cmp.Or(d.cwd, d.dir), Host: cmp.Or(d.host, "desk"), PID: os.Getpid(), Now: time.Now,
	}
	go func() {
		defer close(c.done)
		c.code = cli.Execute(ctx, env)
	}()
	d.t.Cleanup(func() {
		cancel()
		<-c.done
	})
	return c
}

// patience bounds everything that a test waits for.
const patience = 5 * time.Minute

// wait returns the exit code.
func (c *command) wait() int {
	c.t.Helper()
	select {
	case <-c.done:
		return c.code
	case <-time.After(patience):
		require.Fail(c.t, "the command did not end", "stdout:\n%s\nstderr:\n%s", c.stdout.String(), c.stderr.String())
		return -1
	}
}

// run runs a command line to its end.
func (d *desk) run(args ...string) *command {
	d.t.Helper()
	c := d.begin(args...)
	c.wait()
	return c
}

// must runs a command line that has to end with a code, and returns its output.
func (d *desk) must(code int, args ...string) string {
	d.t.Helper()
	c := d.run(args...)
	require.Equal(d.t, code, c.code, "maestro %s\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), c.stdout.String(),
		c.stderr.String())
	return c.stdout.String()
}

// ends runs a command line that has to end with a code, and to say something on standard error.
func (d *desk) ends(code int, says string, args ...string) *command {
	d.t.Helper()
	c := d.run(args...)
	where := "maestro " + strings.Join(args, " ") + "\nstdout:\n" + c.stdout.String()
	require.Equal(d.t, code, c.code, "%s\nstderr:\n%s", where, &c.stderr)
	require.Contains(d.t, c.stderr.String(), says, where)
	return c
}

// json runs a command line with -o json and decodes the document.
func (d *desk) json(document any, args ...string) {
	d.t.Helper()
	out := d.must(0, append(args, "-o", "json")...)
	require.NoError(d.t, json.Unmarshal([]byte(out), document), out)
}

// prints runs a command line with -o json, whose document has to have a part, as of [jsontest.Has].
func (d *desk) prints(part string, args ...string) {
	d.t.Helper()
	d.printsAt(0, part, args...)
}

// printsAt is the same for a command that has to end with a code.
func (d *desk) printsAt(code int, part string, args ...string) {
	d.t.Helper()
	out := d.must(code, append(args, "-o", "json")...)
	require.True(d.t, jsontest.Has(d.t, out, part), "maestro %s\n%s\nlacks\n%s", strings.Join(args, " "), out, part)
}

// until waits for a condition.
func until(t *testing.T, condition func() bool, message string, args ...any) {
	t.Helper()
	require.Eventually(t, condition, patience, 100*time.Millisecond, append([]any{message}, args...)...)
}

// status is what is known of a session.
func (d *desk) status(id string) (s session.Status) {
	d.t.Helper()
	d.json(&s, "status", id)
	return s
}

// becomes waits until a session's status is as it has to be.
func (d *desk) becomes(id string, right func(session.Status) bool) (s session.Status) {
	d.t.Helper()
	until(d.t, func() bool { s = d.status(id); return right(s) }, "session %s: %+v", id, &s)
	return s
}

// in is for [desk.becomes].
func in(state session.State) func(session.Status) bool {
	return func(s session.Status) bool { return s.Status == state }
}

// says waits for text on standard error, shows for text on standard output.
func (c *command) says(text string) {
	c.t.Helper()
	c.reads(&c.stderr, text)
}

func (c *command) shows(text string) {
	c.t.Helper()
	c.reads(&c.stdout, text)
}

func (c *command) reads(b *proctest.Output, text string) {
	c.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(b.String(), text) {
		select {
		case <-deadline:
			require.Fail(c.t, "never said: "+text, "stdout:\n%s\nstderr:\n%s", c.stdout.String(), c.stderr.String())
		case <-c.done:
			require.Contains(c.t, b.String(), text, "exit code %d, stdout:\n%s\nstderr:\n%s", c.code, c.stdout.String(), c.stderr.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// withWorker serves the desk's store with shell scripts as agents, by name. They may use the
// desk's directory.
func (d *desk) withWorker(scripts map[string]string) *command {
	d.t.Helper()
	var b strings.Builder
	require.NoError(d.t, os.Chmod(d.dir, 0o777)) // for the user of rooms
	fmt.Fprintf(&b, "version: 1\nmounts: [{path: %s, writable: true}]\nagents:\n", d.dir)
	for name, script := range scripts {
		d.file(name+".sh", script)
		fmt.Fprintf(&b, "  %s: {kind: command, argv: [sh, ./%s.sh], timeout: 5m}\n", name, name)
	}
	b.WriteString("checks:\n  has-code: {argv: [test, -f, code.txt]}\n")
	file := d.file("agents.yaml", strings.ReplaceAll(b.String(), "sh, ./", "sh, "+d.dir+"/"))
	return d.serves(file)
}

// serves starts a worker with a worker file, and waits until it serves.
func (d *desk) serves(file string) *command {
	d.t.Helper()
	w := d.begin("worker", "--agents", file, "--drain", "1s")
	w.says("worker serves")
	return w
}

const (
	oneTeam = `
version: 1
name: solo
personas:
  dev: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: build, personas: [dev], produces: [code.txt]}
`
	twoTeam = `
version: 1
name: pair
personas:
  analyst: {role: Analyst, agent: writer, instructions: "Write docs."}
  dev: {role: Developer, agent: coder, instructions: "Write code.", attempts: 2}
phases:
  - {name: think, personas: [analyst], produces: ["docs/*.md"]}
  - {name: build, personas: [dev], checks: [has-code]}
retry: {rounds: 1, initial: 10ms, max: 10ms}
help: {mode: fail}
`
)
