package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// theKey is the key that no program may see.
const theKey = "sk-the-real-key-0123456789"

// bench is a gateway in front of a provider, and an attempt with access to it.
type bench struct {
	provider *providertest.Server
	gateway  *gateway.Gateway
	access   *gateway.Access
	account  *callstest.Account
	address  string
	// breaker is that of the attempts that open begins; nil: none.
	breaker session.CallBreaker
	waits   *session.PausedTime
	// offline: they must not reach the web.
	offline bool

	mu     sync.Mutex
	failed []*failures.Failure
}

func (b *bench) failures() []*failures.Failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// newBench starts a gateway. change may be nil.
func newBench(t testing.TB, script providertest.Script, left int64, change func(*gateway.Options, []gateway.Provider)) *bench {
	t.Helper()
	b := &bench{provider: providertest.New(t, script), account: callstest.New(left), waits: session.NewPausedTime(time.Now)}
	o := gateway.Options{
		Transport: http.DefaultTransport.(*http.Transport).Clone(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Patience: 20 * time.Second,
	}
	var providers []gateway.Provider // in the order of their names
	for _, api := range wire.APIs() {
		base := b.provider.URL()
		if api == wire.OpenAI {
			base = b.provider.OpenAIURL()
		}
		providers = append(providers, gateway.Provider{Name: string(api), API: api, BaseURL: base, Key: theKey})
	}
	providers = append(providers, gateway.Provider{Name: "other", API: wire.Anthropic, BaseURL: b.provider.URL(), Key: theKey})
	if change != nil {
		change(&o, providers)
	}
	b.gateway = gateway.New(o)
	b.gateway.Use(providers)
	t.Cleanup(func() { require.NoError(t, b.gateway.Close()) })
	b.access = b.open(b.account)
	b.address = b.serve(t, b.access)
	return b
}

func (b *bench) open(a session.Calls) *gateway.Access {
	return b.gateway.Open(context.Background(), gateway.Attempt{
		Agent: "x", Offline: b.offline, Calls: a, Breaker: b.breaker, Waits: b.waits, Providers: providers(),
		Mask:   func(s string) string { return strings.ReplaceAll(s, "swordfish", "***") },
		Failed: b.fail,
	})
}

// providers are those of an attempt: one of each API.
func providers() (names []string) {
	for _, api := range wire.APIs() {
		names = append(names, string(api))
	}
	return names
}

// serve returns the address of an attempt's own listener.
func (b *bench) serve(t testing.TB, a *gateway.Access) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	t.Cleanup(func() {
		a.Close()
		require.NoError(t, <-served)
	})
	return "http://" + l.Addr().String()
}

func (b *bench) fail(f *failures.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = append(b.failed, f)
}

// format is a wire format as a program uses it. end is a text of the data that ends a stream.
type format struct{ provider, path, streamPath, body, end string }

// wire is the format as package wire knows it, and whether it has a free count of the prompt.
func (f format) wire(t testing.TB) (of wire.Format, counts bool) {
	t.Helper()
	api := wire.API(f.provider)
	path, _, _ := strings.Cut(programPath(f.provider, f.path), "?")
	to, ok := api.Route(http.MethodPost, path)
	require.True(t, ok, path)
	parsed, err := wire.ReadRequest(to, false, fmt.Appendf(nil, f.body, false, "hello"))
	require.NoError(t, err)
	_, _, counts = parsed.Count()
	return to.Format, counts
}

// programPath is the path of a format below the address of its provider, which programs of some providers have in their base.
func programPath(provider, path string) string {
	return strings.Replace(wire.API(provider).ClientBase("")+path, "/v1/v1/", "/v1/", 1)
}

var formats = map[string]format{
	"messages": {
		"anthropic", "/v1/messages", "/v1/messages",
		`{"model":"m","max_tokens":1000,"stream":%v,"messages":[{"role":"user","content":%q}]}`, "message_stop",
	},
	"chat": {
		"openai", "/chat/completions", "/chat/completions",
		`{"model":"m","max_tokens":1000,"stream":%v,"messages":[{"role":"user","content":%q}]}`, "[DONE]",
	},
	"responses": {"openai", "/responses", "/responses", `{"model":"m","stream":%v,"input":%q}`, "response.completed"},
	"gemini": {
		"gemini", "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse",
		`{"unused":%v,"contents":[{"role":"user","parts":[{"text":%q}]}]}`, `"STOP"`,
	},
}

// ask makes a call as a program does, and returns the answer as far as it came.
func (b *bench) ask(ctx context.Context, t testing.TB, f format, stream bool, text string) (*http.Response, string, error) {
	t.Helper()
	base, err := b.access.URL(b.address, f.provider)
	require.NoError(t, err)
	path := f.path
	if stream {
		path = f.streamPath
	}
	return post(ctx, t, base+path, b.access.Token, fmt.Sprintf(f.body, stream, text))
}

// asked is an answer that comes whole.
func (b *bench) asked(t testing.TB, f format, stream bool, text string) (*http.Response, string) {
	t.Helper()
	response, answer, err := b.ask(t.Context(), t, f, stream, text)
	require.NoError(t, err)
	return response, answer
}

func post(ctx context.Context, t testing.TB, url, token, body string) (*http.Response, string, error) {
	t.Helper()
	response, err := begin(ctx, t, http.DefaultClient, url, token, body)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response, string(data), err
}

// begin makes a call whose answer is still to be read.
func begin(ctx context.Context, t testing.TB, client *http.Client, url, token, body string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	return client.Do(request)
}

// until reads an answer until it has a text.
func until(t testing.TB, response *http.Response, text string) {
	t.Helper()
	for seen := ""; !strings.Contains(seen, text); {
		part := make([]byte, 4096)
		n, err := response.Body.Read(part)
		require.NoError(t, err)
		seen += string(part[:n])
	}
}

// posted is the answer to a request that is answered whole.
func posted(t testing.TB, url, token, body string) (*http.Response, string) {
	t.Helper()
	response, answer, err := post(t.Context(), t, url, token, body)
	require.NoError(t, err)
	return response, answer
}
