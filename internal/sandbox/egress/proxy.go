package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
)

// Options are the settings of a [Proxy] besides its list.
type Options struct {
	// Resolve returns the addresses of a name; nil: the resolver of this host.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Roots are the authorities that the proxy trusts as a TLS client; nil: those of this
	// host.
	Roots *x509.CertPool
	// Credentials are for hosts that are names. For these the proxy uses certificates of the
	// Authority, which the programs of the room must trust.
	Credentials []Credential
	Authority   *Authority
	// Now returns the time. Required.
	Now func() time.Time
	// Observer counts requests and bytes; nil: nothing is counted.
	Observer Observer
}

// limits bound the resources of one room.
type limits struct {
	// header bounds the time for the header of a request, and for the first bytes and the
	// handshake in a tunnel. idle bounds the time without traffic on a connection, and dial the
	// time for connecting to one address.
	header, idle, dial time.Duration
}

var defaultLimits = limits{header: 20 * time.Second, idle: 10 * time.Minute, dial: 10 * time.Second}

// maxHeader bounds the header of a request or an answer, in bytes, and maxAddresses how many
// addresses of a name are tried.
const maxHeader, maxAddresses = 256 << 10, 6

// Proxy serves rooms that have the same list of hosts.
type Proxy struct {
	list    list
	options Options
	limits  limits
}

// New makes a proxy for a list of hosts.
func New(hosts []Host, options Options) *Proxy {
	if options.Resolve == nil {
		options.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if options.Observer == nil {
		options.Observer = noObserver{}
	}
	return &Proxy{list: hosts, options: options, limits: defaultLimits}
}

// Serve serves one room until the listener fails, and returns when all requests of the room have
// ended. logf gets a line for the first request to each host, and a summary at the end.
func (p *Proxy) Serve(l net.Listener, logf func(format string, args ...any)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &roomProxy{Proxy: p, ctx: ctx, record: record{
		log: logf, observe: p.options.Observer, counts: map[Outcome]int{}, seen: map[string]bool{},
	}}
	defer r.record.end()
	r.tunnelled = &connQueue{conns: make(chan net.Conn), done: ctx.Done(), addr: l.Addr()}
	r.transport = r.newTransport()
	defer r.transport.CloseIdleConnections()
	outer, inner := r.server(r.handleProxied), r.server(r.handleTunnelled)
	inner.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, destinationKey{}, c.( //nolint:forcetypeassert // as [served.hand] has made it
		tunnelled).destination)
	}
	r.work.Go(func() { _ = inner.Serve(r.tunnelled) })
	bounded := httpserver.ForRoom(l, func() { r.record.add(Refused, "a connection", "too many are open") })
	_ = outer.Serve(&listener{Listener: bounded, idle: p.limits.idle, traffic: &r.record.traffic})
	r.mu.Lock()
	cancel()
	r.mu.Unlock()
	_, _ = outer.Close(), inner.Close()
	r.work.Wait()
}

// roomProxy is the proxy of one room.
type roomProxy struct {
	*Proxy
	ctx       context.Context //nolint:containedctx // it ends when the room does
	record    record
	tunnelled *connQueue
	transport *http.Transport
	// work are the requests in progress. None begins after the end of ctx, which is cancelled
	// while mu is held.
	mu   sync.Mutex
	work sync.WaitGroup
}

// begin notes that a request begins; false: the room has ended.
func (r *roomProxy) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	r.work.Add(1)
	return true
}

// server makes a server of the room's requests.
func (r *roomProxy) server(handle http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if r.begin() {
				defer r.work.Done()
				handle(w, q)
			}
		}),
		ReadHeaderTimeout: r.limits.header, IdleTimeout: r.limits.idle, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return r.ctx }, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// handleProxied handles the requests of programs to their proxy.
func (r *roomProxy) handleProxied(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.Method == http.MethodConnect:
		if t, ok := r.checkTarget(w, q.Host, portHTTPS); ok {
			r.tunnel(w, q, t)
		}
	case q.URL.Scheme == "http" && q.URL.Host != "":
		if t, ok := r.checkTarget(w, q.URL.Host, portHTTP); ok {
			r.forward(w, q, destination{"http", t})
		}
	default:
		http.Error(w, "maestro: this is the room's proxy; request an address of the form http://HOST/, or a tunnel with CONNECT",
			http.StatusBadRequest)
	}
}

// checkTarget reports whether a host and port are permitted. If not, it answers the request.
func (r *roomProxy) checkTarget(w http.ResponseWriter, authority string, port uint16) (target, bool) {
	t, err := parseTarget(authority, port)
	if err != nil {
		r.refuse(w, quoted(authority), err.Error())
		return target{}, false
	}
	if !r.list.contains(t) {
		r.refuse(w, t.String(), "it is not listed in network")
		return target{}, false
	}
	return t, true
}

// refuse answers a request that is not permitted.
func (r *roomProxy) refuse(w http.ResponseWriter, what, why string) {
	r.record.add(Refused, what, why)
	http.Error(w, fmt.Sprintf("maestro: the room may not reach %s: %s", what, why), http.StatusForbidden)
}

// answerFailure answers a request whose host could not be reached.
func (r *roomProxy) answerFailure(w http.ResponseWriter, t target, err error) {
	var refused refusal
	if errors.As(err, &refused) {
		r.refuse(w, t.String(), refused.Error())
		return
	}
	r.record.add(Failed, t.String(), err.Error())
	http.Error(w, fmt.Sprintf("maestro: %s cannot be reached: %v", t, err), http.StatusBadGateway)
}

// refusal is the reason why a host is not permitted.
type refusal string

func (r refusal) Error() string { return string(r) }

// dial connects to a listed host at a permitted address.
func (r *roomProxy) dial(ctx context.Context, t target) (net.Conn, error) {
	if !r.list.contains(t) {
		return nil, refusal("it is not listed in network")
	}
	found := []netip.Addr{t.addr}
	if !t.addr.IsValid() {
		var err error
		if found, err = r.options.Resolve(ctx, t.name); err != nil {
			return nil, err
		}
	}
	var failed []error
	for _, addr := range found[:min(len(found), maxAddresses)] {
		addr = addr.Unmap()
		if !r.list.permits(addr, t.port) {
			failed = append(failed, refusal(fmt.Sprintf("its address %s is not public; to permit it, list the address, too", addr)))
			continue
		}
		d := net.Dialer{Timeout: r.limits.dial}
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, t.port).String())
		if err == nil {
			return c, nil
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return nil, errors.New("it has no address")
	}
	return nil, errors.Join(failed...)
}

// newTransport makes the transport of forwarded requests.
func (r *roomProxy) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			t, err := parseTarget(address, portHTTPS)
			if err != nil {
				return nil, err
			}
			return r.dial(ctx, t)
		},
		TLSClientConfig:        &tls.Config{RootCAs: r.options.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    r.limits.header,
		ResponseHeaderTimeout:  r.limits.idle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost:    16,
		DisableCompression:     true, // bytes are passed on unchanged
	}
}
