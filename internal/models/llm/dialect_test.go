package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// body decodes what the server got in a call.
func body(t *testing.T, s *providertest.Server, call int) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal(s.Requests()[call].Body, &out))
	return out
}

// TestCacheMarks has every call read from the cache what the one before wrote.
func TestCacheMarks(t *testing.T) {
	t.Parallel()
	server := providertest.New(t, plays(use("list", args{}), use("list", args{}), finish()))
	b := newBench(t, "anthropic", server.URL(), nil)
	b.done()
	marked := func(v any) bool { _, ok := v.(map[string]any)["cache_control"]; return ok }
	for call := range 3 {
		sent := body(t, server, call)
		require.True(t, marked(sent["system"].([]any)[0]))
		tools := sent["tools"].([]any)
		require.True(t, marked(tools[len(tools)-1]))
		messages := sent["messages"].([]any)
		require.Len(t, messages, 2*call+1)
		for i, m := range messages {
			content := m.(map[string]any)["content"].([]any)
			newest := i == len(messages)-1 || i == len(messages)-3
			require.Equal(t, newest, marked(content[len(content)-1]), "call %d, message %d", call, i)
		}
	}
}

// TestThinkingIsGivenBack to the provider that wants it.
func TestThinkingIsGivenBack(t *testing.T) {
	t.Parallel()
	reply := use("list", args{})
	reply.Thinking = "let me see what there is, and then decide"
	server := providertest.New(t, plays(reply, finish()))
	b := newBench(t, "anthropic", server.URL(), nil)
	b.done()
	answer := body(t, server, 1)["messages"].([]any)[1].(map[string]any)["content"].([]any)
	require.Equal(t, map[string]any{"type": "thinking", "thinking": reply.Thinking, "signature": "c2lnbmF0dXJl"}, answer[0])
	require.Equal(t, "tool_use", answer[1].(map[string]any)["type"])
}

// TestAddresses takes a base URL in the ways that people write it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for kind, suffixes := range map[string][]string{"anthropic": {"", "/", "/v1", "/v1/"}, "openai": {"/", ""}} {
		for _, suffix := range suffixes {
			server := providertest.New(t, plays(finish()))
			b := newBench(t, kind, server.URL(), nil)
			b.agent.BaseURL = kinds[kind](server.URL()) + suffix
			_, err := b.run()
			require.NoError(t, err, "%s %q", kind, suffix)
			require.Equal(t, 1, server.Count())
		}
	}
}
