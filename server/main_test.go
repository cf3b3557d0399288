package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// asServer makes this test binary behave as maestro-server, so the tests have its processes to start and to kill
// without building it a second time.
const asServer = "MAESTRO_SERVER_TEST_AS_SERVER"

const (
	startTimeout = 2 * time.Minute
	pollInterval = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		return
	}
	if err := os.Setenv(asServer, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// A namespace has its search attributes, and the server its settings.
func TestItIsStartedWithItsArguments(t *testing.T) {
	t.Parallel()
	server := start(t, "--namespace", "team-space", "--search-attribute", "MaestroTeam=Keyword",
		"--ui-port", strconv.Itoa(freePort(t)), "--db-filename", filepath.Join(t.TempDir(), "temporal.db"),
		"--dynamic-config-value", "history.maxInFlightUpdates=50")
	c := server.dial(t, "team-space")
	runWorker(t, c)
	attribute := temporal.NewSearchAttributeKeyKeyword("MaestroTeam")
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue:             queue,
		TypedSearchAttributes: temporal.NewSearchAttributes(attribute.ValueSet("web-service")),
	}, greet, 30*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))

	require.EventuallyWithT(t, func(e *assert.CollectT) {
		found, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: "team-space", Query: `MaestroTeam = "web-service"`,
		})
		require.NoError(e, err)
		require.Len(e, found.GetExecutions(), 1)
	}, startTimeout, pollInterval)
	server.stop(t)
}

func TestNothingIsLostWhenItIsKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.db")
	first := start(t, "--db-filename", file, "--headless", "--search-attribute", "MaestroTokens=Int")
	c := first.dial(t, "")
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "survivor", TaskQueue: queue}, wait)
	require.NoError(t, err)
	require.NoError(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait()

	// The second start comes at once, on the same port.
	second := start(t, "--db-filename", file, "--headless", "--port", first.port, "--search-attribute", "MaestroTokens=Int")
	c = second.dial(t, "")
	described, err := c.DescribeWorkflowExecution(t.Context(), "survivor", run.GetRunID())
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, described.GetWorkflowExecutionInfo().GetStatus())
	runWorker(t, c)
	require.NoError(t, c.SignalWorkflow(t.Context(), "survivor", "", "go", nil))
	require.NoError(t, c.GetWorkflow(t.Context(), "survivor", "").Get(t.Context(), nil))

	tokens := temporal.NewSearchAttributeKeyInt64("MaestroTokens")
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: queue, TypedSearchAttributes: temporal.NewSearchAttributes(tokens.ValueSet(7)),
	}, wait)
	require.NoError(t, err, "the attribute is there as soon as the server answers")
	second.stop(t)
}

func TestManyStartTogether(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			server := start(t, "--headless", "--namespace", fmt.Sprintf("only-%d", i))
			c := server.dial(t, "")
			list, err := c.WorkflowService().ListNamespaces(t.Context(), &workflowservice.ListNamespacesRequest{})
			require.NoError(t, err)
			var names []string
			for _, namespace := range list.GetNamespaces() {
				names = append(names, namespace.GetNamespaceInfo().GetName())
			}
			require.ElementsMatch(t, []string{"temporal-system", "default", fmt.Sprintf("only-%d", i)}, names, "each server is its own")
			server.stop(t)
		})
	}
}

func TestWebUI(t *testing.T) {
	t.Parallel()
	server := start(t, "--port", strconv.Itoa(freePort(t)))
	var url, page string
	require.EventuallyWithT(t, func(c *assert.CollectT) { // it is printed after Temporal's address
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(server.stdout.String())
		assert.NotEmpty(c, url)
	}, startTimeout, pollInterval)
	require.EventuallyWithT(t, func(c *assert.CollectT) { page = fetch(c, url+"/") }, startTimeout, pollInterval)
	asset := regexp.MustCompile(`/_app/[^"']+\.js`).FindString(page)
	require.NotEmpty(t, asset, "the page loads the embedded application")
	require.NotEmpty(t, fetch(t, url+asset))
	require.Contains(t, fetch(t, url+"/api/v1/namespaces"), `"default"`)
	require.Contains(t, fetch(t, url+"/namespaces/default/workflows"), "_app")
	server.stop(t)
}

