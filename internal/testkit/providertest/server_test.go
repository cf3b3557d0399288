package providertest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// post sends a body and returns the answer's status and body.
func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response, string(data), err
}

func scripted(r providertest.Reply) providertest.Script {
	return func(providertest.Request) providertest.Reply { return r }
}

// TestEveryFormatSaysTheSame asks all three APIs, streamed and whole.
func TestEveryFormatSaysTheSame(t *testing.T) {
	t.Parallel()
	reply := providertest.Use(providertest.Tool("read", map[string]string{"path": "a long name, so that it comes in pieces.md"}))
	reply.Text = "I look"
	reply.Usage = cost.Usage{InputTokens: 10, CacheReadTokens: 100, OutputTokens: 7}
	for name, c := range map[string]struct {
		path, body        string
		whole, end, usage string
	}{
		"anthropic": {
			"/v1/messages", `"system":"be kind","messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]`,
			`"stop_reason":"tool_use"`, `"type":"message_stop"`, `"cache_read_input_tokens":100`,
		},
		"chat": {
			"/v1/chat/completions", `"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hello"}]`,
			`"finish_reason":"tool_calls"`, "data: [DONE]", `"prompt_tokens":110`,
		},
		"responses": {
			"/v1/responses", `"instructions":"be kind","input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]`,
			`"status":"completed"`, `"type":"response.completed"`, `"input_tokens":110`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := providertest.New(t, scripted(reply))
			response, whole, err := post(t, server.URL()+c.path, `{"model":"m",`+c.body+`}`)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Contains(t, whole, c.whole)
			require.Contains(t, whole, c.usage)
			_, stream, err := post(t, server.URL()+c.path, `{"model":"m","stream":true,`+c.body+`}`)
			require.NoError(t, err)
			require.Contains(t, stream, c.end)
			require.Contains(t, stream, c.usage)

			require.Equal(t, 2, server.Count())
			got := server.Requests()[1]
			require.Equal(t, 2, got.N)
			require.Equal(t, "m", got.Model)
			require.Equal(t, "be kind", got.System)
			require.Equal(t, "hello", got.Last().Text)
			require.True(t, got.Stream)
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	for name, c := range map[string]struct {
		fault  providertest.Reply
		status int
		header string
		body   string
		broken bool
	}{
		"rate limited": {fault: providertest.RateLimited("7"), status: 429, header: "7", body: "rate_limit_error"},
		"overloaded":   {fault: providertest.Overloaded(), status: 529, body: "overloaded_error"},
		"overflow":     {fault: providertest.ContextOverflow(), status: 400, body: "prompt is too long"},
		"garbage":      {fault: providertest.Failing(providertest.Fault{Garbage: true}), status: 200, body: "<html>"},
		"no answer":    {fault: providertest.Failing(providertest.Fault{NoAnswer: true}), broken: true},
		"cut":          {fault: providertest.Failing(providertest.Fault{CutAfter: 100}), status: 200, body: "message_start", broken: true},
		"in stream":    {fault: providertest.Failing(providertest.Fault{InStream: true, Type: "overloaded_error"}), status: 200, body: "event: error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := providertest.New(t, scripted(c.fault))
			response, got, err := post(t, server.URL()+"/v1/messages", body)
			require.Equal(t, c.broken, err != nil, "%v", err)
			if c.status == 0 {
				return
			}
			require.Equal(t, c.status, response.StatusCode)
			require.Equal(t, c.header, response.Header.Get("Retry-After"))
			require.Contains(t, got, c.body)
		})
	}
}

// TestSlowAnswersEndWithTheirClient would hang if they did not.
func TestSlowAnswersEndWithTheirClient(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]providertest.Fault{"first byte": {Delay: time.Hour}, "in the stream": {Stall: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := providertest.Start(scripted(providertest.Failing(fault)))
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL()+"/v1/messages", strings.NewReader(`{"stream":true}`))
			require.NoError(t, err)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_, err = io.ReadAll(response.Body)
				require.Error(t, err)
				require.NoError(t, response.Body.Close())
			}
			require.Equal(t, 1, server.Count())
			server.Close()
		})
	}
}

// TestOtherPaths are what agent programs ask for besides models.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	server := providertest.New(t, scripted(providertest.Say("hello")))
	_, counted, err := post(t, server.URL()+"/v1/messages/count_tokens", strings.Repeat("x", 40))
	require.NoError(t, err)
	require.JSONEq(t, `{"input_tokens":10}`, counted)
	response, err := http.Head(server.URL())
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, []string{"POST /v1/messages/count_tokens", "HEAD /"}, server.Others())
	require.Zero(t, server.Count())
	_, err = http.Get(providertest.RefusingURL(t)) //nolint:bodyclose // there is none
	require.ErrorContains(t, err, "refused")
}

// TestToolCallsNeedTheirResults holds clients to what providers hold them to.
func TestToolCallsNeedTheirResults(t *testing.T) {
	t.Parallel()
	server := providertest.New(t, scripted(providertest.Say("hello")))
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"read","input":{}}]}`
	response, _, err := post(t, server.URL()+"/v1/messages", `{"messages":[`+call+`,{"role":"user","content":"and?"}]}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	response, _, err = post(t, server.URL()+"/v1/messages", `{"messages":[`+call+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"b"}]}]}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, []providertest.Result{{ID: "a", Text: "b"}}, server.Requests()[1].Last().Results)
}
