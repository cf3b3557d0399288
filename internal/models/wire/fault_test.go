package wire

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestFaultsOfEveryProvider is what providers and servers that are compatible
// with them say, each in its own way.
func TestFaultsOfEveryProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    Fault
		category failures.Category
		final    bool
	}{
		"Anthropic's overflow":         {Fault{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 210000 tokens > 200000 maximum"}, failures.ContextOverflow, false},
		"OpenAI's overflow":            {Fault{Status: 400, Code: "context_length_exceeded", Message: "too many"}, failures.ContextOverflow, false},
		"vLLM's overflow":              {Fault{Status: 400, Message: "This model's maximum context length is 4096 tokens."}, failures.ContextOverflow, false},
		"llama.cpp's overflow":         {Fault{Status: 400, Message: "the request exceeds the available context size"}, failures.ContextOverflow, false},
		"an overflow inside":           {Fault{Status: 200, Type: "invalid_request_error", Message: "prompt is too long"}, failures.ContextOverflow, false},
		"a body that is too large":     {Fault{Status: 413, Type: "request_too_large"}, failures.ContextOverflow, false},
		"a 500 that talks of contexts": {Fault{Status: 500, Message: "context length unknown"}, failures.APIError, false},
		"no credit":                    {Fault{Status: 402}, failures.Auth, true},
		"no permission":                {Fault{Status: 403, Type: "permission_error"}, failures.Auth, true},
		"a limit inside":               {Fault{Status: 200, Type: "rate_limit_error"}, failures.RateLimited, false},
		"overloaded inside":            {Fault{Status: 200, Type: "overloaded_error"}, failures.APIError, false},
		"a timeout":                    {Fault{Status: 408}, failures.APIError, false},
		"a gateway":                    {Fault{Status: 502, Message: "<html>"}, failures.APIError, false},
		"a request that is wrong":      {Fault{Status: 422, Message: "max_tokens: too large"}, failures.InvalidRequest, true},
		"a prompt above a maximum":     {Fault{Status: 400, Message: "The request has 61200 tokens; this is above the maximum allowed of 32768 tokens."}, failures.ContextOverflow, false},
		"a model's token limit":        {Fault{Status: 400, Message: "Invalid request: your request exceeded model token limit: 32768 (requested: 61200)"}, failures.ContextOverflow, false},
		"an input's length":            {Fault{Status: 400, Message: "Input length 61200 exceeds the maximum allowed input length of 32767 tokens."}, failures.ContextOverflow, false},
		"a max length":                 {Fault{Status: 400, Code: "1261", Message: "Prompt exceeds max length"}, failures.ContextOverflow, false},
		"a range of lengths":           {Fault{Status: 400, Type: "invalid_parameter_error", Message: "Range of input length should be [1, 30720]"}, failures.ContextOverflow, false},
		"TGI's overflow":               {Fault{Status: 422, Message: "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 512 `max_new_tokens`"}, failures.ContextOverflow, false},
		"vLLM's of both":               {Fault{Status: 400, Message: "'max_tokens' is too large: 8192. This model's maximum context length is 16384 tokens and your request has 9000 input tokens"}, failures.ContextOverflow, false},
		"llama.cpp's name":             {Fault{Status: 400, Type: "exceed_context_size_error", Message: "too big"}, failures.ContextOverflow, false},
		"a bound of the answer":        {Fault{Status: 400, Message: "max_tokens must be at most 8192"}, failures.InvalidRequest, true},
		"a bound, with the context":    {Fault{Status: 400, Message: "max_tokens is too large: 100000. This model supports at most 4096 completion tokens."}, failures.InvalidRequest, true},
		"too many tools":               {Fault{Status: 400, Message: "your input has too many tools: at most 128, length 130"}, failures.InvalidRequest, true},
		"tokens per minute":            {Fault{Status: 429, Type: "tokens", Code: "rate_limit_exceeded", Message: "Request too large for tokens per minute: limit 30000, requested 61200"}, failures.RateLimited, true},
		"tokens of this minute":        {Fault{Status: 429, Code: "rate_limit_exceeded", Message: "on tokens per min (TPM): Limit 30000, Used 20000, Requested 15000. Please try again in 10s"}, failures.RateLimited, false},
		"an overflow inside, a number": {Fault{Status: 200, Number: 400, Message: "the prompt is too long, its maximum context length is 32768 tokens"}, failures.ContextOverflow, false},
		"no credits inside":            {Fault{Status: 200, Number: 402, Message: "This request requires more credits, or fewer max_tokens"}, failures.Auth, true},
		"a limit inside, a number":     {Fault{Status: 200, Number: 429, Message: "Rate limit reached upstream"}, failures.RateLimited, false},
		"no capacity inside":           {Fault{Status: 200, Number: 502, Message: "Upstream is at capacity"}, failures.APIError, false},
		"a wrong request inside":       {Fault{Status: 200, Type: "invalid_request_error", Message: "tools[0].name"}, failures.InvalidRequest, true},
		"DeepSeek without balance":     {Fault{Status: 402, Message: "Insufficient Balance"}, failures.Auth, true},
		"Moonshot without quota":       {Fault{Status: 429, Type: "exceeded_current_quota_error", Message: "suspended"}, failures.Auth, true},
		"no funds, as a bad request":   {Fault{Status: 400, Message: "You have insufficient funds on your account"}, failures.Auth, true},
		"Gemini's quota of a minute":   {Fault{Status: 429, Type: "RESOURCE_EXHAUSTED", Wait: "1s", Message: "You exceeded your current quota, please check your plan and billing details"}, failures.RateLimited, false},
		"a content filter":             {Fault{Status: 400, Code: "content_filter", Message: "The response was filtered"}, failures.Refused, false},
		"an unknown model":             {Fault{Status: 404, Code: "model_not_found"}, failures.InvalidRequest, true},
		"a page of a proxy":            {Fault{Status: 403, NoAnswer: true, Message: "a page"}, failures.APIError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Failure(&c.fault, "", time.Time{})
			require.Equal(t, c.category, f.Category, "%s", f.Message)
			require.Equal(t, !c.final, f.RetryRound())
		})
	}
	// Bodies of OpenAI, Anthropic, Gemini, Azure, Bedrock, OpenRouter, LiteLLM, DeepSeek, Moonshot, Mistral, xAI, Groq, Together,
	// Zhipu, Qwen, vLLM, TGI, llama.cpp, Ollama and LM Studio: the category, the status and the body.
	bodies, err := os.ReadFile("testdata/errors.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(bodies)) {
		part := strings.SplitN(strings.TrimSpace(line), " ", 3)
		status, err := strconv.Atoi(part[1])
		require.NoError(t, err)
		f := Failure(ReadFault(status, nil, []byte(part[2])), "", time.Time{})
		require.Equal(t, part[0], string(f.Category), "%d %s", status, part[2])
	}
}