func TestOccupied(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "temporal.db")
	start(t, "--headless", "--db-filename", file)

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"port": {[]string{"--headless", "--port", port}, "port " + port +
			" is in use by another process; stop that one, or choose another port with --port"},
		"UI port": {[]string{"--port", "0", "--ui-port", port}, "port " + port +
			" is in use by another process; stop that one, or choose another port with --ui-port"},
		"database file": {
			[]string{"--headless", "--port", "0", "--db-filename", file},
			"is in use by another server: stop that one, or choose another file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runToEnd(t, test.args...)
			require.Equal(t, 1, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, test.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one sentence, not a trace: %s", stderr)
		})
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`"Team=Number"`:               {"--search-attribute", "Team=Number"},
		`"history.maxInFlightUpdate"`: {"--dynamic-config-value", "history.maxInFlightUpdate=1"},
		"-prot":                       {"--prot", "1"},
		`"x"`:                         {"--port", "x"},
		`"extra"`:                     {"extra"},
		"-absent":                     {"server", "start-dev", "--absent"},
	} {
		code, _, stderr := runToEnd(t, args...)
		require.Equal(t, 2, code, args)
		require.Contains(t, stderr, want)
	}
}

func TestItEndsWithItsParent(t *testing.T) {
	t.Parallel()
	server := start(t, "--headless", "--until-stdin-closes")
	require.NoError(t, server.stdin.Close())
	require.NoError(t, server.cmd.Wait())
	require.Empty(t, server.stderr.String())
}

const queue = "test"

func greet(ctx workflow.Context, pause time.Duration) error { return workflow.Sleep(ctx, pause) }

func wait(ctx workflow.Context) error {
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
	return nil
}

func runWorker(t *testing.T, c client.Client) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(greet)
	w.RegisterWorkflow(wait)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// process is a running maestro-server.
type process struct {
	cmd            *exec.Cmd
	stdin          io.Closer
	stdout, stderr *safeBuffer
	port           string
}

// start runs the server with args, on a free port unless args name one, and returns when it has said where it
// listens: it does so when it answers.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{stdout: &safeBuffer{}, stderr: &safeBuffer{}}
	p.cmd = exec.Command(self(t), append([]string{"--port", "0"}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.stdin = stdin
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	address := regexp.MustCompile(`Temporal +127\.0\.0\.1:(\d+)`)
	require.Eventually(t, func() bool {
		found := address.FindStringSubmatch(p.stdout.String())
		if len(found) == 2 {
			p.port = found[1]
		}
		return p.port != ""
	}, startTimeout, pollInterval, "the server says where it listens")
	return p
}

func (p *process) dial(t *testing.T, namespace string) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: "127.0.0.1:" + p.port, Namespace: namespace, Logger: quiet()})
	require.NoError(t, err, p.stderr)
	t.Cleanup(c.Close)
	return c
}

// stop ends the server as a supervisor would, and expects it to end well and without a complaint.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait(), p.stderr)
	require.Empty(t, p.stderr.String())
}

func runToEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, self(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func fetch(t require.TestingT, url string) string {
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode, url)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// freePort is a port that nobody listens on, from where neither the system nor a server takes any by itself.
func freePort(t *testing.T) int {
	t.Helper()
	const least, most = 10_000, 12_000
	for range 100 {
		port := least + rand.IntN(most-least)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			require.NoError(t, listener.Close())
			return port
		}
	}
	t.Fatalf("no port between %d and %d is free", least, most)
	return 0
}

func quiet() sdklog.Logger { return sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// safeBuffer may be read while a process still writes to it.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
