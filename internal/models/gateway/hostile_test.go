package gateway_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// raw sends bytes as they are, and returns what comes back.
func raw(t *testing.T, b *bench, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.address, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	_, err = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n"))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err, "%s", text)
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body) // the connection may end
	return fmt.Sprintf("%d %v %s", response.StatusCode, response.Header, body)
}

// TestHostileRequestsReachNobody sends what an agent could try. The provider sees none of it, and the transcript says why.
func TestHostileRequestsReachNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, say("the answer"), -1, nil)
	log := b.recorded(t, nil)
	other := newBench(t, say("the answer"), -1, nil)
	const body = `{"max_tokens":5,"messages":[]}`
	headers := func(token string) string {
		return fmt.Sprintf("Host: x\nX-Api-Key: %s\nContent-Length: %d\nConnection: close\n\n%s", token, len(body), body)
	}
	token := b.access.Token
	for name, request := range map[string]string{
		"no token":            "POST /anthropic/v1/messages HTTP/1.1\nHost: x\nContent-Length: 2\nConnection: close\n\n{}",
		"another gateway's":   "POST /anthropic/v1/messages HTTP/1.1\n" + headers(other.access.Token),
		"another attempt's":   "POST /anthropic/v1/messages HTTP/1.1\n" + headers(b.open(b.account).Token),
		"half a token":        "POST /anthropic/v1/messages HTTP/1.1\n" + headers(token[:len(token)/2]),
		"another provider":    "POST /other/v1/messages HTTP/1.1\n" + headers(token),
		"no provider":         "POST /v1/messages HTTP/1.1\n" + headers(token),
		"an encoded slash":    "POST /anthropic/v1%2fmessages HTTP/1.1\n" + headers(token),
		"encoded dots":        "POST /anthropic/v1/%2e%2e/v1/messages HTTP/1.1\n" + headers(token),
		"dots":                "POST /anthropic/../anthropic/v1/messages HTTP/1.1\n" + headers(token),
		"dots to another":     "POST /anthropic/../other/v1/messages HTTP/1.1\n" + headers(token),
		"double slashes":      "POST //anthropic//v1/messages HTTP/1.1\n" + headers(token),
		"another host":        "POST http://example.com/anthropic/v1/messages HTTP/1.1\n" + headers(token),
		"this host, absolute": "POST " + b.address + "/anthropic/v1/messages HTTP/1.1\n" + headers(token),
		"user info":           "POST /anthropic/@example.com/v1/messages HTTP/1.1\n" + headers(token),
		"a tunnel":            "CONNECT example.com:443 HTTP/1.1\n" + headers(token),
		"a tunnel to itself":  "CONNECT /anthropic/v1/messages HTTP/1.1\n" + headers(token),
		"an upgrade": "GET /openai/v1/responses HTTP/1.1\nHost: x\nAuthorization: Bearer " + token +
			"\nConnection: Upgrade, close\nUpgrade: websocket\n\n",
		"another method":       "PUT /anthropic/v1/messages HTTP/1.1\n" + headers(token),
		"files":                "GET /anthropic/v1/files HTTP/1.1\n" + headers(token),
		"batches":              "POST /anthropic/v1/messages/batches HTTP/1.1\n" + headers(token),
		"two lengths":          "POST /anthropic/v1/messages HTTP/1.1\nContent-Length: 4\n" + headers(token),
		"a space in a header":  "POST /anthropic/v1/messages HTTP/1.1\nTransfer-Encoding : chunked\n" + headers(token),
		"two encodings":        "POST /anthropic/v1/messages HTTP/1.1\nTransfer-Encoding: chunked, identity\n" + headers(token),
		"large headers":        "POST /anthropic/v1/messages HTTP/1.1\nX: " + strings.Repeat("x", 100<<10) + "\n" + headers(token),
		"a compressed request": "POST /anthropic/v1/messages HTTP/1.1\nContent-Encoding: gzip\n" + headers(token),
		"a body with two sides": "POST /anthropic/v1/messages HTTP/1.1\nHost: x\nX-Api-Key: " + token +
			"\nContent-Length: 33\nConnection: close\n\n" + `{"max_tokens":1,"max_tokens":100}`,
		"no JSON": "POST /anthropic/v1/messages HTTP/1.1\nHost: x\nX-Api-Key: " + token +
			"\nContent-Length: 3\nConnection: close\n\n{]}",
	} {
		got := raw(t, b, request)
		require.Regexp(t, `^[45]\d\d `, got, name)
		require.NotContains(t, got, theKey, name)
	}
	require.Zero(t, b.provider.Count())
	require.Empty(t, b.provider.Others())
	require.Zero(t, b.account.Begun)
	for _, why := range []string{
		"the token is not that of this attempt", "no provider at this address: POST /other/v1/messages",
		"lists of models: GET /anthropic/v1/files",
		"compressed requests are not supported",
	} {
		require.Contains(t, log.String(), why)
	}
}

