package agent

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// presetFailure is how a program of a preset fails, and what is made of it.
type presetFailure struct {
	preset, script string
	category       failures.Category
	message        string
	wait           time.Duration
}

// statedFailures are those that the programs state as they end: a file has for each its preset, the category, the wait, a part
// of the message, and what the program states. For Claude Code that is the word of its last message and the fields of its result.
func statedFailures(t *testing.T) (all []presetFailure) {
	t.Helper()
	data, err := os.ReadFile("testdata/failures.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		part := strings.Split(strings.TrimSpace(line), "|")
		for i := range part {
			part[i] = strings.TrimSpace(part[i])
		}
		wait, err := time.ParseDuration(part[2])
		require.NoError(t, err)
		f := presetFailure{preset: part[0], category: failures.Category(part[1]), message: part[3], wait: wait}
		text, err := json.Marshal(part[4])
		require.NoError(t, err)
		switch f.preset {
		case preset.Claude:
			f.script = claudeFault(part[4], part[5])
		case preset.Codex:
			f.script = says(codexBegins, `{"type":"turn.failed","error":{"message":`+string(text)+`}}`) + "exit 1"
		default:
			f.script = says(geminiBegins, `{"type":"result","status":"error","error":{"type":"unknown","message":`+string(text)+`}}`) +
				"exit 144"
		}
		all = append(all, f)
	}
	return all
}

// claudeFault is a run of Claude Code whose last message has an error, unless the word for it is empty.
func claudeFault(word, fields string) string {
	if word == "" {
		return says(claudeBegins, `{"type":"result","is_error":true,"usage":{},"modelUsage":{},`+fields+`}`) + "exit 1"
	}
	message := `{"id":"s","content":[{"type":"text","text":"` + word + `"}]}`
	return says(claudeBegins, `{"type":"assistant","message":`+message+`,"error":"`+word+`"}`,
		`{"type":"result","is_error":true,"subtype":"success",`+fields+`}`) + "exit 1"
}

func TestPresetFailures(t *testing.T) {
	t.Parallel()
	resetsAt := strconv.FormatInt(time.Now().Add(90*time.Minute).Unix(), 10)
	limited := says(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":` + resetsAt +
		`,"rateLimitType":"five_hour"}}`)
	sessionLimit := limited + claudeFault("rate_limit",
		`"api_error_status":429,"result":"You've hit your session limit · resets 3pm (UTC)"`)
	reconnecting := `{"type":"error","message":"Reconnecting... waiting for network (refused)"}`
	cut, odd := says(claudeBegins), says(geminiBegins)+"echo 'odd' >&2; exit 1"
	result := says(claudeBegins, claudeEnds)
	for _, c := range append(statedFailures(t), []presetFailure{
		{preset.Claude, printed(t, "claude-429") + "exit 1", failures.RateLimited, "slow down", 2 * time.Second},
		{preset.Claude, sessionLimit, failures.RateLimited, "session limit", 90 * time.Minute},
		{
			preset.Claude, says(claudeBegins, `{"type":"result","is_error":true,"subtype":"error_max_turns"}`), // it exits 0
			failures.TurnLimit, "error_max_turns", 0,
		},
		{
			preset.Claude, "echo 'error: unknown option' >&2; exit 1", failures.Unknown,
			"exit status 1: error: unknown option", 0,
		},
		{preset.Claude, cut, failures.Unknown, "its output stream ended", 0},
		{
			preset.Claude, result + `echo '{"error":{"category":"contract_violation","message":"no spec"}}' > $MAESTRO_RESULT`,
			failures.ContractViolation, "no spec", 0,
		},
		{preset.Claude, result + `echo '{' > $MAESTRO_RESULT`, failures.InvalidOutput, "is refused", 0},
		{preset.Codex, printed(t, "codex-429") + "exit 1", failures.RateLimited, "try again", 1500 * time.Millisecond},
		{preset.Codex, printed(t, "codex-400") + "exit 1", failures.InvalidRequest, "model is not supported", 0},
		{
			preset.Codex, says(codexBegins, `{"type":"error","message":"rate limit exceeded"}`) + "exit 1",
			failures.RateLimited, "rate limit", 0,
		},
		{
			preset.Codex, "echo 'Not inside a trusted directory' >&2; exit 1", failures.Unknown,
			"Not inside a trusted directory", 0,
		},
		{
			preset.Codex, says(codexBegins) + "while :; do " + says(reconnecting) + " sleep 0.05; done", failures.APIError,
			"cannot reach its provider", 0,
		},
		{preset.Gemini, printed(t, "gemini-429") + "exit 173", failures.RateLimited, "Quota exceeded", 2 * time.Second},
		{preset.Gemini, "echo 'Invalid auth method selected.' >&2; exit 41", failures.Auth, "Invalid auth method", 0},
		{
			preset.Gemini, says(geminiBegins) + "echo 'Reached max session turns' >&2; exit 53", failures.TurnLimit,
			"max session turns", 0,
		},
		{preset.Gemini, odd, failures.Unknown, "exit status 1: odd", 0},
	}...) {
		t.Run(c.preset+"/"+c.message, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, err := b.standIn(c.preset, c.script).Run(t.Context(), b.job())
			f := failure(t, err)
			require.Equal(t, c.category, f.Category, f.Message)
			require.Contains(t, f.Message, c.message)
			require.Contains(t, f.Message, "agent x")
			tolerance := 0.0
			if c.script == sessionLimit { // which ends at a time, and the test may have waited for others
				tolerance = float64(30 * time.Minute)
			}
			require.InDelta(t, float64(c.wait), float64(f.RetryAfter), tolerance)
			useless := c.category == failures.Auth || c.category == failures.TokenBudget ||
				c.category == failures.InvalidRequest
			require.Equal(t, !useless, f.RetryRound())
			require.NotRegexp(t, `(?m)^\{"type"`, f.Output)
			if c.script != cut && c.script != odd {
				require.Len(t, b.calls.Each, 1, "what it cost is known")
			}
		})
	}
}
