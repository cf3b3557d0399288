package wire_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// call is a paid call of an API, streamed and not.
type call struct {
	api                   wire.API
	path, streamPath      string
	body                  string
	wholeStop, streamStop string
}

var calls = map[string]call{
	"messages": {
		wire.Anthropic, "/v1/messages", "",
		`{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"hello"}]%s}`, "tool_use", "tool_use",
	},
	"chat": {
		wire.OpenAI, "/v1/chat/completions", "",
		`{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"hello"}]%s}`, "tool_calls", "tool_calls",
	},
	"responses": {wire.OpenAI, "/v1/responses", "", `{"model":"m","input":"hello"%s}`, "completed", "completed"},
	"gemini": {
		wire.Gemini, "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse",
		`{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, "STOP", "STOP",
	},
	"gemini as a list": {
		wire.Gemini, "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent",
		`{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`, "STOP", "STOP",
	},
}

// answer asks a provider, and returns what it was asked and what came.
func (c call) answer(t testing.TB, s *providertest.Server, stream bool) (q *wire.Request, contentType string, body []byte) {
	t.Helper()
	path, text := c.path, c.body
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, fmt.Sprintf(`,"stream":%v`, stream))
	}
	if stream && c.streamPath != "" {
		path = c.streamPath
	}
	bare, _, _ := strings.Cut(path, "?")
	to, ok := c.api.Route(http.MethodPost, bare)
	require.True(t, ok)
	q, err := wire.ReadRequest(to, false, []byte(text))
	require.NoError(t, err)
	require.Equal(t, "m", q.Model)
	require.Equal(t, stream, q.Stream)
	sent, _ := q.Body(0)
	response, err := http.Post(s.URL()+path, "application/json", bytes.NewReader(sent))
	require.NoError(t, err)
	defer response.Body.Close()
	body, _ = io.ReadAll(response.Body) // cut answers end with an error
	return q, response.Header.Get("Content-Type"), body
}

func reply() providertest.Reply {
	r := providertest.Use(providertest.Tool("read", map[string]string{"path": "näme with \"quotes\", long enough to come in " +
		"pieces.md"}))
	r.Text = "I look, \\ and 説明する"
	r.Usage = cost.Usage{InputTokens: 10, CacheReadTokens: 100, OutputTokens: 70}
	return r
}

func meter(q *wire.Request, contentType string, parts ...[]byte) wire.Facts {
	m := wire.NewMeter(q.Format, q.Choices, contentType)
	for _, p := range parts {
		_, _ = m.Write(p)
	}
	return m.Facts()
}

// TestAnyPartsGiveTheSameFacts cuts answers anywhere, also those that are no answers.
func TestAnyPartsGiveTheSameFacts(t *testing.T) {
	t.Parallel()
	type recorded struct {
		q    *wire.Request
		kind string
		body []byte
	}
	var all []recorded
	for _, c := range calls {
		for _, stream := range []bool{false, true} {
			for _, r := range []providertest.Reply{
				reply(),
				{Text: "cut", Fault: providertest.Fault{CutAfter: 300}},
				providertest.Overloaded(),
				{Text: "x", Fault: providertest.Fault{InStream: true, Type: "overloaded_error", Message: "\"busy\""}},
				{Fault: providertest.Fault{Garbage: true}},
			} {
				s := providertest.New(t, func(providertest.Request) providertest.Reply { return r })
				q, kind, body := c.answer(t, s, stream)
				all = append(all, recorded{q, kind, body})
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(all).Draw(t, "answer")
		body := a.body
		if rapid.Bool().Draw(t, "damaged") {
			body = bytes.Clone(body)
			body[rapid.IntRange(0, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		m, parts := wire.NewMeter(a.q.Format, a.q.Choices, a.kind), body
		for len(parts) > 0 {
			n := rapid.IntRange(1, min(len(parts), 1+rapid.IntRange(0, 200).Draw(t, "most"))).Draw(t, "n")
			_, _ = m.Write(parts[:n])
			parts = parts[n:]
			_ = m.Facts()
		}
		require.Equal(t, meter(a.q, a.kind, body), m.Facts())
	})
}

// TestAnEndlessAnswerIsBounded writes what a hostile provider could: the meter keeps nothing of it.
func TestAnEndlessAnswerIsBounded(t *testing.T) { // allocations are those of the process: not parallel
	to, _ := wire.Anthropic.Route(http.MethodPost, "/v1/messages")
	q, err := wire.ReadRequest(to, false, []byte(`{"model":"m","stream":true}`))
	require.NoError(t, err)
	for name, beginning := range map[string]string{
		"text": `data: {"type":"content_block_delta","delta":{"text":"`, "a key": `data: {"`, "a line": "", "a field": "data",
		"depth": "data: ",
	} {
		filler := "x"
		if name == "depth" {
			filler = `{"a":[`
		}
		part := bytes.Repeat([]byte(filler), 64<<10)
		m := wire.NewMeter(q.Format, q.Choices, "text/event-stream")
		_, _ = m.Write([]byte(beginning))
		perWrite := testing.AllocsPerRun(20, func() { _, _ = m.Write(part) })
		require.Less(t, perWrite, 2.0, name)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		api    wire.API
		method string
		path   string
		format wire.Format
		ok     bool
	}{
		{wire.Anthropic, "POST", "/v1/messages", wire.Messages, true},
		{wire.Anthropic, "POST", "/v1/messages/count_tokens", "", true},
		{wire.Anthropic, "GET", "/v1/models/claude-sonnet-4", "", true},
		{wire.Anthropic, "GET", "/v1/messages", "", false},
		{wire.Anthropic, "POST", "/v1/messages/", "", false},
		{wire.Anthropic, "POST", "/v1/./messages", "", false},
		{wire.Anthropic, "POST", "/v1/messages;x", "", false},
		{wire.Anthropic, "POST", `/v1\messages`, "", false},
		{wire.OpenAI, "POST", "/v1/chat/completions", wire.ChatCompletions, true},
		{wire.OpenAI, "POST", "/v1/responses", wire.Responses, true},
		{wire.OpenAI, "GET", "/v1/responses/resp_1", "", false},
		{wire.OpenAI, "GET", "/v1/models", "", true},
		{wire.OpenAI, "DELETE", "/v1/models/ft:gpt", "", false},
		{wire.OpenAI, "POST", "/v1/embeddings", "", false},
		{wire.Gemini, "POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent", wire.GenerateContent, true},
		{wire.Gemini, "POST", "/v1beta/models/gemini-2.5-pro:countTokens", "", true},
		{wire.Gemini, "POST", "/v1beta/models/gemini-2.5-pro:batchGenerateContent", "", false},
		{wire.Gemini, "POST", "/v1beta/models/a/b:generateContent", "", false},
		{wire.Gemini, "GET", "/v1beta/models", "", true},
		{wire.Gemini, "GET", "/v1beta/files", "", false},
	} {
		got, ok := c.api.Route(c.method, c.path)
		require.Equal(t, c.ok, ok, "%s %s", c.method, c.path)
		if ok {
			require.Equal(t, c.format, got.Format, c.path)
		}
	}
}

func TestRequestsThatReadInTwoWaysAreRefused(t *testing.T) {
	t.Parallel()
	var manyKeys strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&manyKeys, `"%d":1,`, i)
	}
	for _, c := range []struct {
		api        wire.API
		path, body string
	}{
		{wire.Anthropic, "/v1/messages", `{"max_tokens":1,"max_tokens":100000}`},
		{wire.Anthropic, "/v1/messages", `{"max_tokens":1,"max\u005ftokens":100000}`},
		{wire.Anthropic, "/v1/messages", `{"model":"a","model":"b"}`},
		{wire.Anthropic, "/v1/messages", `{"model":"a"`},
		{wire.Anthropic, "/v1/messages", `[]`},
		{wire.OpenAI, "/v1/chat/completions", `{"stream":true,"stream_options":{},"stream_options":{}}`},
		{wire.OpenAI, "/v1/chat/completions", `{"n":1000000}`},
		{wire.OpenAI, "/v1/chat/completions", `{"model":"` + strings.Repeat("m", 201) + `"}`},
		{wire.OpenAI, "/v1/chat/completions", `{"MAX_TOKENS":100000}`},
		{wire.OpenAI, "/v1/responses", `{"background":true}`},
		{wire.OpenAI, "/v1/responses", `{"Service_Tier":"priority"}`},
		{wire.OpenAI, "/v1/responses", "{" + manyKeys.String() + `"x":1}`},
		{wire.Gemini, "/v1beta/models/m:generateContent", `{"generationConfig":{"maxOutputTokens":1},"generation_config":{}}`},
		{wire.Gemini, "/v1beta/models/m:generateContent", `{"generation_config":null,"generationConfig":{"maxOutputTokens":10000}}`},
		{wire.Gemini, "/v1beta/models/m:generateContent", `{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":10000}}`},
	} {
		to, ok := c.api.Route(http.MethodPost, c.path)
		require.True(t, ok)
		_, err := wire.ReadRequest(to, false, []byte(c.body))
		require.Error(t, err, c.body)
	}
}

// TestABoundIsTheMostThatTheAnswerMayHave: the larger of two is reserved for, and one that no answer reaches
// makes no sum negative.
func TestABoundIsTheMostThatTheAnswerMayHave(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int64{
		`{"max_tokens":5,"max_completion_tokens":900}`: 900,
		`{"max_tokens":9223372036854775807}`:           1 << 30,
		`{"max_tokens":6148914691236517206,"n":3}`:     3 << 30, // 2 if the product overflows
		`{"":{"max_tokens":5},"max_tokens":90}`:        90,
		`{"max_tokens":-1,"service_tier":"default"}`:   0,
	} {
		to, ok := wire.OpenAI.Route(http.MethodPost, "/v1/chat/completions")
		require.True(t, ok)
		q, err := wire.ReadRequest(to, false, []byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, q.MaxOutput, body)
		f := wire.Forecast{
			Fresh: q.Size, Total: q.Size, MaxOutput: q.MaxOutput,
			Prices: &cost.Prices{Input: 1_000_000_000, Output: 600_000_000},
		}
		require.Positive(t, f.Want().Tokens, body)
		require.Positive(t, f.Want().USD, body)
	}
}

// TestAHugeConversationHasABoundedNumberOfItems: an agent could have its worker run out of memory.
func TestAHugeConversationHasABoundedNumberOfItems(t *testing.T) {
	t.Parallel()
	to, ok := wire.Anthropic.Route(http.MethodPost, "/v1/messages")
	require.True(t, ok)
	message := `{"content":[` + strings.Repeat(`{},`, 9000) + `{}]},`
	q, err := wire.ReadRequest(to, false, []byte(`{"messages":[`+strings.Repeat(message, 10)+`{}]}`))
	require.NoError(t, err)
	n := 0
	for range q.Items() {
		n++
	}
	require.Equal(t, 20_000, n)
}

// TestPartsOfAnAnswerThatAreCountedApart: an answer's own counts leave out a summary that the provider made
// of the conversation before it, and a prompt with several queries is one search of an older Gemini.
func TestPartsOfAnAnswerThatAreCountedApart(t *testing.T) {
	t.Parallel()
	usage := `"usage":{"input_tokens":30,"output_tokens":7,"cache_creation_input_tokens":5,"iterations":[` +
		`{"type":"compaction","input_tokens":900,"output_tokens":100,"cache_read_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":4},"cache_creation_input_tokens":4},` +
		`{"type":"message","input_tokens":30,"output_tokens":7,"cache_creation_input_tokens":5}]}`
	want := cost.Usage{InputTokens: 930, OutputTokens: 107, CacheReadTokens: 50, CacheWriteTokens: 9, CacheWrite1hTokens: 4}
	q := &wire.Request{Route: wire.Route{Format: wire.Messages}, Choices: 1}
	require.Equal(t, want, meter(q, "application/json", []byte(`{"type":"message","stop_reason":"end_turn",`+usage+`}`)).Usage)
	event := "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," + usage + "}\n\n"
	require.Equal(t, want, meter(q, "text/event-stream", []byte(event), []byte(event)).Usage)

	q.Format = wire.GenerateContent
	for model, searches := range map[string]int64{"gemini-2.5-pro": 1, "gemini-3-pro": 2} {
		document := `{"candidates":[{"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["","a","b"]}}],"modelVersion":"` +
			model + `"}`
		require.Equal(t, searches, meter(q, "application/json", []byte(document)).Usage.WebSearches)
	}
}

// TestACallThatNobodyGotIsNotBilled, whatever stood between the worker and the provider. A call that was cut off may be.
func TestACallThatNobodyGotIsNotBilled(t *testing.T) {
	t.Parallel()
	serve := func(h http.HandlerFunc) *httptest.Server {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server
	}
	cut := serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	deaf := serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	nobody := "http://" + gone.Addr().String()

	for name, c := range map[string]struct {
		to, proxy string
		unbilled  bool
	}{
		"nobody listens":                {nobody, "", true},
		"no proxy listens":              {cut.URL, nobody, true},
		"the proxy opens no tunnel":     {secure.URL, deaf.URL, true},
		"the certificate is unknown":    {secure.URL, "", true},
		"the provider speaks no TLS":    {strings.Replace(cut.URL, "http:", "https:", 1), "", true},
		"the provider closes the call":  {cut.URL, "", false},
		"the proxy closes the call":     {nobody, cut.URL, false},
		"the tunnel leads to no server": {secure.URL, cut.URL, true},
	} {
		transport := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
			if c.proxy == "" {
				return nil, nil
			}
			return url.Parse(c.proxy)
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.to, strings.NewReader("{}"))
		require.NoError(t, err)
		response, err := wire.Transport{RoundTripper: transport}.RoundTrip(request)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		require.Error(t, err, name)
		require.Equal(t, c.unbilled, wire.Unbilled(err), "%s: %v", name, err)
		transport.CloseIdleConnections()
	}
}

// FuzzTalk takes anything apart as a request and as an answer: it has a kind for each item, and says
// no more than what came.
func FuzzTalk(f *testing.F) {
	all := []wire.Format{wire.Messages, wire.ChatCompletions, wire.Responses, wire.GenerateContent}
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"tool_result","tool_use_id":1,"content":{"x":1}}]}],"system":[[]],"tools":[{"name":"a"},null]}`,
		`{"messages":[null,1,"x",{"role":[],"content":7,"tool_calls":[{"index":-9,"function":null},3]}],"tools":{"a":1}}`,
		`{"input":[{"type":"reasoning","summary":[{"text":"t"}]},{"type":"x_call","action":{"a":1}},{"type":"x_output","output":[1]}],"instructions":"i"}`,
		`{"contents":[{"role":"model","parts":[{"text":"a"},{"functionCall":{"args":[]}},{"functionResponse":{"response":{"output":"o"}}},null]}],"systemInstruction":{"parts":7}}`,
		"data: {\"type\":\"content_block_delta\",\"index\":99999999,\"delta\":{\"text\":\"x\"}}\ndata: {\n\ndata: " +
			"{\"choices\":[{\"index\":-1,\"delta\":{\"content\":[{\"text\":\"y\"}]}}]}\n\n",

		"data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\",\"role\":\"assistant\"," +
			"\"content\":[{\"text\":\"z\"}]}}\r\n\r\n",
		`[{"candidates":[{"content":{"parts":[{"text":"x","thought":true},{"inlineData":{"mimeType":"image/png"}}]}}]},{"candidates":[]},7`,
		strings.Repeat(`{"messages":[`, 200), "\xff\x00{\"input\":\"\xff\\ud800\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range all {
			var said int
			check := func(it wire.Item) {
				require.NotEmpty(t, it.Kind)
				said += len(it.Text)
			}
			if q, err := wire.ReadRequest(wire.Route{Format: format}, false, data); err == nil {
				for it := range q.Items() {
					check(it)
				}
			}
			for _, kind := range []string{"text/event-stream", "application/json"} {
				for _, it := range wire.ReadAnswer(format, kind, data) {
					check(it)
				}
			}
			require.LessOrEqual(t, said, 3*(100+12*len(data)), "a byte that is no UTF-8 becomes three")
		}
	})
}

// TestEveryFormatIsCalled by the tests of this package.
func TestEveryFormatIsCalled(t *testing.T) {
	t.Parallel()
	called := map[wire.Format]bool{}
	for _, c := range calls {
		to, ok := c.api.Route(http.MethodPost, c.path)
		require.True(t, ok, c.path)
		called[to.Format] = true
	}
	for _, of := range wire.Formats() {
		require.True(t, called[of], "%s has no row in calls", of)
	}
}
