package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/gateway"
)

// servedBy is a bench whose providers answer as a handler does, and are not waited for.
func servedBy(t *testing.T, handler http.HandlerFunc) *bench {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newBench(t, say("unused"), -1, func(o *gateway.Options, p []gateway.Provider) {
		o.Patience = time.Millisecond
		for i := range p {
			p[i].BaseURL = server.URL
		}
	})
}

// answering is a bench whose providers answer with a body.
func answering(t *testing.T, kind, body string) *bench {
	t.Helper()
	return servedBy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	})
}

// TestAnAnswerThatEndsInAnErrorCostsWhatItSays and nothing besides. An error in the place of an answer costs nothing.
func TestAnAnswerThatEndsInAnErrorCostsWhatItSays(t *testing.T) {
	t.Parallel()
	const text = `data: {"id":"a","choices":[{"index":0,"delta":{"content":"half of it"}}]}` + "\n\n"
	const failed = `data: {"error":{"message":"The upstream has failed.","type":"server_error"}}` + "\n\n"
	const counted = `data: {"id":"a","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130}}` + "\n\n"
	const stream, document = "text/event-stream", "application/json"
	whole, none := cost.Usage{InputTokens: 100, OutputTokens: 30}, cost.Usage{}
	const rejected = `data: {"id":"a","choices":[{"index":0,"delta":{"role":"assistant"}}]}` + "\n\n" +
		`data: {"error":{"message":"Slow down","code":429}}` + "\n\n"
	for name, c := range map[string]struct {
		kind, body string
		want       cost.Usage
		// estimated: a part of the cost is not known.
		estimated bool
	}{
		"counted":              {stream, text + counted + failed, whole, false},
		"not counted":          {stream, text + failed, none, true},
		"counted, and cut":     {stream, text + counted, whole, true},
		"an error as a stream": {stream, failed, none, false},
		"a rejected request":   {stream, rejected, none, false},
		"nothing but the end":  {stream, "data: [DONE]\n\n", none, false},
		"a bare error":         {stream, `data: {"object":"error","message":"too many","code":429}` + "\n\n", none, false},
		"another document":     {document, `{"status":"ok","data":"` + strings.Repeat("x", 2000) + `"}`, none, false},
		"an error as an answer": {
			document, `{"error":{"message":"The upstream has failed.","code":502}}`, none, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := answering(t, c.kind, c.body)
			_, _, _ = b.ask(t.Context(), t, formats["chat"], c.kind == stream, "hello") // the answer may be cut
			b.access.Close()
			_, unsettled, open := b.account.Sum()
			require.Zero(t, open)
			require.Equal(t, c.want, b.account.Abandoned.Add(b.account.Unsettled))
			if !c.estimated {
				require.Equal(t, c.want, b.account.Abandoned)
			}
			require.Equal(t, c.estimated, b.account.Estimated.Tokens() > 0, "%v", unsettled)
		})
	}
}

// TestAnErrorInsideAnAnswerThatOnlyAPersonCanMend ends the attempt, as it does without an answer.
func TestAnErrorInsideAnAnswerThatOnlyAPersonCanMend(t *testing.T) {
	t.Parallel()
	b := answering(t, "text/event-stream", `data: {"error":{"message":"Insufficient credits","code":402}}`+"\n\n")
	_, text := b.asked(t, formats["chat"], true, "hello")
	require.Contains(t, text, "Insufficient credits")
	b.access.Close()
	require.Len(t, b.failures(), 1)
	require.Equal(t, failures.Auth, b.failures()[0].Category)
}
