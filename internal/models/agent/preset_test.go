package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
)

// standIn is an agent of a preset whose program is a shell script.
func (b *bench) standIn(program, script string) *Set {
	b.t.Helper()
	return b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Preset: program,
		Argv: []string{"/bin/sh", "-c", script, "stand-in"}, Env: []string{"API_KEY"},
	}}})
}

// runStandIn runs such an agent once.
func (b *bench) runStandIn(program, script string, calls session.Calls) (session.Outcome, error) {
	job := b.job()
	job.Calls = calls
	return b.standIn(program, script).Run(b.t.Context(), job)
}

// printed is a shell command that prints a stream of testdata.
func printed(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "streams", name+".jsonl"))
	require.NoError(t, err)
	return "cat '" + path + "';"
}

// says is a shell command that prints events.
func says(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "printf '%%s\\n' '%s';", strings.ReplaceAll(e, "'", `'\''`))
	}
	return b.String()
}

// The beginnings of streams.
const (
	claudeBegins = `{"type":"system","subtype":"init","session_id":"c1"}`
	codexBegins  = `{"type":"thread.started","thread_id":"c1"}`
	geminiBegins = `{"type":"init","session_id":"c1"}`
	claudeEnds   = `{"type":"result","subtype":"success","is_error":false,"result":"done","usage":{"input_tokens":1,"output_tokens":1}}`
	codexEnds    = `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}`
	geminiEnds   = `{"type":"result","status":"success","stats":{"total_tokens":2,"input_tokens":1,"output_tokens":1}}`
)

func TestPresetsReadTheirStreams(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]struct {
		id      string
		usage   cost.Usage
		garbage string
		live    []cost.Usage
	}{
		preset.Claude: {
			"c0ffee00-0000-4000-8000-000000000001",
			cost.Usage{InputTokens: 130, OutputTokens: 30, CacheReadTokens: 7, CacheWriteTokens: 5, CostUSD: 1_179_500},
			"Warning: this is no event",
			[]cost.Usage{
				{InputTokens: 10, OutputTokens: 1, CacheReadTokens: 7, CacheWriteTokens: 5},
				{InputTokens: 10, OutputTokens: 20, CacheReadTokens: 7, CacheWriteTokens: 5},
				{InputTokens: 20, OutputTokens: 23, CacheReadTokens: 7, CacheWriteTokens: 5},
				{InputTokens: 30, OutputTokens: 26, CacheReadTokens: 7, CacheWriteTokens: 5},
				{InputTokens: 130, OutputTokens: 30, CacheReadTokens: 7, CacheWriteTokens: 5, CostUSD: 1_179_500},
			},
		},
		preset.Codex: {
			"0dec0dec-0000-7000-8000-000000000001",
			cost.Usage{InputTokens: 100, OutputTokens: 60, CacheReadTokens: 80, CacheWriteTokens: 20, ReasoningTokens: 24},
			"2026-11-21T15:01:19Z ERROR no event at all",
			[]cost.Usage{{InputTokens: 100, OutputTokens: 60, CacheReadTokens: 80, CacheWriteTokens: 20, ReasoningTokens: 24}},
		},
		preset.Gemini: {
			"9e311111-0000-4000-8000-000000000001",
			cost.Usage{InputTokens: 120, OutputTokens: 60, CacheReadTokens: 80, ReasoningTokens: 24},
			"",
			[]cost.Usage{{InputTokens: 120, OutputTokens: 60, CacheReadTokens: 80, ReasoningTokens: 24}},
		},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			out := b.done(b.standIn(program, printed(t, program+"-done")), b.job())
			require.Equal(t, "All is done.", out.Summary)
			require.Equal(t, want.usage, out.Usage)
			require.Equal(t, want.live, b.calls.Live)
			require.Equal(t, []cost.Usage{want.usage}, b.calls.Each)
			log := string(out.Log)
			for _, text := range []string{"ls -l", "< total 0\n", "a.go\n", "All is done.\n", want.garbage} {
				require.Contains(t, log, text)
			}
			require.NotContains(t, log, `"type"`, "events are not the log")
			require.NotContains(t, log, "the prompt")
			require.NotContains(t, strings.Join(b.said, "\n"), `"type"`)
			c, ok := ReadConversation(b.job().Home, program)
			require.True(t, ok)
			require.Equal(t, want.id, c.ID)
		})
	}
}

