// Package providertest serves the HTTP APIs of model providers, so
// that tests talk to them over a real socket, in the real formats: Anthropic's
// Messages, OpenAI's Chat Completions and Responses, Gemini's generateContent,
// streamed or not.
//
// A [Script] decides what the model says. Everything around it is the server's:
// the framing of streams, the identifiers, the usage, the shape of errors, and
// the faults that a reply asks for. All APIs are served by one [Server],
// to this process and to others.
package providertest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// maxBody bounds what the server reads of a request, in bytes.
const maxBody = 64 << 20

// Script is the model: it answers a request. It may be called from several
// goroutines.
type Script func(Request) Reply

// Server is a provider at an address of its own.
type Server struct {
	script  Script
	http    *httptest.Server
	closing chan struct{}
	close   sync.Once

	mu       sync.Mutex
	requests []Request
	served   map[int]Served
	others   []string
}

// New starts a server that the test closes at its end.
func New(t testing.TB, script Script) *Server {
	t.Helper()
	s := newServer(script)
	s.http = httptest.NewServer(s.routes())
	t.Cleanup(s.Close)
	return s
}

// NewOn starts a server on a listener, for clients in another network, until the test ends.
func NewOn(t testing.TB, l net.Listener, script Script) *Server {
	t.Helper()
	s := newServer(script)
	s.http = &httptest.Server{Listener: l, Config: &http.Server{Handler: s.routes()}} //nolint:gosec // a test's own clients
	s.http.Start()
	t.Cleanup(s.Close)
	return s
}

func newServer(script Script) *Server {
	return &Server{script: script, closing: make(chan struct{}), served: map[int]Served{}}
}

// Close ends the server and every answer that it has under way.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closing)
		s.http.CloseClientConnections()
		s.http.Close()
	})
}

// URL is the base address for clients that add /v1 themselves, as Anthropic's do.
func (s *Server) URL() string { return s.http.URL }

// OpenAIURL is the base address for clients that expect /v1 in it.
func (s *Server) OpenAIURL() string { return s.http.URL + "/v1" }

// Requests lists the calls of models so far, in the order of their arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count is how many calls of models have arrived, the failed ones included.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// Served is what a call has cost, whatever the answer says of it.
type Served struct {
	// Usage is zero for a call that was refused. The output is as much as was sent.
	Usage cost.Usage
	// Whole: the last byte was written to the connection.
	Whole bool
}

// Served is what the call with a number has cost so far.
func (s *Server) Served(n int) Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[n]
}

// Total is the sum of what all calls have cost that were answered whole, and of those
// that were not.
func (s *Server) Total() (whole, broken cost.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, served := range s.served {
		if served.Whole {
			whole = whole.Add(served.Usage)
		} else {
			broken = broken.Add(served.Usage)
		}
	}
	return whole, broken
}

func (s *Server) serve(n int, served Served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[n] = served
}

// Others lists what else was asked for, as "METHOD path".
func (s *Server) Others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.others)
}

// Log is everything that clients have sent in calls of models, headers
// included: where a test looks for what must not be there.
func (s *Server) Log() string {
	var b strings.Builder
	for _, r := range s.Requests() {
		b.WriteString(r.Path + "\n")
		_ = r.Header.Write(&b) // a Builder takes everything
		b.Write(r.Body)
		b.WriteByte('\n')
	}
	return b.String()
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", s.call(anthropicAPI{}))
	mux.HandleFunc("POST /v1/messages/count_tokens", s.countTokens)
	mux.HandleFunc("POST /v1/chat/completions", s.call(chatAPI{}))
	mux.HandleFunc("POST /chat/completions", s.call(chatAPI{}))
	mux.HandleFunc("POST /v1/responses", s.call(responsesAPI{}))
	mux.HandleFunc("POST /responses", s.call(responsesAPI{}))
	mux.HandleFunc("POST /v1/responses/input_tokens", s.countTokens)
	mux.HandleFunc("POST /v1beta/models/{call}", s.gemini)
	mux.HandleFunc("/", s.other)
	return mux
}

// api is one of the formats.
type api interface {
	// parse reads the body of a request into its neutral fields.
	parse(body []byte, into *Request) error
	// whole and stream format an answer.
	whole(Request, Reply) any
	stream(Request, Reply) []event
	// failure formats the body of an error, and inStream the event of one.
	failure(Fault) any
	inStream(Fault) event
}

// event is one event of a stream. An empty name is left out.
type event struct {
	name string
	data any
}

// call answers a call of a model.
func (s *Server) call(format api) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return // the client has gone
		}
		request := Request{Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body}
		err = format.parse(body, &request)
		s.mu.Lock()
		s.requests = append(s.requests, request)
		request.N = len(s.requests)
		s.requests[request.N-1].N = request.N
		s.mu.Unlock()
		if err != nil {
			fault := Fault{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "the body is not what the API takes: " +
				err.Error()}
			writeJSON(w, fault.Status, format.failure(fault))
			return
		}
		answer{s, w, r}.send(format, request, s.script(request).withUsage(request))
	}
}

func (s *Server) note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = append(s.others, r.Method+" "+r.URL.Path)
}

// countTokens counts a token for four bytes of the request.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"input_tokens": len(body) / bytesPerToken})
}

// other answers what clients look for before they call a model.
func (s *Server) other(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{}, "has_more": false})
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
	default:
		writeJSON(w, http.StatusNotFound,
			map[string]any{"error": map[string]any{"type": "not_found_error", "message": "no such path: " + r.URL.Path}})
	}
}
