package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/wire"
)

// StoredHeader marks an answer that was paid for before.
const StoredHeader = "Maestro-Stored"

// request is one of a program.
type request struct {
	*Access
	gateway  *Gateway
	provider *provider
	route    wire.Route
	w        http.ResponseWriter
	r        *http.Request
}

// serve answers a request. Whatever is not plainly a call of a provider that the attempt may
// make is refused before anything is sent.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	// The path as it came: servers differ in how they decode it.
	path, _, _ := strings.Cut(r.RequestURI, "?")
	name, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	access := g.access(wire.Credential(r))
	if access == nil {
		refuse(w, g.api(name), wire.Unauthorized, "the token is not valid, or its attempt has ended", 0)
		return
	}
	leave, ok := access.enter()
	if !ok {
		refuse(w, g.api(name), wire.Unauthorized, "the attempt has ended", 0)
		return
	}
	defer leave()
	// A program that neither sends nor takes anything does not keep its attempt from ending.
	defer context.AfterFunc(access.ctx, func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) })()
	p := g.provider(access, name)
	if p == nil || r.Method == http.MethodConnect || r.URL.IsAbs() || r.URL.Host != "" {
		refuse(w, g.api(name), wire.NotFound, "the gateway has nothing here for this attempt", 0)
		return
	}
	to, ok := p.API.Route(r.Method, "/"+rest)
	if !ok {
		refuse(w, p.API, wire.NotFound, "the gateway passes on calls of models, counts of tokens and lists of models only", 0)
		return
	}
	select {
	case access.slots <- struct{}{}:
		defer func() { <-access.slots }()
	case <-r.Context().Done():
		return
	}
	size := g.o.MaxRequest
	if r.ContentLength >= 0 {
		size = min(size, r.ContentLength)
	}
	if access.bodies.Acquire(access.ctx, size) != nil {
		return
	}
	defer access.bodies.Release(size)
	one := &request{Access: access, gateway: g, provider: p, route: to, w: w, r: r}
	if to.Format == "" {
		one.free()
		return
	}
	one.paid()
}

// api is that of a provider, in whose words errors are told.
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
	_, _ = w.Write(body) // the program may have gone
}

func (q *request) refuse(why wire.Refusal, message string, wait time.Duration) {
	refuse(q.w, q.provider.API, why, message, wait)
}

// body reads the request's body. A program that is slow to send it is left.
func (q *request) body() ([]byte, bool) {
	control := http.NewResponseController(q.w)
	_ = control.SetReadDeadline(q.gateway.o.Now().Add(time.Minute)) // a connection has one
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, q.gateway.o.MaxRequest))
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err != nil && int64(len(body)) >= q.gateway.o.MaxRequest:
		q.refuse(wire.TooLarge, "the request is too large", 0)
	case err != nil:
		q.refuse(wire.Invalid, "the request broke off", 0)
	case q.r.Header.Get("Content-Encoding") != "":
		q.refuse(wire.Invalid, "compressed requests are not supported", 0)
	default:
		return body, true
	}
	return nil, false
}

// credentials are the headers that never pass, besides those that are about one connection.
var credentials = []string{
	"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Forwarded", "Via", "Expect", "Host", "Content-Length", "Accept-Encoding",
	"Openai-Organization", "Openai-Project", "Set-Cookie", "Location", "Refresh", "Alt-Svc",
}

// foreign are beginnings of headers that never pass: they speak for others, choose another method or path, or a part of
// the answer, which may be the one without the usage.
var foreign = []string{"X-Forwarded-", "Proxy-", "Maestro-", "X-Goog-", "X-Http-Method", "X-Method-Override", "X-Original-", "X-Rewrite-", "Range", "If-"}

// hop are the headers that are about one connection.
var hop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings"}

// passed are the headers of a request or an answer that pass. What Connection names is about the
// connection, too.
func passed(from http.Header) http.Header {
	out := from.Clone()
	for _, names := range from["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	for _, name := range hop {
		delete(out, name)
	}
	for _, name := range credentials {
		delete(out, name)
	}
	for name := range out {
		if slices.ContainsFunc(foreign, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			delete(out, name)
		}
	}
	return out
}

// hide takes the key out of what a program gets to see.
func hide(data []byte, key string) []byte {
	if len(key) < 8 { // too short to be found without harm to other text
		return data
	}
	return bytes.ReplaceAll(data, []byte(key), []byte("***"))
}

func hideIn(header http.Header, key string) http.Header {
	for _, values := range header {
		for i, v := range values {
			values[i] = string(hide([]byte(v), key))
		}
	}
	return header
}
