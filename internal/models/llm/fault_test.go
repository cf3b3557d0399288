package llm_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestFaults has every kind of fault end in its category, after one call and no more, and with its cost noted as far as it can
// be known. Package wire has the catalogue of what providers say.
func TestFaults(t *testing.T) {
	t.Parallel()
	const api = failures.APIError
	fault := func(f providertest.Fault) providertest.Reply {
		r := use("write", args{"path": "never", "content": strings.Repeat("a long text ", 100)})
		r.Fault = f
		return r
	}
	for name, c := range map[string]struct {
		reply    providertest.Reply
		category failures.Category
		message  string
		after    time.Duration
		final    bool
		billed   bool
	}{
		"rate limited": {
			reply:    providertest.RateLimited(today.Add(90 * time.Second).Format(http.TimeFormat)),
			category: failures.RateLimited, after: 90 * time.Second, message: "limits the request rate",
		},
		"unauthorized": {reply: providertest.Unauthorized(), category: failures.Auth, final: true, message: "key"},
		"overflow":     {reply: providertest.ContextOverflow(), category: failures.ContextOverflow, message: "nothing can be left out"},
		"no answer":    {reply: fault(providertest.Fault{NoAnswer: true}), category: api, billed: true},
		"garbage":      {reply: fault(providertest.Fault{Garbage: true}), category: api, message: "a proxy or another server"},
		"cut early":    {reply: fault(providertest.Fault{CutAfter: 300}), category: api, billed: true},
		"cut late":     {reply: fault(providertest.Fault{CutAfter: 2500}), category: api, billed: true},
		"an error inside": {
			reply:    fault(providertest.Fault{InStream: true, Type: "overloaded_error", Message: "Overloaded"}),
			category: api, message: "Overloaded", billed: true,
		},
		"slow":    {reply: fault(providertest.Fault{Delay: time.Hour}), category: api, message: "idle_timeout", billed: true},
		"stalled": {reply: fault(providertest.Fault{Stall: time.Hour}), category: api, message: "idle_timeout", billed: true},
		"refused": {reply: providertest.Reply{Text: "I cannot help.", Stop: providertest.Refused}, category: failures.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, plays(c.reply), nil, func(t *testing.T, b *bench, s *providertest.Server) {
				if c.message == "idle_timeout" {
					b.agent.IdleTimeout = 3 * time.Second
				}
				out, err := b.run()
				f := failed(t, err)
				require.Equal(t, c.category, f.Category, "%s", f.Message)
				require.Contains(t, f.Message, c.message)
				require.Contains(t, f.Message, "agent writer: ")
				require.Equal(t, c.after, f.RetryAfter.Std())
				require.Equal(t, !c.final, f.RetryRound())
				require.Equal(t, 1, s.Count(), "no retries of the library's own")
				require.Empty(t, b.files())
				require.Contains(t, string(out.Log), string(c.category))
				if c.category == failures.Refused || c.category == failures.ContextOverflow {
					require.Empty(t, b.calls.Ends)
					return
				}
				settled, unsettled, open := b.calls.Sum()
				require.Equal(t, c.billed, settled.Add(unsettled).Tokens() > 0)
				require.Zero(t, open)
				require.Zero(t, out.Usage.Tokens())
			})
		})
	}
}

// TestTimeouts tells the attempt's own end from that of its context.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	stalled := finish()
	stalled.Fault.Stall = time.Hour
	each(t, plays(stalled), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Timeout = textfmt.Duration(2 * time.Second)
		_, err := b.run()
		f := failed(t, err)
		require.Equal(t, failures.Timeout, f.Category)
		require.Contains(t, f.Message, "2s")
		require.Len(t, b.calls.Ends, 1)

		b.job.Timeout = 0
		errStopped := errors.New("the worker stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for s.Count() < 2 && t.Context().Err() == nil { // the call is under way
				time.Sleep(time.Millisecond)
			}
			cancel(errStopped)
		}()
		_, err = b.agent.Run(ctx, b.job)
		require.ErrorIs(t, err, errStopped)
		require.Len(t, b.calls.Ends, 2)
	})
}

// TestWaitsAreNoPartOfTheTimeout: a budget that others have reserved, or a store that is away, fails no attempt.
func TestWaitsAreNoPartOfTheTimeout(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), nil, func(t *testing.T, b *bench, _ *providertest.Server) {
		b.job.Timeout, b.job.Waits = textfmt.Duration(time.Millisecond), session.NewPausedTime(time.Now)
		defer b.job.Waits.Begin()()
		b.done()
	})
}

// TestStoreErrors are not the agent's failures.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.calls.Budget = func(session.CallPlan) (cost.Amount, error) { return cost.Amount{}, errStore }
		_, err := b.run()
		require.ErrorIs(t, err, errStore)
		var f *failures.Failure
		require.NotErrorAs(t, err, &f)
		require.Zero(t, s.Count())
	})
}

