package egress

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"
)

// portOf are the ports of schemes, and their ends in addresses.
var portOf = map[string]struct {
	port uint16
	end  string
}{"http": {portHTTP, ":80"}, "https": {portHTTPS, ":443"}}

// inside handles a request in a tunnel. It has to be for the tunnel's host.
func (r *served) inside(w http.ResponseWriter, q *http.Request) {
	to := q.Context().Value(destinationKey{}).(destination) //nolint:forcetypeassert // as [Proxy.Serve] has put it there
	t, err := parseTarget(q.Host, portOf[to.scheme].port)
	switch {
	case err != nil || t != to.target:
		r.record.add(Refused, shown(q.Host), "the tunnel is to "+to.target.String())
		http.Error(w, "maestro: this tunnel is to "+to.target.String()+"; the request is for another host", http.StatusMisdirectedRequest)
	case q.Method == http.MethodTrace:
		r.refuse(w, t.String(), "an answer to TRACE shows the request")
	case q.Method == http.MethodConnect || q.URL.Scheme != "" && q.URL.Scheme != to.scheme:
		r.refuse(w, t.String(), "a tunnel has no proxy in it")
	default:
		r.forward(w, q, to)
	}
}

// forward sends a request to its host, and passes the answer on.
func (r *served) forward(w http.ResponseWriter, q *http.Request, to destination) {
	forwarder := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = to.scheme, to.target.String(), p.In.URL.RawQuery
			p.Out.URL.User = nil
			if c := r.credential(to.target); c != nil && to.scheme == "https" {
				p.Out.Header.Set(c.Header, c.Value)
			}
			p.Out.Host = strings.TrimSuffix(to.target.String(), portOf[to.scheme].end)
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