func TestWordsForTheEndOfAnAnswer(t *testing.T) {
	t.Parallel()
	for ending, words := range map[Ending][]string{
		Done:       {"stop", "tool_calls", "eos", "end_turn", "function_call", "function_call_filter: MALFORMED_FUNCTION_CALL", "STOP", "COMPLETE"},
		CutOff:     {"length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "repetition_truncation"},
		Filtered:   {"content_filter", "sensitive", "SAFETY", "refusal", "PROHIBITED_CONTENT", "RECITATION", "guardrail_intervened", "ERROR_TOXIC"},
		Overflowed: {"model_context_window_exceeded"},
		Failed:     {"error", "network_error", "insufficient_system_resource", "abort", "cancelled"},
	} {
		for _, word := range words {
			require.Equal(t, ending, EndingOf(word), word)
			m := NewMeter(ChatCompletions, 1, "application/json")
			_, _ = m.Write([]byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"` + word + `"}]}`))
			require.Equal(t, ending == Failed, m.Facts().Fault != nil, word)
		}
	}
}

func TestBodiesOfErrors(t *testing.T) {
	t.Parallel()
	page := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	for body, c := range map[string]struct {
		header http.Header
		want   string
	}{
		`{"error":{"message":"Slow down","type":"tokens","code":"rate_limit_exceeded"}}`:                         {nil, "status 400: rate_limit_exceeded: Slow down"},
		`{"object":"error","message":"too many","type":"BadRequestError","code":400}`:                            {nil, "status 400: BadRequestError: too many"},
		`{"detail":"tool schemas are not supported here"}`:                                                       {nil, "status 400: tool schemas are not supported here"},
		`{"detail":[{"loc":["body"],"msg":"field required"}]}`:                                                   {nil, "status 400: field required"},
		`{"error":"model 'x' not found"}`:                                                                        {nil, "status 400: model 'x' not found"},
		`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"the prompt is too long"}}}`: {nil, "status 400: Provider returned error: the prompt is too long"},
		`the prompt is too long for this server`:                                                                 {nil, "status 400: the prompt is too long for this server"},
		`<html><head><title>Just a moment...</title></head></html>`:                                              {page, `status 400: a page with the title "Just a moment..."`},
	} {
		require.Equal(t, c.want, ReadFault(http.StatusBadRequest, c.header, []byte(body)).Error(), body)
	}
}

// TestWaitsOfErrors reads the wait where a provider states it: in the header, a field of the body, or the text.
func TestWaitsOfErrors(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for body, want := range map[string]time.Duration{
		`{"error":{"message":"Slow down","code":"rate_limit_exceeded"}}`:                                                                                               0,
		`{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_at":1767326645,"resets_in_seconds":3600}}`:                        time.Hour,
		`{"error":{"code":429,"message":"Quota.","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"33.5s"}]}}`:                              33500 * time.Millisecond,
		`{"error":{"message":"Rate limit exceeded","code":429,"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1767323105000"}}}}`:              time.Minute,
		`{"message":"You are being rate limited.","retry_after":64.5,"global":false}`:                                                                                  64500 * time.Millisecond,
		`{"error":{"message":"Too many requests","retry_after_ms":250}}`:                                                                                               250 * time.Millisecond,
		`{"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000, Used 99336, Requested 1853. Please try again in 17m7.296s."}}`:                 17*time.Minute + 7296*time.Millisecond,
		`{"error":{"code":"429","message":"Requests have exceeded token rate limit. Please retry after 8 seconds."}}`:                                                  8 * time.Second,
		`{"error":{"message":"Too many requests","retry_after":null,"reset":"soon","retry":true}}`:                                                                     0,
		`{"error":{"message":"Too many requests","retry_after":99999999}}`:                                                                                             session.MaxRetryAfter.Std(),
		`{"error":{"message":"The limit of 30000 tokens is too small: Limit 30000, Requested 61200. Try again in 10s.","type":"tokens","code":"rate_limit_exceeded"}}`: 0,
	} {
		require.Equal(t, want, Failure(ReadFault(http.StatusTooManyRequests, nil, []byte(body)), "", now).RetryAfter.Std(), body)
	}
}
