package agent

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

func TestPresetFailures(t *testing.T) {
	t.Parallel()
	result := func(fields string) string {
		return says(claudeBegins, `{"type":"result","is_error":true,"usage":{},"modelUsage":{},`+fields+`}`) + "exit 1"
	}
	fault := func(word, fields string) string {
		return says(claudeBegins, `{"type":"assistant","message":{"id":"s","content":[{"type":"text","text":"`+word+`"}]},"error":"`+
			word+`"}`,
			`{"type":"result","is_error":true,"subtype":"success",`+fields+`}`) + "exit 1"
	}
	turn := func(text string) string {
		return says(codexBegins, `{"type":"turn.failed","error":{"message":"`+text+`"}}`) + "exit 1"
	}
	status := func(text string) string {
		return says(geminiBegins, `{"type":"result","status":"error","error":{"type":"unknown","message":"`+text+`"}}`) + "exit 144"
	}
	resetsAt := strconv.FormatInt(time.Now().Add(90*time.Minute).Unix(), 10)
	for _, c := range []struct {
		preset, name, script string
		category             failures.Category
		message              string
		wait                 time.Duration
	}{
		{preset.Claude, "429", printed(t, "claude-429") + "exit 1", failures.RateLimited, "slow down", 2 * time.Second},
		{
			preset.Claude, "401", fault("authentication_failed", `"api_error_status":401,"result":"Invalid API key"`), failures.Auth,
			"Invalid API key", 0,
		},
		{
			preset.Claude, "no key", fault("authentication_failed", `"api_error_status":null,"result":"Not logged in"`), failures.Auth,
			"Not logged in", 0,
		},
		{
			preset.Claude, "no credit", fault("billing_error", `"api_error_status":400,"result":"Credit balance is too low"`),
			failures.Auth, "Credit balance", 0,
		},
		{
			preset.Claude, "no credit, in other words",
			fault("invalid_request", `"api_error_status":400,"result":"API Error: 400 Your credit balance is too low to access the Anthropic API."`), failures.Auth, "credit balance", 0,
		},
		{
			preset.Claude, "a session limit", says(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":`+
				resetsAt+`,"rateLimitType":"five_hour"}}`) +
				fault("rate_limit", `"api_error_status":429,"result":"You've hit your session limit · resets 3pm (UTC)"`),
			failures.RateLimited, "session limit", 90 * time.Minute,
		},
		{
			preset.Claude, "a limit without a status",
			fault("unknown", `"api_error_status":null,"result":"You've hit your weekly limit · resets in 12m"`), failures.RateLimited,
			"weekly limit", 12 * time.Minute,
		},
		{
			preset.Claude, "a spend limit", fault("rate_limit", `"api_error_status":429,"result":"You've hit your monthly spend limit."`),
			failures.Auth, "spend limit", 0,
		},
		{
			preset.Claude, "500", fault("server_error", `"api_error_status":500,"result":"API Error: 500"`), failures.APIError,
			"API Error: 500", 0,
		},
		{
			preset.Claude, "529", fault("server_error", `"api_error_status":529,"result":"overloaded"`), failures.APIError, "overloaded",
			0,
		},
		{
			preset.Claude, "refused connection", fault("server_error", `"api_error_status":null,"result":"Unable to connect"`),
			failures.APIError, "Unable to connect", 0,
		},
		{
			preset.Claude, "overflow", fault("invalid_request",
				`"api_error_status":400,"terminal_reason":"prompt_too_long","result":"Prompt is too long"`), failures.ContextOverflow,
			"Prompt is too long", 0,
		},
		{
			preset.Claude, "output limit", fault("max_output_tokens", `"result":"exceeded the 64000 output token maximum"`),
			failures.InvalidOutput, "64000", 0,
		},
		{
			preset.Claude, "bad request", fault("invalid_request", `"api_error_status":400,"result":"bad"`), failures.InvalidRequest,
			"bad", 0,
		},
		{
			preset.Claude, "refusal", fault("invalid_request", `"stop_reason":"refusal","result":"unable to respond"`), failures.Refused,
			"unable to respond", 0,
		},
		{
			preset.Claude, "turns", result(`"subtype":"error_max_turns","errors":["Reached maximum number of turns (2)"]`),
			failures.TurnLimit, "turns (2)", 0,
		},
		{
			preset.Claude, "budget", result(`"subtype":"error_max_budget_usd","errors":["Reached maximum budget ($1)"]`),
			failures.TokenBudget, "$1", 0,
		},
		{preset.Claude, "no reason", result(`"subtype":"error_during_execution"`), failures.Unknown, "error_during_execution", 0},
		{
			preset.Claude, "a failure that exits 0", says(claudeBegins, `{"type":"result","is_error":true,"subtype":"error_max_turns"}`),
			failures.TurnLimit, "error_max_turns", 0,
		},
		{
			preset.Claude, "a bad flag", "echo 'error: unknown option' >&2; exit 1", failures.Unknown,
			"exit status 1: error: unknown option", 0,
		},
		{preset.Claude, "a cut stream", says(claudeBegins), failures.Unknown, "its output stream ended", 0},
		{
			preset.Claude, "its own word", says(claudeBegins, claudeEnds) +
				`echo '{"error":{"category":"contract_violation","message":"no spec"}}' > $MAESTRO_RESULT`, failures.ContractViolation,
			"no spec", 0,
		},
		{
			preset.Claude, "a bad result", says(claudeBegins, claudeEnds) + `echo '{' > $MAESTRO_RESULT`, failures.InvalidOutput,
			"is refused", 0,
		},

		{
			preset.Codex, "429 in the stream", printed(t, "codex-429") + "exit 1", failures.RateLimited, "try again",
			1500 * time.Millisecond,
		},
		{
			preset.Codex, "an unknown model of an account", printed(t, "codex-400") + "exit 1", failures.InvalidRequest,
			"model is not supported", 0,
		},
		{
			preset.Codex, "its body without a status", turn(`{\"detail\":\"The 'm' model is not supported when using Codex with a ChatGPT ` +
				`account.\"}`), failures.InvalidRequest, "not supported", 0,
		},
		{
			preset.Codex, "an unknown model of a key", turn("The requested model 'm' does not exist."), failures.InvalidRequest,
			"does not exist", 0,
		},
		{preset.Codex, "429", turn("exceeded retry limit, last status: 429 Too Many Requests"), failures.RateLimited, "429", 0},
		{preset.Codex, "401", turn("unexpected status 401 Unauthorized: Incorrect API key provided"), failures.Auth, "401", 0},
		{preset.Codex, "quota", turn("Quota exceeded. Check your plan and billing details."), failures.Auth, "Quota", 0},
		{
			preset.Codex, "usage limit", turn("You've hit your usage limit. Try again in 5 m."), failures.RateLimited, "usage limit",
			5 * time.Minute,
		},
		{
			preset.Codex, "usage limit of a plan", turn("You’ve hit your usage limit. Upgrade to Plus to continue using Codex " +
				"(https://chatgpt.com/explore/plus), or try again in 2 hours 10 minutes."), failures.RateLimited, "usage limit",
			130 * time.Minute,
		},
		{preset.Codex, "no end of a usage limit", turn("You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to " +
			"purchase more credits or try again later."), failures.RateLimited, "usage limit", 0},
		{preset.Codex, "spend cap", turn("You hit your spend cap set by the owner of your workspace. Ask an owner to increase your " +
			"spend cap to continue."), failures.Auth, "spend cap", 0},
		{
			preset.Codex, "no credits", turn("Your workspace is out of credits. Add credits to continue."), failures.Auth,
			"out of credits", 0,
		},
		{
			preset.Codex, "at capacity", turn("Selected model is at capacity. Please try a different model."), failures.APIError,
			"at capacity", 0,
		},
		{preset.Codex, "500", turn("We are currently experiencing high demand"), failures.APIError, "high demand", 0},
		{
			preset.Codex, "overflow", turn("Codex ran out of room in the model context window."), failures.ContextOverflow,
			"ran out of room", 0,
		},
		{
			preset.Codex, "cut", turn("stream disconnected before completion: Transport error"), failures.APIError, "stream disconnected",
			0,
		},
		{preset.Codex, "not found", turn("unexpected status 404 Not Found: no such model"), failures.InvalidRequest, "404", 0},
		{
			preset.Codex, "only errors", says(codexBegins, `{"type":"error","message":"rate limit exceeded"}`) + "exit 1",
			failures.RateLimited, "rate limit", 0,
		},
		{
			preset.Codex, "no repository", "echo 'Not inside a trusted directory' >&2; exit 1", failures.Unknown,
			"Not inside a trusted directory", 0,
		},
		{
			preset.Codex, "no network", says(codexBegins) + "while :; do " +
				says(`{"type":"error","message":"Reconnecting... waiting for network (refused)"}`) + " sleep 0.05; done", failures.APIError,
			"cannot reach its provider", 0,
		},

		{preset.Gemini, "429", printed(t, "gemini-429") + "exit 173", failures.RateLimited, "Quota exceeded", 2 * time.Second},
		{
			preset.Gemini, "daily quota", status(`[API Error: You have exhausted your daily quota on this model.]`), failures.RateLimited,
			"daily quota", 0,
		},
		{preset.Gemini, "capacity", status(`[API Error: You have exhausted your capacity on this model. Your quota will reset after 17h28m49s.]`), failures.RateLimited, "capacity", 17*time.Hour + 28*time.Minute + 49*time.Second},
		{
			preset.Gemini, "a plan without the model",
			status(`[API Error: Quota exceeded for metric: requests, limit: 0, model: gemini-2.5-pro]`), failures.Auth, "limit: 0", 0,
		},
		{
			preset.Gemini, "wrong key", status(`[API Error: {\"error\":{\"code\":400,\"message\":\"API key not valid.\"}}]`),
			failures.Auth, "API key not valid", 0,
		},
		{preset.Gemini, "overflow", status(`[API Error: {\"error\":{\"code\":400,\"message\":\"The input token count (12) exceeds the maximum number of tokens allowed (10).\"}}]`), failures.ContextOverflow, "input token count", 0},
		{
			preset.Gemini, "500", status(`[API Error: {\"error\":{\"code\":500,\"message\":\"internal\"}}]`), failures.APIError,
			"internal", 0,
		},
		{preset.Gemini, "cut", status(`[API Error: terminated]`), failures.APIError, "terminated", 0},
		{preset.Gemini, "blocked", status(`[API Error: PROHIBITED_CONTENT]`), failures.Refused, "PROHIBITED_CONTENT", 0},
		{preset.Gemini, "no auth", "echo 'Invalid auth method selected.' >&2; exit 41", failures.Auth, "Invalid auth method", 0},
		{
			preset.Gemini, "turns", says(geminiBegins) + "echo 'Reached max session turns' >&2; exit 53", failures.TurnLimit,
			"max session turns", 0,
		},
		{preset.Gemini, "something else", says(geminiBegins) + "echo 'odd' >&2; exit 1", failures.Unknown, "exit status 1: odd", 0},
	} {
		t.Run(c.preset+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, err := b.standIn(c.preset, c.script).Run(t.Context(), b.job())
			f := failure(t, err)
			require.Equal(t, c.category, f.Category, f.Message)
			require.Contains(t, f.Message, c.message)
			require.Contains(t, f.Message, "agent x")
			tolerance := 0.0
			if c.name == "a session limit" { // which ends at a time, and the test may have waited for others
				tolerance = float64(30 * time.Minute)
			}
			require.InDelta(t, float64(c.wait), float64(f.RetryAfter), tolerance)
			useless := c.category == failures.Auth || c.category == failures.TokenBudget ||
				c.category == failures.InvalidRequest
			require.Equal(t, !useless, f.RetryRound())
			require.NotRegexp(t, `(?m)^\{"type"`, f.Output)
			if c.name != "a cut stream" && c.name != "something else" {
				require.Len(t, b.calls.Each, 1, "what it cost is known")
			}
		})
	}
}
