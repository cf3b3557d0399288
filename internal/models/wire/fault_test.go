package wire

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestFaultsOfEveryProvider reads what providers and servers that are compatible with them say, each in its own way.
func TestFaultsOfEveryProvider(t *testing.T) {
	t.Parallel()
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
	tooLarge := Failure(&Fault{Status: 429, Code: "rate_limit_exceeded", Message: "limit 30000, requested 61200"}, "", time.Time{})
	require.False(t, tooLarge.RetryRound(), "no wait makes room for it")
}

func TestWordsForTheEndOfAnAnswer(t *testing.T) {
	t.Parallel()
	for ending, words := range map[Ending][]string{
		Done: {
			"stop", "tool_calls", "eos", "end_turn", "function_call", "function_call_filter: MALFORMED_FUNCTION_CALL", "STOP",
			"COMPLETE",
		},
		CutOff: {"length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "repetition_truncation"},
		Filtered: {
			"content_filter", "sensitive", "SAFETY", "refusal", "PROHIBITED_CONTENT", "RECITATION", "guardrail_intervened",
			"ERROR_TOXIC",
		},
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

// TestBodiesOfErrors has a line for the text of an error and the body from which it is read.
func TestBodiesOfErrors(t *testing.T) {
	t.Parallel()
	for _, row := range rows(t, "error_texts.txt") {
		var header http.Header
		if strings.HasPrefix(row[1], "<html>") {
			header = http.Header{"Content-Type": {"text/html; charset=utf-8"}}
		}
		require.Equal(t, row[0], ReadFault(http.StatusBadRequest, header, []byte(row[1])).Error(), row[1])
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
