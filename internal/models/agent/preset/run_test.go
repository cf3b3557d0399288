package preset

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/transcript"
)

// TestWorking: a program that has reported its end works again if it says so, until its next report.
func TestWorking(t *testing.T) {
	t.Parallel()
	const (
		begins   = `{"type":"system","subtype":"init","session_id":"c1"}`
		ends     = `{"type":"result","subtype":"success","result":"done"}`
		call     = `{"type":"assistant","message":{"id":"m2","content":[{"type":"tool_use","name":"Bash","input":{"command":"go test"}}]}}`
		result   = `{"type":"user","message":{"content":[{"type":"tool_result","content":"ok"}]}}`
		request  = `{"type":"stream_event","event":{"type":"message_start","message":{"id":"m3"}}}`
		asks     = `{"type":"system","subtype":"status","status":"requesting"}`
		text     = `{"type":"assistant","message":{"id":"m4","content":[{"type":"text","text":"Bye."}]}}`
		subagent = `{"type":"system","subtype":"task_started","task_id":"a1","task_type":"local_agent"}`
		command  = `{"type":"system","subtype":"task_started","task_id":"b1","task_type":"local_bash"}`
		ended    = `{"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}`
		all      = `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"w1","task_type":"local_workflow"}]}`
		onlyBash = `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b1","task_type":"local_bash"}]}`
	)
	claude, codex, gemini := For(Claude), For(Codex), For(Gemini)
	for _, test := range []struct {
		program *Program
		events  []string
		working bool
	}{
		{claude, []string{begins, call, result, ends}, false},
		{claude, []string{begins, ends, text}, false},
		{claude, []string{begins, ends, call}, true},
		{claude, []string{begins, call, ends, result}, true},
		{claude, []string{begins, ends, request}, true},
		{claude, []string{begins, ends, asks}, true},
		{claude, []string{begins, ends, begins}, true},
		{claude, []string{begins, ends, call, ends}, false},
		{claude, []string{begins, subagent, ends}, true},
		{claude, []string{begins, subagent, ends, ended}, false},
		{claude, []string{begins, command, ends}, false},
		{claude, []string{begins, command, all, ends}, true},
		{claude, []string{begins, all, ends, onlyBash}, false},
		{codex, []string{`{"type":"turn.completed"}`}, false},
		{
			codex,
			[]string{`{"type":"turn.completed"}`, `{"type":"item.started","item":{"type":"command_execution","command":"ls"}}`},
			true,
		},
		{gemini, []string{`{"type":"result","status":"success"}`}, false},
		{gemini, []string{`{"type":"result","status":"success"}`, `{"type":"tool_use","tool_name":"read_file"}`}, true},
	} {
		require.Equal(t, test.working, reported(t, test.program, test.events...).Working(), "%q", test.events)
	}
}

// reported is a run that has reported events and its end.
func reported(t *testing.T, program *Program, events ...string) *Run {
	t.Helper()
	run := &Run{
		Pending: map[string]bool{"": true}, Tasks: map[string]bool{},
		OnLine: func(string) {}, OnConversation: func(string) {}, OnUsage: func(cost.Usage, cost.Usage) {},
		Stop: func(*failures.Failure) {},
	}
	run.Log = transcript.New(io.Discard, func(text string) string { return text })
	run.Warnings = run.Log
	parser := program.Parser(Invocation{})
	for _, e := range events {
		require.True(t, parser.Event([]byte(e), run))
	}
	require.True(t, run.Done)
	return run
}

// TestAReportedSuccessStands although a later turn fails, and what it cost counts.
func TestAReportedSuccessStands(t *testing.T) {
	t.Parallel()
	const (
		ends     = `{"type":"result","subtype":"success","result":"done","usage":{"input_tokens":100,"output_tokens":10},"total_cost_usd":0.5}`
		text     = `{"type":"assistant","message":{"id":"m9","content":[{"type":"text","text":"Let me look."}]}}`
		broken   = `{"type":"result","subtype":"error_during_execution","is_error":true,"usage":{"input_tokens":1},"errors":["broken"]}`
		limited  = `{"type":"result","subtype":"success","is_error":true,"result":"You've hit your session limit","usage":{}}`
		turns    = `{"type":"result","subtype":"error_max_turns","is_error":true}`
		subagent = `{"type":"system","subtype":"task_started","task_id":"a1","task_type":"local_agent"}`
		command  = `{"type":"system","subtype":"task_started","task_id":"b1","task_type":"local_bash"}`
		ended    = `{"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}`
	)
	for _, test := range []struct {
		events []string
		want   failures.Category
	}{
		{[]string{ends, text, broken}, ""},
		{[]string{command, ends, text, broken}, ""},
		{[]string{ends, text, limited}, ""},
		{[]string{ends, text, turns, broken}, ""},
		{[]string{subagent, ended, ends, text, limited}, ""},
		{[]string{subagent, ends, ended, text, broken}, ""}, // which would throw the work away
		{[]string{subagent, ends, ended, text, limited}, failures.RateLimited},
		{[]string{subagent, ends, ended, text, turns}, failures.TurnLimit},
		{[]string{subagent, ends, ended, limited, ends}, ""},
		{[]string{broken, ends}, ""},
	} {
		run := reported(t, For(Claude), test.events...)
		require.Equal(t, cost.Usage{InputTokens: 100, OutputTokens: 10, CostUSD: cost.USD(5e8)}, run.Used, "%q", test.events)
		if test.want == "" {
			require.Nil(t, run.Failure, "%q", test.events)
			require.Equal(t, "done", run.Summary, "%q", test.events)
			continue
		}
		require.Equal(t, test.want, run.Failure.Category, "%q", test.events)
	}
}
