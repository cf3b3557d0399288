package system

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/worker/service"
	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

// reloads has a worker read its file again, and waits for what it says of it.
func (w *world) reloads(worker *process, said string) {
	w.t.Helper()
	before := strings.Count(worker.output.String(), said)
	worker.signal(syscall.SIGHUP)
	w.eventually("the worker says "+said, func() bool { return strings.Count(worker.output.String(), said) > before })
}

// offered lists the agents of the store's live workers, if there are any.
func (w *world) offered() (agents []string) {
	w.t.Helper()
	var doc struct {
		Workers []struct {
			Agents []struct{ Agent string }
		}
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.maestro("agents", "-o", "json").stdout), &doc))
	for _, worker := range doc.Workers {
		for _, a := range worker.Agents {
			agents = append(agents, a.Agent)
		}
	}
	return agents
}

func TestHangUpTakesOverTheWorkerFileAndOnlyARightOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	w.concurrency(1)
	worker, port := w.servedWorker("--metrics-address", "127.0.0.1:0")
	reloaded := func() float64 {
		return telemetrytest.Scrape(t, metricsURL(t, worker)).Must(t, "maestro_worker_file_reload_success")
	}
	require.InDelta(t, 1, reloaded(), 0)
	w.hold("requirements")
	w.must("run", teamFile, "reload", "--session", "s")
	held := w.held("s", "requirements")

	w.write("agents.yaml", "version: 1\nagents:\n  holding: {kind: command, argv: [sh], concurency: 3}\n")
	w.reloads(worker, "worker file not reloaded")
	require.Regexp(t, `level=ERROR msg="worker file not reloaded[^\n]* file=\S*agents.yaml line=3 field=\S*concurency error=`,
		worker.output.String())
	r := w.isReady(port, "ready") // with the file of before
	require.Contains(t, r.File.Trouble, "concurency")
	require.Equal(t, filepath.Join(w.dir, "agents.yaml"), r.File.Path)
	require.InDelta(t, 0, reloaded(), 0)
	require.Equal(t, []string{"holding"}, w.offered())

	w.write("agents.yaml", "version: 1\n"+w.mounts()+"\nlimits: {lost_workers: 7}\nagents:\n  other: {kind: command, argv: "+
		"[\"true\"]}\n")
	w.reloads(worker, "worker file reloaded")
	require.Regexp(t, `worker file reloaded" file=\S+ changed="agents, limits"`, worker.output.String())
	require.Empty(t, w.isReady(port, "ready").File.Trouble)
	require.InDelta(t, 1, reloaded(), 0)
	require.Equal(t, []string{"other"}, w.offered())
	refused := w.maestro("run", teamFile, "later", "--session", "later")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, `agent "holding" of persona`)

	require.NoError(t, syscall.Kill(held, 0), "what is under way goes on")
	w.hold("design")
	w.release("requirements")
	w.shows("s", "the round that was under way ends", func(s session.Status) bool { return s.Phases[0].Status == session.Completed })
	require.Equal(t, map[string]int{"requirements": 1}, w.executed("s"), "and nobody takes up the next")

	w.concurrency(2)
	w.reloads(worker, "worker file reloaded")
	w.held("s", "design")
	w.must("run", teamFile, "second", "--session", "t")
	w.held("t", "design") // beside the first, with two slots
	w.release("design")
	for _, sessionID := range []string{"s", "t"} {
		s := w.completes(sessionID)
		for _, p := range s.Phases {
			require.Equal(t, 1, p.Assignments[0].Attempts, "%s", p.Name)
			require.Zero(t, p.Assignments[0].LostWorkers, "%s", p.Name)
		}
	}
}

// failingOnce says its secret and fails at its first attempt.
const failingOnce = `version: 1
agents:
  coder:
    kind: command
    env: [CODER_TOKEN]
    argv:
      - sh
      - -c
      - |
        cat > brief.json
        if grep -q '"attempt":1' brief.json; then printf 'no way with %s\n' "$CODER_TOKEN" >&2; exit 3; fi
        rm brief.json; echo code > code.txt
        echo '{"usage":{"input_tokens":100,"cost_usd":0.25}}' > $MAESTRO_RESULT
`

func TestEveryLineSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("agents.yaml", failingOnce)
	teamFile := w.write("team.yaml", `version: 1
name: one
personas:
  dev: {role: developer, agent: coder, instructions: do}
retry: {initial: 10ms}
phases:
  - {name: build, personas: [dev], approve: true}
`)
	w.variables = []string{"CODER_TOKEN=hunter2hunter2", "MAESTRO_LOG_FORMAT=json"}
	worker := w.startWorker()
	w.must("run", teamFile, "log", "--session", "s")
	w.shows("s", "it waits for approval", func(s session.Status) bool { return s.Status == session.AwaitingApproval })
	w.must("approve", "s")
	w.completes("s")
	worker.signal(syscall.SIGTERM)
	w.dies(worker)

	require.NotContains(t, worker.output.String(), "hunter2")
	said := map[string][]map[string]any{}
	for line := range strings.Lines(worker.output.String()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		message := l["msg"].(string)
		said[message] = append(said[message], l)
		if l["session"] != nil {
			require.Equal(t, "s", l["session"])
			require.NotEmpty(t, l["run_id"], line)
		}
		if _, ok := l["attempt"]; ok || l["activity"] == "run-round" {
			require.Subset(t, l, map[string]any{"session": "s", "phase": "build", "persona": "dev", "agent": "coder", "round": 1.0}, line)
		}
		require.NotContains(t, l, "WorkflowID")
	}
	for message, want := range map[string][]map[string]any{
		"session admitted": {{"session": "s", "team": "one"}},
		"attempt started":  {{"attempt": 1.0}, {"attempt": 2.0}},
		"attempt ended": {
			{"attempt": 1.0, "outcome": "failed", "category": "unknown"},
			{"attempt": 2.0, "outcome": "completed", "tokens": 100.0, "cost_usd": 0.25},
		},
		"phase completed":            {{"phase": "build"}},
		"request to a person opened": {{"session": "s", "phase": "build"}},
		"session ended":              {{"session": "s", "status": "completed", "tokens": 100.0}},
		"worker has drained":         {{}},
	} {
		require.Len(t, said[message], len(want), message)
		for n, line := range said[message] {
			require.Subset(t, line, want[n], message)
		}
	}
	require.Contains(t, said["attempt ended"][0]["error"], "no way with ***")
	require.Positive(t, said["attempt ended"][1]["duration_seconds"])
}

func TestADrainTellsWhatItWaitsForAndASecondSignalEndsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	teamFile := w.withHoldingAgent()
	worker := w.serves(w.start(filepath.Join(programs, "maestro-worker"), "--drain", "10m"))
	w.hold("requirements")
	w.must("run", teamFile, "drain", "--session", "s")
	w.held("s", "requirements")
	worker.signal(syscall.SIGTERM)
	w.eventually("it tells what it waits for", func() bool {
		return regexp.MustCompile(`msg="worker is draining" rounds=1 left=\d+m`).MatchString(worker.output.String())
	})
	require.Regexp(t, `handed over" session=s run_id=\S+ phase=requirements persona=\S+ round=1 agent=holding drain=10m`,
		worker.output.String())
	require.Empty(t, w.offered())
	worker.signal(syscall.SIGINT)
	w.dies(worker)
	ended, ok := worker.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGINT, ended.Signal())

	w.startWorker()
	w.release("requirements")
	w.completes("s")
}

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

// talkativeAgent fails its first attempt with words and a secret in its error,
// then waits while its phase is held.
const talkativeAgent = `#!/bin/sh
brief=$(cat)
phase=$(echo "$brief" | sed 's/.*"phase":"\([a-z]*\)".*/\1/')
usage='"usage":{"input_tokens":100,"cache_read_tokens":20,"output_tokens":7,"cost_usd":0.5}'
if echo "$brief" | grep -q '"attempt":1'; then
	echo "{\"error\":{\"category\":\"invalid_output\",\"message\":\"peculiar words, and $SOME_TOKEN\",\"retryable\":true},$usage}" > "$MAESTRO_RESULT"
	exit 1
fi
echo here > "$1/at-$phase"
while [ -f "$1/hold-$phase" ]; do sleep 0.05; done
echo "{\"summary\":\"peculiar summary\",$usage}" > "$MAESTRO_RESULT"
`

const secretToken = "s3cr3t-of-the-worker"

// traced is a world whose programs export to a collector.
func traced(t *testing.T) (*world, *telemetrytest.Receiver) {
	t.Helper()
	r := telemetrytest.Receive(t)
	w := newWorld(t)
	w.variables = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_METRIC_EXPORT_INTERVAL=500", "SOME_TOKEN=" + secretToken}
	script := w.write("talkative.sh", talkativeAgent)
	w.write("agents.yaml", fmt.Sprintf("version: 1\n%s\nsecrets: [SOME_TOKEN]\nagents:\n  coder: {kind: command, argv: [%s, %s], "+
		"env: [SOME_TOKEN]}\n",
		w.mounts(), script, w.ledger("")))
	return w, r
}

