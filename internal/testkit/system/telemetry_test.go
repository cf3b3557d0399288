package system

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/worker/telemetry/telemetrytest"
)

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