func TestPresetsStartTheirPrograms(t *testing.T) {
	t.Parallel()
	const claude = "--output-format stream-json --verbose --include-partial-messages"
	const of = " -c model_providers.maestro."
	const served = " -c model_provider=maestro" + of + "name=maestro" + of + "base_url=http://h/v1" + of + "env_key=K" +
		of + "wire_api=responses"
	goesOn := session.Conversation{ID: "c1"}
	for _, c := range []struct {
		preset, argv string
		run          preset.Invocation
		want         string
	}{
		{
			preset.Claude, "",
			preset.Invocation{},
			"claude --permission-mode acceptEdits --allowedTools Bash --print " + claude + " --add-dir /w/result",
		},
		{
			preset.Claude, "claude -p --output-format=stream-json --model other --max-turns 9",
			preset.Invocation{Model: "m", MaxTurns: 3, Conversation: goesOn},
			"claude -p --output-format=stream-json --model other --max-turns 9 --verbose --include-partial-messages --add-dir /w/result " +
				"--resume c1",
		},
		{
			preset.Claude, "claude",
			preset.Invocation{Model: "m", MaxTurns: 3},
			"claude --print " + claude + " --model m --max-turns 3 --add-dir /w/result",
		},
		{
			preset.Codex, "",
			preset.Invocation{},
			"codex exec --sandbox workspace-write -c sandbox_workspace_write.exclude_slash_tmp=true --json --add-dir /w/result -",
		},
		{
			preset.Codex, "codex exec --json -m other -",
			preset.Invocation{Model: "m", Conversation: goesOn},
			"codex exec --json -m other --add-dir /w/result resume c1 -",
		},
		{preset.Codex, "./codex.sh", preset.Invocation{Model: "m"}, "./codex.sh exec --json --model m --add-dir /w/result -"},
		{
			preset.Codex, "codex exec",
			preset.Invocation{BaseURL: "http://h/v1", KeyVariable: "K"},
			"codex exec --json" + served + " --add-dir /w/result -",
		},
		{
			preset.Codex, "codex exec",
			preset.Invocation{BaseURL: "http://h/v1", KeyVariable: "K", Offline: true},
			"codex exec --json" + served + " -c web_search=disabled --add-dir /w/result -",
		},
		{
			preset.Gemini, "",
			preset.Invocation{},
			"gemini --skip-trust --approval-mode yolo --output-format stream-json --include-directories /w/result",
		},
		{
			preset.Gemini, "gemini -o stream-json",
			preset.Invocation{Model: "m", Conversation: goesOn},
			"gemini -o stream-json --model m --include-directories /w/result --resume c1",
		},
	} {
		d := Definition{Kind: KindCommand, Preset: c.preset, Argv: strings.Fields(c.argv)}.withDefaults()
		c.run.ResultDir = "/w/result"
		before := strings.Join(d.Argv, " ")
		require.Equal(t, c.want, strings.Join(preset.For(c.preset).Command(d.Argv, c.run), " "))
		require.Equal(t, before, strings.Join(d.Argv, " "), "the definition stays as it is")
	}
	require.True(t, Definition{Kind: KindCommand, Preset: preset.Codex}.withDefaults().Git)
	require.False(t, Definition{
		Kind: KindCommand, Preset: preset.Codex,
		Argv: []string{"codex", "exec", "--skip-git-repo-check"},
	}.withDefaults().Git)
	require.False(t, Definition{Kind: KindCommand, Preset: preset.Claude}.withDefaults().Git)
}

func TestPresetMasksSecrets(t *testing.T) {
	t.Parallel()
	for program, events := range map[string][]string{
		preset.Claude: {
			claudeBegins, `{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"key %s"},{"type":"tool_use","name":"Bash","input":{"command":"echo %s"}}]}}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","content":"%s"}]}}`, `%s`,
			`{"type":"result","is_error":true,"subtype":"success","result":"bad key %s"}`,
		},
		preset.Codex: {
			codexBegins, `{"type":"item.completed","item":{"type":"agent_message","text":"key %s"}}`, `{"type":"error","message":"%s"}`,
			`{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"%s"}}`, `%s`,
			`{"type":"turn.failed","error":{"message":"bad key %s"}}`,
		},
		preset.Gemini: {
			geminiBegins, `{"type":"message","role":"assistant","content":"key ` + secret[:9] + `"}`,
			`{"type":"message","role":"assistant","content":"` + secret[9:] + `"}`,
			`{"type":"tool_result","output":"%s"}`, `{"type":"tool_use","tool_name":"x","parameters":{"command":"echo %s"}}`, `%s`,
			`{"type":"result","status":"error","error":{"message":"bad key %s"}}`,
		},
	} {
		for _, form := range []string{secret, `\u0073` + secret[1:]} { // as it is, and as JSON may spell it
			t.Run(program, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				script := says(strings.Split(strings.ReplaceAll(strings.Join(events, "\n"), "%s", form), "\n")...)
				out, err := b.standIn(program, "echo "+secret+" >&2; "+script+" exit 1").Run(t.Context(), b.job())
				f := failure(t, err)
				require.Contains(t, f.Message, "bad key ***")
				for what, text := range map[string]string{
					"log": string(out.Log), "message": f.Message, "output": f.Output, "summary": out.Summary,
					"progress": strings.Join(b.said, "\n"),
				} {
					require.NotContains(t, text, secret, what)
				}
				require.Contains(t, string(out.Log), "key ***")
			})
		}
	}
}

func TestPresetResultCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	script := says(claudeBegins, claudeEnds) +
		`echo '{"summary":"mine","decisions":{"db":"sqlite"},"usage":{"input_tokens":99}}' > $MAESTRO_RESULT`
	out := b.done(b.standIn(preset.Claude, script), b.job())
	require.Equal(t, "mine", out.Summary)
	require.Equal(t, map[string]string{"db": "sqlite"}, out.Decisions)
	require.Equal(t, cost.Usage{InputTokens: 1, OutputTokens: 1}, out.Usage, "the stream's usage goes before")

	out, err := b.standIn(preset.Gemini, says(geminiBegins, `{"type":"result","status":"success"}`)+
		`echo '{"usage":{"input_tokens":99}}' > $MAESTRO_RESULT`).Run(t.Context(), b.job())
	require.NoError(t, err)
	require.Equal(t, cost.Usage{InputTokens: 99}, out.Usage, "the stream has none")
}

// TestAReportedEndCounts however the process ends after it, or if it does not end: long before the agent's timeout.
func TestAReportedEndCounts(t *testing.T) {
	t.Parallel()
	ends := map[string]string{
		preset.Claude: says(claudeBegins, claudeEnds), preset.Codex: says(codexBegins, codexEnds),
		preset.Gemini: says(geminiBegins, geminiEnds),
	}
	for how, script := range map[string]string{
		"exits 1": "exit 1", "is killed": "kill -9 $$", "stays": "exec sleep 100",
		"stays and prints": "while :; do echo waiting; sleep 1; done",
		"has more events":  `while :; do echo '{"type":"system"}'; sleep 1; done`,
		"leaves a child":   "sleep 100 & exit 0",
	} {
		for program, says := range ends {
			t.Run(program+" "+how, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				out, err := b.standIn(program, says+script).Run(ctx, b.job())
				require.NoError(t, err)
				require.Equal(t, []cost.Usage{{InputTokens: 1, OutputTokens: 1}}, b.calls.Each, "%+v", out)
			})
		}
	}
}

// TestWorkAfterAReportedEnd is waited for, however long it is quiet, and a request of it is not forgotten.
func TestWorkAfterAReportedEnd(t *testing.T) {
	t.Parallel()
	const request = `{"type":"stream_event","event":{"type":"message_start","message":{"id":"m3"}}}`
	more := says(strings.Replace(claudeEnds, "done", "more is done", 1))
	out, err := newBench(t).runStandIn(preset.Claude, says(claudeBegins, claudeEnds)+"sleep 3;"+says(`{"type":"system"}`, request)+
		"sleep 6;"+more, callstest.New(-1))
	require.NoError(t, err)
	require.Equal(t, "more is done", out.Summary)
	calls := callstest.New(-1)
	_, err = newBench(t).runStandIn(preset.Claude, says(claudeBegins, claudeEnds, request)+"kill -9 $$", calls)
	require.NoError(t, err)
	require.Len(t, calls.Ends, 1)
}