const twoPhases = `version: 1
name: web
personas:
  dev: {role: Developer, agent: coder, instructions: unmistakable instructions}
phases:
  - {name: build, personas: [dev]}
  - {name: test, personas: [dev]}
retry: {initial: 10ms}
`

// TestASessionIsOneTraceOverTheWorkersThatItHad starts a session with one worker
// and ends it with another, which replays the history of the first.
func TestASessionIsOneTraceOverTheWorkersThatItHad(t *testing.T) {
	t.Parallel()
	w, r := traced(t)
	teamFile := w.write("team.yaml", twoPhases)
	w.hold("test")
	first := w.startWorker()
	w.must("run", teamFile, "an unmistakable requirement", "--session", "traced")
	w.eventually("the second phase is at work", func() bool {
		return len(r.Named("invoke_agent coder")) > 0 && w.exists("at-test")
	})
	first.signal(syscall.SIGTERM)
	w.dies(first)
	require.Zero(t, first.cmd.ProcessState.ExitCode(), first.output.String())
	require.Regexp(t, `msg="round handed over to another worker" [^\n]*session=traced [^\n]*phase=test`, first.output.String())
	require.Empty(t, w.agents(), "the agent is gone before its worker")
	second := w.startWorker()
	w.release("test")
	test := w.completes("traced").Phases[1].Assignments[0]
	require.Equal(t, 2, test.Attempts, "handing over uses up none")
	require.Zero(t, test.LostWorkers)
	second.signal(syscall.SIGTERM)
	w.dies(second)

	roots := r.Named("StartWorkflow:team-session")
	require.Len(t, roots, 1)
	require.Equal(t, "maestro", roots[0].Service, "the command began it")
	sess := r.Named("RunWorkflow:team-session")
	require.Len(t, sess, 1, "a replay is no second session")
	require.Equal(t, roots[0].SpanId, sess[0].ParentSpanId)
	require.Equal(t, "maestro-worker", sess[0].Service)

	ids := map[string]bool{}
	for _, span := range r.Spans() {
		if span.Trace() != roots[0].Trace() {
			continue
		}
		require.False(t, ids[string(span.SpanId)], "%s is there twice", span.Name)
		ids[string(span.SpanId)] = true
	}
	for _, span := range r.Spans() {
		if span.Trace() == roots[0].Trace() && len(span.ParentSpanId) > 0 {
			require.True(t, ids[string(span.ParentSpanId)], "the parent of %s is missing", span.Name)
		}
	}
	requireAttempts(t, r, roots[0].Trace())
	for _, body := range r.Bodies() {
		for _, word := range []string{"unmistakable", "peculiar", secretToken} {
			require.NotContains(t, string(body), word)
		}
	}
	for _, metric := range []string{"gen_ai.client.token.usage", "maestro.attempts", "maestro.worker.polling", "temporal_request"} {
		require.True(t, r.Metric(metric), metric)
	}
}

// requireAttempts looks for what the trace says of attempts and of what they paid.
func requireAttempts(t *testing.T, r *telemetrytest.Receiver, trace string) {
	t.Helper()
	calls := r.Named("invoke_agent coder")
	require.NotEmpty(t, calls)
	for _, call := range calls {
		require.Equal(t, trace, call.Trace())
		require.Equal(t, "traced", call.Text("gen_ai.conversation.id"))
		require.Equal(t, "coder", call.Text("gen_ai.agent.name"))
		if call.Text("error.type") == "cancelled" {
			continue // handed over by the first worker
		}
		require.EqualValues(t, 120, call.Int("gen_ai.usage.input_tokens"))
		require.EqualValues(t, 20, call.Int("gen_ai.usage.cache_read.input_tokens"))
		require.EqualValues(t, 7, call.Int("gen_ai.usage.output_tokens"))
	}
	var ended []string
	for _, phase := range []string{"build", "test"} {
		for _, attempt := range r.Named("attempt " + phase + "/dev") {
			require.Equal(t, trace, attempt.Trace())
			require.Equal(t, phase, attempt.Text("maestro.phase"))
			ended = append(ended, fmt.Sprintf("%s %d %s", phase, attempt.Int("maestro.attempt"), attempt.Text("error.type")))
		}
	}
	for _, want := range []string{"build 1 invalid_output", "build 2 ", "test 1 invalid_output", "test 2 "} {
		require.True(t, slices.Contains(ended, want), "%q is not among %q", want, ended)
	}
}
