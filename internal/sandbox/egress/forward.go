package egress

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
)

// schemes has the default port of each scheme, and the end of an address with it.
var schemes = map[string]struct {
	port uint16
	end  string
}{"http": {portHTTP, ":80"}, "https": {portHTTPS, ":443"}}

// handleTunnelled handles a request in a tunnel. It must be for the tunnel's host.
func (r *roomProxy) handleTunnelled(w http.ResponseWriter, q *http.Request) {
	to := q.Context().Value(destinationKey{}).(destination) //nolint:forcetypeassert // as [Proxy.Serve] has put it there
	t, err := parseTarget(q.Host, schemes[to.scheme].port)
	switch {
	case err != nil || t != to.target:
		r.record.add(Refused, quoted(q.Host), "the tunnel is to "+to.target.String())
		http.Error(w, "maestro: this tunnel is to "+to.target.String()+"; the request is for another host",
			http.StatusMisdirectedRequest)
	case slices.ContainsFunc(methods(q), isEcho):
		r.refuse(w, t.String(), "TRACE is not permitted, also by a header or parameter: its answer contains the credential")
	case q.Method == http.MethodConnect, q.URL.Opaque != "", q.URL.Scheme != "" && q.URL.Scheme != to.scheme:
		r.refuse(w, t.String(), "requests to a proxy are not permitted inside a tunnel")
	default:
		r.forward(w, q, to)
	}
}

// methods returns the methods that a server may take for that of a request: servers differ in whether
// a header or a parameter overrides it, and many read an underscore in a header's name as a hyphen.
func methods(q *http.Request) []string {
	all := []string{q.Method}
	// Servers differ in what separates parameters, and in what they do with one that is wrongly encoded.
	for _, part := range strings.FieldsFunc(q.URL.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		if strings.EqualFold(decoded(name), "_method") {
			all = append(all, decoded(value))
		}
	}
	for name, values := range q.Header {
		switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
		case "x-http-method-override", "x-http-method", "x-method-override":
			all = append(all, values...)
		}
	}
	return all
}

// decoded is a part of a query, as it is if it is wrongly encoded.
func decoded(part string) string {
	if text, err := url.QueryUnescape(part); err == nil {
		return text
	}
	return part
}

// isEcho reports whether a text names a method that has the server return the request's headers.
func isEcho(method string) bool {
	method = strings.ToUpper(method)
	return strings.Contains(method, http.MethodTrace) || strings.Contains(method, "TRACK")
}

// forward sends a request to its host, and returns the answer to the program.
func (r *roomProxy) forward(w http.ResponseWriter, q *http.Request, to destination) {
	forwarder := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = to.scheme, to.target.String(), p.In.URL.RawQuery
			p.Out.URL.User = nil
			if c := r.credentialFor(to.target); c != nil && to.scheme == "https" {
				p.Out.Header.Set(c.Header, c.Value)
			}
			p.Out.Host = strings.TrimSuffix(to.target.String(), schemes[to.scheme].end)
		},
		Transport:     r.transport,
		FlushInterval: -1, // at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(*http.Response) error {
			r.record.add(Permitted, to.target.String(), "")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { r.answerFailure(w, to.target, err) },
	}
	forwarder.ServeHTTP(w, q)
}