// TestPresetThatIsCutOff stops programs while a request may be under way, and while a
// tool works: what is known is booked, and only a request is estimated.
func TestPresetThatIsCutOff(t *testing.T) {
	t.Parallel()
	begun := `{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":60,"output_tokens":1}}}`
	answered := `{"type":"message_delta","usage":{"output_tokens":5},"delta":{"stop_reason":"tool_use"}}`
	streamed := func(events ...string) string {
		all := []string{claudeBegins}
		for _, e := range events {
			all = append(all, `{"type":"stream_event","parent_tool_use_id":null,"event":`+e+`}`)
		}
		return says(all...)
	}
	const rollout = `d=$HOME/.codex/sessions/2026/11/21; mkdir -p $d; printf '%s\n' '{"payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":60,"output_tokens":5},"last_token_usage":{"input_tokens":60,"output_tokens":5}}}}' > $d/rollout-2026-11-21T14-51-44-c1.jsonl;`
	const chat = `d=$HOME/.gemini/tmp/tree/chats; mkdir -p $d; printf '%s\n' '{"id":"m1","type":"gemini","tokens":{"input":60,"output":5,"cached":0,"total":65}}' > $d/session-1.jsonl;`
	of := func(input, output int64) cost.Usage { return cost.Usage{InputTokens: input, OutputTokens: output} }
	known, nothing, next := of(60, 5), cost.Usage{}, of(65, 5)
	const claudeTool = `{"type":"user","message":{"content":[{"type":"tool_result","content":"x"}]}}`
	const codexTool = `{"type":"item.started","item":{"type":"command_execution","command":"ls"}}`
	const geminiTool = `{"type":"tool_use","tool_name":"x"}`
	for name, c := range map[string]struct {
		script     string
		used, rest cost.Usage
	}{
		"claude, at its first request": {says(claudeBegins), nothing, of(20_000, openingAnswer)},
		"claude, in an answer":         {streamed(begun), of(60, 1), of(61, 1)},
		"claude, in a tool":            {streamed(begun, answered), known, nothing},
		"claude, after a tool":         {streamed(begun, answered) + says(claudeTool), known, next},
		"codex, at its first request":  {says(codexBegins), nothing, of(10_000, openingAnswer)},
		"codex, in a tool":             {rollout + says(codexBegins, codexTool), known, nothing},
		"codex, after a tool": {
			rollout + says(codexBegins, codexTool, `{"type":"item.completed","item":{"type":"command_execution"}}`), known, next,
		},
		"gemini, at its first request": {says(geminiBegins), nothing, of(12_000, openingAnswer)},
		"gemini, after a tool":         {chat + says(geminiBegins, geminiTool, `{"type":"tool_result","output":"y"}`), known, next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			program, _, _ := strings.Cut(name, ",")
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("the worker stops")
			job := b.job()
			job.Progress = func(line string) {
				if line == "ready" {
					cancel(stop)
				}
			}
			s := b.standIn(program, c.script+"echo ready >&2; exec sleep 100")
			out, err := s.Run(ctx, job)
			require.ErrorIs(t, err, stop)
			require.Equal(t, c.used, out.Usage)
			require.True(t, continuable(s, "x", job.WorkDir))
			if c.rest == (cost.Usage{}) {
				require.Equal(t, []cost.Usage{c.used}, b.calls.Each)
				return
			}
			require.Equal(t, c.used, b.calls.Ends[0].Used)
			rest := b.calls.Ends[0].Estimate
			require.GreaterOrEqual(t, rest.InputTokens, c.rest.InputTokens)
			require.Less(t, rest.InputTokens, c.rest.InputTokens+1000, "and the prompt")
			require.Equal(t, c.rest.OutputTokens, rest.OutputTokens)
		})
	}
}

func TestOutputLimitCountsWhatIsLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := `{"type":"something_new","data":"` + strings.Repeat("x", 2000) + `"}`
	s := b.standIn(preset.Claude, "for i in 1 2 3 4 5 6 7 8 9 10; do "+says(long)+" done;"+says(claudeBegins, claudeEnds))
	s.launcher.MaxOutput = int64(8 * textfmt.Kilobyte)
	b.done(s, b.job()) // events are not printed to anyone
	s = b.standIn(preset.Claude, "while :; do echo "+strings.Repeat("x", 2000)+"; done")
	s.launcher.MaxOutput = int64(8 * textfmt.Kilobyte)
	_, err := b.run(s)
	require.Equal(t, failures.InvalidOutput, failure(t, err).Category)
	s = b.standIn(preset.Claude, "while :; do "+says(long)+" done")
	s.launcher.MaxOutput = int64(8 * textfmt.Kilobyte)
	_, err = b.run(s)
	require.Equal(t, failures.InvalidOutput, failure(t, err).Category)
	require.Contains(t, failure(t, err).Message, "16 times limits.output_bytes", "events have an end, too")
}
