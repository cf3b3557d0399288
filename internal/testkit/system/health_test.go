package system

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/worker/service"
)

// servedWorker is a worker with health endpoints, and where they are.
func (w *world) servedWorker(args ...string) (worker *process, port string) {
	w.t.Helper()
	worker = w.serves(w.start(filepath.Join(programs, "maestro-worker"), append([]string{"--drain", "1s", "--health-port", "0"},
		args...)...))
	found := regexp.MustCompile(`health is served.*:(\d+)"?[ ,]`).FindStringSubmatch(worker.output.String())
	require.Len(w.t, found, 2, worker.output.String())
	return worker, found[1]
}

// asks gets a path of a worker's endpoints; status 0 if nobody answers.
func (w *world) asks(port, path string, into any) (status int) {
	w.t.Helper()
	answer, err := http.Get("http://127.0.0.1:" + port + path)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	if json.NewDecoder(answer.Body).Decode(into) != nil {
		return 0
	}
	return answer.StatusCode
}

// isReady waits until a worker says that it is ready, or why it is not: its status, and the checks
// that fail.
func (w *world) isReady(port, status string, failed ...string) service.Readiness {
	w.t.Helper()
	var r service.Readiness
	w.eventually("the worker is "+status, func() bool {
		r = service.Readiness{}
		ready := w.asks(port, service.ReadyPath, &r) == http.StatusOK
		var checks []string
		for _, f := range r.Failed {
			checks = append(checks, f.Check)
		}
		return r.Status == status && ready == (status == "ready") && slices.Equal(checks, failed)
	})
	return r
}

func TestAWorkerSaysHowItIsThroughItsLife(t *testing.T) {
	t.Parallel()
	w := newWorldAlone(t)
	teamFile := w.withHoldingAgent()
	worker, port := w.servedWorker("--drain", "10m")
	var h service.Health
	require.Equal(t, http.StatusOK, w.asks(port, service.HealthPath, &h))
	require.Equal(t, "ok", h.Status)
	require.NotEmpty(t, h.Version)
	require.True(t, strings.HasPrefix(h.Identity, "maestro-"+h.Store+"@"), "%+v", h)
	require.NotZero(t, h.Since)

	is := func(status string, failed ...string) service.Readiness {
		t.Helper()
		r := w.isReady(port, status, failed...)
		require.Equal(t, http.StatusOK, w.asks(port, service.HealthPath, &h), "it is alive all the time: %+v", h)
		return r
	}
	is("ready")
	w.eventually("the command finds it so", func() bool { return w.maestro("worker", "health", "--health-port", port).code == 0 })

	w.server.kill()
	r := is("not ready", "temporal")
	require.Contains(t, r.Failed[0].Remedy, w.address)
	got := w.maestro("worker", "health", "--health-port", port)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr, `"check":"temporal"`)
	w.startServer()
	is("ready")

	other, err := sql.Open("sqlite", filepath.Join(w.state, state.FileName))
	require.NoError(t, err)
	other.SetMaxOpenConns(1)
	_, err = other.ExecContext(t.Context(), "begin immediate") // others cannot write
	require.NoError(t, err)
	r = is("not ready", "store")
	require.Contains(t, r.Failed[0].Remedy, w.state)
	_, err = other.ExecContext(t.Context(), "rollback")
	require.NoError(t, errors.Join(err, other.Close()))
	is("ready")

	w.hold("requirements")
	w.must("run", teamFile, "drain", "--session", "s")
	w.held("s", "requirements")
	worker.signal(syscall.SIGTERM)
	is("draining", "polling")
	w.release("requirements")
	w.dies(worker)
	require.Zero(t, worker.cmd.ProcessState.ExitCode(), worker.output.String())
	got = w.maestro("worker", "health", "--health-port", port)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr, "does not answer")

	w.startWorker()
	w.completes("s")
}

func TestMetricsAndHealthShareAListener(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withHoldingAgent()
	port := proctest.FreePort(t)
	w.variables = []string{"MAESTRO_HEALTH_PORT=" + port}
	worker := w.serves(w.start(filepath.Join(programs, "maestro-worker"), "--metrics-address", "127.0.0.1:"+port))
	require.Equal(t, "http://127.0.0.1:"+port+"/metrics", metricsURL(t, worker))
	w.isReady(port, "ready")
	answer, err := http.Get(metricsURL(t, worker))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	w.eventually("the command finds it ready, by the variable", func() bool { return w.maestro("worker", "health").code == 0 })

	for says, flag := range map[string]string{
		"cannot listen on port " + port + " for health checks; choose another --health-port": "--health-port=" + port,
		"choose another --metrics-address":                                                   "--metrics-address=127.0.0.1:" + port,
	} {
		other := w.start(filepath.Join(programs, "maestro-worker"), "--health-port=0", flag)
		w.dies(other)
		require.Equal(t, 1, other.cmd.ProcessState.ExitCode())
		require.Contains(t, other.output.String(), says)
	}
}

func TestHealthNeedsAPort(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.address, w.namespace = "127.0.0.1:1", "default"
	for _, args := range [][]string{
		{"worker", "health"},
		{"worker", "health", "--health-port", "x"},
		{"worker", "--health-port", "70000"},
	} {
		got := w.maestro(args...)
		require.Equal(t, 2, got.code, "%v: %s", args, got.stderr)
		require.Contains(t, got.stderr, "port")
	}
}
