package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// StoredHeader is the header of a stored answer, which was paid for before.
const StoredHeader = "Maestro-Stored"

// request is a request of a program.
type request struct {
	*Access
	gateway  *Gateway
	provider *provider
	route    wire.Route
	w        http.ResponseWriter
	r        *http.Request
}

// api returns the API of a provider, for the format of errors.
func (g *Gateway) api(name string) wire.API {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.providers[name]; p != nil {
		return p.API
	}
	return wire.OpenAI
}

func refuse(w http.ResponseWriter, api wire.API, why wire.Refusal, message string, wait time.Duration) {
	status, header, body := api.Refuse(why, "Maestro's gateway: "+message, wait)
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the program may have disconnected
}

func (q *request) refuse(why wire.Refusal, message string, wait time.Duration) {
	refuse(q.w, q.provider.API, why, message, wait)
}

// body reads the request's body. It fails for a program that sends it too slowly.
func (q *request) body() ([]byte, bool) {
	control := http.NewResponseController(q.w)
	_ = control.SetReadDeadline(q.gateway.o.Now().Add(time.Minute)) // a connection supports deadlines
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, q.gateway.o.MaxRequest))
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err != nil && int64(len(body)) >= q.gateway.o.MaxRequest:
		q.refuse(wire.TooLarge, "the request is too large", 0)
	case err != nil:
		q.refuse(wire.Invalid, "the request is incomplete", 0)
	case q.r.Header.Get("Content-Encoding") != "":
		q.refuse(wire.Invalid, "compressed requests are not supported", 0)
	default:
		return body, q.permits(body)
	}
	return nil, false
}

// permits refuses a request that has the provider reach the web if the program must not.
func (q *request) permits(body []byte) bool {
	if !q.attempt.Offline {
		return true
	}
	what := wire.Web(q.route.Model, body)
	if what == "" {
		return true
	}
	err := fmt.Errorf("%s is not permitted: the provider would reach the web, and the network of agent %s is restricted; "+
		"leave it out, or set web_tools: true for the agent in the worker file", textfmt.Shorten(what, 80), q.attempt.Agent)
	q.recorder.writeRefused(q.provider.Name, err)
	q.refuse(wire.Invalid, err.Error(), 0)
	return false
}

// droppedHeaders are removed from requests and answers, as are keys and the headers of the connection.
var droppedHeaders = []string{
	"Api-Key", "Cookie", "Forwarded", "Via", "Expect", "Host", "Content-Length", "Accept-Encoding",
	"Openai-Organization", "Openai-Project", "Set-Cookie", "Location", "Refresh", "Alt-Svc",
	"Idempotency-Key", "X-Idempotency-Key", // with one, Go's transport would send a call twice, and one would not be booked
}

// droppedPrefixes are prefixes of headers that are removed: they name another client, method or path, or request a part
// of the answer, which may not contain the usage.
var droppedPrefixes = []string{
	"X-Forwarded-", "Proxy-", "Maestro-", "X-Goog-", "X-Http-Method", "X-Method-Override",
	"X-Original-", "X-Rewrite-", "Range", "If-",
}

// hopHeaders are the headers of a connection.
var hopHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Http2-Settings",
}

// passedHeaders returns the headers of a request or an answer without those that are removed. The
// headers that Connection names are headers of the connection, too.
func passedHeaders(from http.Header) http.Header {
	out := from.Clone()
	for _, names := range from["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	wire.RemoveKeys(out)
	for _, name := range slices.Concat(hopHeaders, droppedHeaders) {
		delete(out, name)
	}
	for name := range out {
		if slices.ContainsFunc(droppedPrefixes, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			delete(out, name)
		}
	}
	return out
}