// The parts of answers as they come over the wire.
const (
	chatCall  = `{"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c9","type":"function","function":{"name":"finish","arguments":"{\"summary\":\"ok\"}"}}]}}]}`
	chatEnd   = `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	chatUsage = `{"id":"x","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`

	begun = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":100,"output_tokens":1}}}`
)

func events(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }

// rawBench is a bench whose model answers first with a body, and then finishes.
func rawBench(t *testing.T, kind, contentType, body string) *bench {
	t.Helper()
	first := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if !first {
			body = events(chatCall, chatEnd, chatUsage, "[DONE]")
		}
		first = false
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return newBench(t, kind, server.URL, nil)
}

// TestErrorsWithStatus200 have their own meaning, wherever the server puts them, and cost nothing. What is no answer is a
// failure of the provider. A line of the file has the API, how the server answers, the category, and the document.
func TestErrorsWithStatus200(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/errors.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for _, line := range append(lines, "openai document api_error "+`{"status":"ok","data":"`+strings.Repeat("x", 600)+`"}`,
		"openai event rate_limited event: error\ndata: {\"message\":\"Slow down\",\"code\":429}\n\n") {
		part := strings.SplitN(line, " ", 4)
		kind, body := "text/event-stream", part[3]
		switch part[1] {
		case "document":
			kind = "application/json"
		case "stream":
			body = events(body)
		}
		t.Run(line[:min(len(line), 60)], func(t *testing.T) {
			t.Parallel()
			b := rawBench(t, part[0], kind, body)
			_, err := b.run()
			require.Equal(t, part[2], string(failed(t, err).Category), "%v", err)
			require.Equal(t, cost.Usage{}, b.calls.Each[0])
		})
	}
}

// TestAnswersAsTheyCome are whole answers of servers that are only nearly compatible: they are used, and not paid for again.
func TestAnswersAsTheyCome(t *testing.T) {
	t.Parallel()
	call := func(index, id, name, arguments string) string {
		return `{"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":` + index + `,"id":"` + id + `","function":{"name":"` +
			name + `","arguments":"` + arguments + `"}}]}}]}`
	}
	const first, second = `{\"path\":\"a\",\"content\":\"b\"}`, `{\"path\":\"c\",\"content\":\"d\"}`
	one, two := map[string]string{"a": "b"}, map[string]string{"a": "b", "c": "d"}
	stream := func(data ...string) string { return events(append(data, chatEnd, chatUsage, "[DONE]")...) }
	for name, c := range map[string]struct {
		kind, body string
		files      map[string]string
	}{
		"a document": {"openai", `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",
			"function":{"name":"finish","arguments":"{\"summary\":\"ok\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}`, nil},
		"a document after spaces": {"openai", "\n\n \n" +
			`{"id":"x","choices":[{"index":0,"message":{"tool_calls":[{"id":"a","function":{"name":"finish","arguments":"{\"summary\":\"ok\"}"}}]},
			"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`, nil},
		"a document of Anthropic's format": {
			"anthropic",
			`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t","name":"finish","input":{"summary":"ok"}}],
			"stop_reason":"tool_use","usage":{"input_tokens":100,"output_tokens":10}}`, nil,
		},
		"events without names": {
			"anthropic",
			events(begun, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"finish","input":{}}}`, `{"type":"ping"}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"summary\":\"ok\"}"}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":10}}`, `{"type":"message_stop"}`), nil,
		},
		"a mark of the byte order": {"openai", "\uFEFF" + stream(chatCall), nil},
		"no word for the end":      {"openai", events(chatCall, chatUsage, "[DONE]"), nil},
		"an error of null":         {"openai", strings.ReplaceAll(stream(chatCall), `{"id":"x",`, `{"id":"x","error":null,`), nil},
		"MiniMax's code for no error": {"openai", strings.ReplaceAll(stream(chatCall), `{"id":"x",`,
			`{"id":"x","base_resp":{"status_code":0,"status_msg":"success"},`), nil},
		"an id for each part": {"openai", stream(call("0", "a", "write", `{\"path\":\"a\",`),
			call("0", "b", "", `\"content\":\"b\"}`)), one},
		"one id, two indices": {"openai", stream(call("0", "a", "write", first), call("1", "a", "write", second)), two},
		"the name in each part": {"openai", stream(call("0", "a", "write", `{\"path\":\"a\",`),
			call("0", "a", "write", `\"content\":\"b\"}`)), one},
		"an index of null, no ids": {"openai", stream(call("null", "", "write", first), call("null", "", "write", second)), two},
		"parts that alternate by ids": {"openai", stream(call("0", "a", "write", `{\"path\":\"a\",`), call("0", "b", "write",
			`{\"path\":\"c\",`), call("0", "a", "", `\"content\":\"b\"}`), call("0", "b", "", `\"content\":\"d\"}`)), two},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rawBench(t, c.kind, "application/json", c.body)
			out := b.done()
			require.Empty(t, b.calls.Ends)
			calls := int64(1)
			if c.files != nil {
				require.Equal(t, c.files, b.files())
				calls = 2
			}
			require.Equal(t, cost.Usage{InputTokens: 100 * calls, OutputTokens: 10 * calls}, out.Usage)
		})
	}
}