// TestHeadersOfProgramsDoNotPassForOthers: what a program sends does not change who asks, and
// whom.
func TestHeadersOfProgramsDoNotPassForOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, say("the answer"), -1, nil)
	const body = `{"max_tokens":5,"messages":[]}`
	got := raw(t, b, fmt.Sprintf(`POST /anthropic/v1/messages?beta=true&key=stolen HTTP/1.1
Host: example.com
X-Api-Key: %s
Authorization: Bearer stolen
X-Goog-Api-Key: stolen
Cookie: stolen
Proxy-Authorization: stolen
X-Forwarded-For: stolen
Forwarded: stolen
OpenAI-Organization: stolen
Accept-Encoding: gzip
Connection: close, X-Hop
X-Hop: stolen
Anthropic-Beta: kept
Anthropic-Version: 2023-06-01
Content-Length: %d

%s`, b.access.Token, len(body), body))
	require.Regexp(t, `^200 `, got)
	sent := b.provider.Requests()[0]
	require.NotContains(t, b.provider.Log(), "stolen")
	require.NotContains(t, b.provider.Log(), b.access.Token)
	require.Equal(t, []string{theKey}, sent.Header["X-Api-Key"])
	require.Equal(t, "kept", sent.Header.Get("Anthropic-Beta"))
	require.Equal(t, "identity", sent.Header.Get("Accept-Encoding"))
	require.Equal(t, "beta=true", sent.Query)
	require.True(t, bytes.Equal([]byte(body), sent.Body), "not a byte is changed")

	for i, request := range []string{
		"POST /openai/v1/responses HTTP/1.1\nX-Api-Key: " + b.access.Token, "POST /openai/v1/responses HTTP/1.1\nX-Goog-Api-Key: " +
			b.access.Token,
		"POST /openai/v1/responses?key=" + b.access.Token + " HTTP/1.1",
	} {
		got = raw(t, b, request+fmt.Sprintf("\nHost: x\nConnection: close\nContent-Length: 13\n\n{\"input\":\"%d\"}", i))
		require.Regexp(t, `^200 `, got)
	}
	require.NotContains(t, b.provider.Log()+fmt.Sprint(b.provider.Requests()), b.access.Token)
}

// TestAKeyIsNotToldBack: providers that repeat it, in headers or errors, or redirect to where it
// would be sent.
func TestAKeyIsNotToldBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]providertest.Fault{
		"an error": {
			Status: 400, Type: "invalid_request_error", Message: "bad key " + theKey + ", not swordfish",
			Header: http.Header{"X-Echo": {theKey}},
		},
		"a redirect": {Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:1/" + theKey}}},
	} {
		b := newBench(t, func(providertest.Request) providertest.Reply { return providertest.Failing(fault) }, -1, nil)
		for _, f := range formats {
			response, text := b.asked(t, f, true, name)
			require.NotContains(t, fmt.Sprint(response.Header)+text, theKey)
			require.NotContains(t, text, "swordfish", "what the attempt masks")
			require.Empty(t, response.Header.Get("Location"))
			require.GreaterOrEqual(t, response.StatusCode, 400)
		}
		require.Equal(t, len(formats), b.provider.Count())
	}
}

