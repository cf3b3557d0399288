package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// visit has the trusted facts on the connection of a request.
type visit struct {
	// client is the address of the browser or program.
	client string
	// host is what the client calls this server, with its port; secure: it came by https.
	host   string
	secure bool
}

// visitKey is the key of a request's visit in its context.
type visitKey struct{}

// maySend reports whether a credential may be sent between the visitor and this server: without https it could be read on the way
// from another host.
func (v visit) maySend() bool { return v.secure || v.loopback() }

// loopback reports whether the client calls this server by a name that only this machine has.
func (v visit) loopback() bool { return OnlyHere(v.host) }

// OnlyHere reports whether a host, with or without a port, is one that only this machine has.
func OnlyHere(host string) bool {
	name := hostName(host)
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && addr.IsLoopback()
}

// origin is the visitor's address for this server, as browsers write it.
func (v visit) origin() string {
	if v.secure {
		return "https://" + v.host
	}
	return "http://" + v.host
}

// hostName is a host without its port and brackets.
func hostName(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return name
}

// serverNames are the addresses and names of this server.
type serverNames struct {
	// hosts are names and addresses, with or without a port, in lower case.
	hosts []string
	// ports are those that it listens on.
	ports []string
	// proxies are the networks whose X-Forwarded headers are trusted.
	proxies []netip.Prefix
}

func newServerNames(o Options) serverNames {
	d := serverNames{proxies: o.Proxies}
	for _, host := range o.Hosts {
		d.hosts = append(d.hosts, strings.ToLower(host))
	}
	for _, address := range o.Addresses {
		ip, port, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		d.ports = append(d.ports, port)
		if addr, err := netip.ParseAddr(ip); err == nil && addr.IsLoopback() {
			d.hosts = append(d.hosts, net.JoinHostPort("localhost", port), address)
		}
	}
	return d
}

// visit reads what a request says of its connection; ok is false if it calls this server by a
// name that is not its own. What proxies add is taken out of the request's header: nothing
// behind the guard reads it.
func (d serverNames) visit(r *http.Request) (v visit, ok bool) {
	remote := addressOf(r.RemoteAddr)
	v = visit{client: remote.String(), host: strings.ToLower(r.Host), secure: r.TLS != nil}
	if d.isProxy(remote) {
		v.client = d.forwardedFor(remote, r.Header.Values("X-Forwarded-For")).String()
		if host := r.Header.Get("X-Forwarded-Host"); host != "" {
			v.host = strings.ToLower(host)
		}
		if proto := r.Header.Get("X-Forwarded-Proto"); proto != "" {
			v.secure = proto == "https"
		}
	}
	for name := range r.Header {
		if name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			r.Header.Del(name)
		}
	}
	return v, d.isOwn(v.host, r)
}

// forwardedFor is the client that proxies name: the last address that is not a proxy's. What
// stands before it was written by the client.
func (d serverNames) forwardedFor(remote netip.Addr, headers []string) netip.Addr {
	for _, hop := range slices.Backward(strings.Split(strings.Join(headers, ","), ",")) {
		addr := addressOf(strings.TrimSpace(hop))
		if !addr.IsValid() {
			break
		}
		if remote = addr; !d.isProxy(addr) {
			break
		}
	}
	return remote
}

func (d serverNames) isProxy(addr netip.Addr) bool {
	return slices.ContainsFunc(d.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isOwn reports whether a host is one of this server. Where it listens on all addresses, the
// one of the connection is: no name resolves to an address in a Host header.
func (d serverNames) isOwn(host string, r *http.Request) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, ""
	}
	if slices.Contains(d.hosts, host) || slices.Contains(d.hosts, name) &&
		(port == "443" || port == "80" || slices.Contains(d.ports, port)) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at := addressOf(local.String())
	_, localPort, _ := net.SplitHostPort(local.String())
	called, err := netip.ParseAddr(hostName(host))
	return err == nil && called.Unmap() == at && port == localPort
}

// addressOf is the IP address in an address with or without a port.
func addressOf(address string) netip.Addr {
	if both, err := netip.ParseAddrPort(address); err == nil {
		return both.Addr().Unmap().WithZone("")
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
