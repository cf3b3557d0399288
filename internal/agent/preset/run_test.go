package preset

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/transcript"
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
		program Program
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
		{codex, []string{`{"type":"turn.completed"}`, `{"type":"item.started","item":{"type":"command_execution","command":"ls"}}`}, true},
		{gemini, []string{`{"type":"result","status":"success"}`}, false},
		{gemini, []string{`{"type":"result","status":"success"}`, `{"type":"tool_use","tool_name":"read_file"}`}, true},
	} {
		run := &Run{
			Pending: map[string]bool{"": true}, Tasks: map[string]bool{},
			OnLine: func(string) {}, OnConversation: func(string) {}, OnUsage: func(cost.Usage, cost.Usage) {}, Stop: func(*failures.Failure) {},
		}
		run.Log = transcript.New(io.Discard, func(text string) string { return text })
		run.Warnings = run.Log
		parser := test.program.Parser(Invocation{})
		for _, e := range test.events {
			require.True(t, parser.Event([]byte(e), run))
		}
		require.True(t, run.Done)
		require.Equal(t, test.working, run.Working(), "%q", test.events)
	}
}