// TestAKeyIsNotToldInAnAnswer: answers of status 200 are masked, too, also where the key is encoded or
// comes in two parts. An event is passed on as soon as it is there.
func TestAKeyIsNotToldInAnAnswer(t *testing.T) {
	t.Parallel()
	const first = `data: {"id":"a","choices":[{"index":0,"delta":{"content":"half, s"}}]}` + "\n\n"
	const counts = `"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130}`
	for name, told := range map[string]string{
		"plain": theKey, "base64": base64.StdEncoding.EncodeToString([]byte("key " + theKey)),
		"hex": hex.EncodeToString([]byte(theKey)),
	} {
		for _, kind := range []string{"stream", "whole", "free"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				seen := make(chan struct{})
				b := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
					half := len(told) / 2
					parts := []string{`{"id":"a","was":"` + told[:half], told[half:] +
						`","choices":[{"index":0,"message":{"content":"all"},"finish_reason":"stop"}],` + counts + "}"}
					w.Header().Set("Content-Type", "application/json")
					if kind == "stream" {
						w.Header().Set("Content-Type", "text/event-stream")
						parts = []string{first, `data: ` + parts[0], parts[1] + "\n\ndata: [DONE]\n\n"}
					}
					for i, part := range parts {
						_, _ = io.WriteString(w, part)
						_ = http.NewResponseController(w).Flush()
						if kind == "stream" && i == 0 {
							select {
							case <-seen:
							case <-r.Context().Done():
							}
						}
						time.Sleep(5 * time.Millisecond) // so that parts are read apart
					}
				})
				base, err := b.access.URL(b.address, "openai")
				require.NoError(t, err)
				method, path := http.MethodPost, "/chat/completions"
				if kind == "free" {
					method, path = http.MethodGet, "/models"
				}
				request, err := http.NewRequestWithContext(t.Context(), method, base+path,
					strings.NewReader(fmt.Sprintf(formats["chat"].body, kind == "stream", "x")))
				require.NoError(t, err)
				request.Header.Set("Authorization", "Bearer "+b.access.Token)
				response, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
				defer response.Body.Close()
				got := ""
				if kind == "stream" {
					begun := make([]byte, len(first))
					_, err = io.ReadFull(response.Body, begun)
					require.NoError(t, err)
					got = string(begun)
					close(seen)
				}
				rest, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				got += string(rest)
				require.Equal(t, http.StatusOK, response.StatusCode, got)
				require.NotContains(t, got, told)
				require.Contains(t, got, "***")
				require.Contains(t, got, counts)
				if kind != "free" {
					b.access.Wait()
					settled, _, _ := b.account.Sum()
					require.Equal(t, cost.Usage{InputTokens: 100, OutputTokens: 30}, settled)
				}
			})
		}
	}
}

// TestAKeyIsNotToldInPieces: a provider writes its key as a model writes an answer, a few letters in each event. The
// program gets no end, and less than it could guess the key from. It gets in full what only begins like the key.
func TestAKeyIsNotToldInPieces(t *testing.T) {
	t.Parallel()
	const delta, ended = `{"type":"content_block_delta","index":0,"delta":{"type":"x",FIELD:%q}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":9}}`
	const choice, stop = `{"id":"a","choices":[{"index":0,"delta":{FIELD}}]}`,
		`{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9}}`
	for name, c := range map[string]struct{ format, piece, field, end string }{
		"content":      {"chat", choice, `"content":%q`, stop},
		"tool_calls":   {"chat", choice, `"tool_calls":[{"index":0,"function":{"arguments":%q}}]`, stop},
		"text_delta":   {"messages", delta, `"text"`, ended},
		"partial_json": {"messages", delta, `"partial_json"`, ended},
		"output_text": {
			"responses", `{"type":"response.output_text.delta","delta":%q}`, "",
			`{"type":"response.completed","response":{"id":"a","usage":{"input_tokens":9,"output_tokens":9}}}`,
		},
		"parts of lines": {
			"gemini", `{"candidates":[{"content":{"parts":[{"text":%q}]}}]}`, "",
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9}}`,
		},
	} {
		for _, size := range []int{1, 7} {
			for _, told := range []string{"so: " + theKey, "so: " + theKey[:12] + "er"} {
				t.Run(fmt.Sprint(name, size, told), func(t *testing.T) {
					t.Parallel()
					b := servedBy(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "text/event-stream")
						for piece := range slices.Chunk([]byte(told), size) {
							_, _ = fmt.Fprintf(w, "data: "+strings.Replace(c.piece, "FIELD", c.field, 1)+"\n\n", piece)
							_ = http.NewResponseController(w).Flush()
						}
						_, _ = io.WriteString(w, "data: "+c.end+"\n\n")
					})
					_, body, err := b.ask(t.Context(), t, formats[c.format], true, "x")
					got := ""
					for _, m := range regexp.MustCompile(`"(?:content|arguments|text|partial_json|delta)":"([^"]*)"`).FindAllStringSubmatch(body,
						-1) {
						got += m[1]
					}
					if !strings.Contains(told, theKey) {
						require.NoError(t, err)
						require.Equal(t, told, got)
						return
					}
					if err == nil { // all of it came at once
						require.Contains(t, body, "it repeats the provider's key")
					}
					require.Less(t, len(got), len("so: ")+4, got)
				})
			}
		}
	}
}

// TestAnAnswerComesWithItsUsage: a program can have some servers leave out parts of an answer, or answer in another
// encoding. An answer of which a part came is booked.
func TestAnAnswerComesWithItsUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t, say("the answer"), -1, nil)
	const body = `{"contents":[]}`
	got := raw(t, b, fmt.Sprintf(`POST /gemini/v1beta/models/m:streamGenerateContent?alt=sse&fields=candidates&$fields=candidates&access_token=x HTTP/1.1
Host: x
X-Goog-Api-Key: %s
X-Goog-FieldMask: candidates
X-HTTP-Method-Override: GET
X-Original-URL: /v1beta/files
Range: bytes=0-9
If-None-Match: *
Connection: close
Content-Length: %d

%s`, b.access.Token, len(body), body))
	require.Regexp(t, `^200 `, got)
	posted(t, b.address+"/gemini/v1beta/models/m:generateContent?alt=proto", b.access.Token, body)
	first, second := b.provider.Requests()[0], b.provider.Requests()[1]
	require.Equal(t, "alt=sse", first.Query)
	require.Empty(t, second.Query)
	for _, name := range []string{"X-Goog-FieldMask", "X-HTTP-Method-Override", "X-Original-URL", "Range", "If-None-Match"} {
		require.Empty(t, first.Header.Values(name), name)
	}
	require.Equal(t, theKey, first.Header.Get("X-Goog-Api-Key"))

	b = newBench(t, func(providertest.Request) providertest.Reply {
		return providertest.Failing(providertest.Fault{Status: http.StatusPartialContent})
	}, -1, nil)
	response, _ := b.asked(t, formats["messages"], false, "hello")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	_, unsettled, _ := b.account.Sum()
	require.Positive(t, unsettled.Tokens())
}

// TestLongRequestsWaitForEachOther: an attempt has few of them in memory at a time, whether they tell their length or not.
func TestLongRequestsWaitForEachOther(t *testing.T) {
	t.Parallel()
	const long = 1 << 20
	var now, most atomic.Int64
	b := newBench(t, func(providertest.Request) providertest.Reply {
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		time.Sleep(50 * time.Millisecond) // time for another one to come, if it may
		return providertest.Say("the answer")
	}, -1, func(o *gateway.Options, _ []gateway.Provider) { o.MaxRequest = long })
	var asking sync.WaitGroup
	for i := range 12 {
		asking.Go(func() {
			body := fmt.Sprintf(`{"max_tokens":5,"messages":[],"x":"%d%s"}`, i, strings.Repeat("x", long-100))
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.address+"/anthropic/v1/messages",
				strings.NewReader(body))
			if i%2 == 0 {
				request.ContentLength = -1
			}
			request.Header.Set("X-Api-Key", b.access.Token)
			response, err := http.DefaultClient.Do(request)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("%v %v", response, err)
				return
			}
			_ = response.Body.Close()
		})
	}
	asking.Wait()
	require.Equal(t, 12, b.provider.Count())
	require.LessOrEqual(t, most.Load(), int64(4))
}

// TestWebToolsAreRefused: no provider reaches the web for an attempt whose network is restricted.
func TestWebToolsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, say("yes"), -1, nil)
	for path, body := range map[string]string{
		"/anthropic/v1/messages":                         `{"model":"m","max_tokens":9,"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
		"/anthropic/v1/messages/count_tokens":            `{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.test"}}]}]}`,
		"/openai/v1/chat/completions":                    `{"model":"m:online","messages":[]}`,
		"/openai/v1/responses":                           `{"model":"m","input":"x","tools":[{"type":"web_search"}]}`,
		"/gemini/v1beta/models/m:generateContent":        `{"contents":[],"tools":[{"googleSearch":{}}]}`,
		"/gemini/v1beta/models/m-search:generateContent": `{"contents":[]}`,
		"/gemini/v1beta/models/m:countTokens":            `{"contents":[{"parts":[{"file_data":{"file_uri":"https://x.test"}}]}]}`,
	} {
		before := b.provider.Count()
		b.offline = true
		offline := b.open(b.account)
		response, text := posted(t, b.serve(t, offline)+path, offline.Token, body)
		require.Equal(t, http.StatusBadRequest, response.StatusCode, path)
		require.Contains(t, text, "set web_tools: true for the agent in the worker file", path)
		require.Equal(t, before, b.provider.Count(), path)
	}
	for _, f := range formats {
		offline := b.open(b.account)
		_, text, err := post(t.Context(), t, b.serve(t, offline)+"/"+f.provider+programPath(f.provider, f.path),
			offline.Token, fmt.Sprintf(f.body, false, "web_search at https://x.test"))
		require.NoError(t, err)
		require.Contains(t, text, "yes")
	}
	b.offline = false
	permitted := b.open(b.account)
	response, text, err := post(t.Context(), t, b.serve(t, permitted)+"/openai/v1/responses", permitted.Token,
		`{"model":"m","input":"x","tools":[{"type":"web_search"}]}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, text)
}
