package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counted is an [Observer] that counts.
type counted struct {
	mu             sync.Mutex
	asked          map[Outcome]int
	received, sent int64
}

func (c *counted) EgressRequest(o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[o]++
}

func (c *counted) EgressBytes(received, sent int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received, c.sent = c.received+received, c.sent+sent
}

func (c *counted) of(o Outcome) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[o]
}

// bench is a proxy of a room and the hosts that it can be asked for. All of them are on
// 127.0.0.1, at a port for TLS and one without.
type bench struct {
	*counted
	t         *testing.T
	authority *Authority
	names     map[string]string
	// tls and plain are the ports of the servers. They answer with the host that was asked for.
	tls, plain string
	// served counts the requests that came to them.
	served atomic.Int64
	paths  sync.Map
	proxy  string

	mu    sync.Mutex
	lines []string
}

// newBench starts the servers of the names. Everything else resolves to what addresses has.
func newBench(t *testing.T, addresses map[string]string) *bench {
	t.Helper()
	b := &bench{t: t, counted: &counted{asked: map[Outcome]int{}}, names: addresses}
	hosts := []Host{}
	for name := range addresses {
		hosts = append(hosts, Host{name: name})
	}
	var err error
	b.authority, err = NewAuthority(hosts, time.Now)
	require.NoError(t, err)
	answer := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b.served.Add(1)
		b.paths.Store(q.URL.Path, true)
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %s of %s: %s", q.Method, q.URL.RequestURI(), q.Host, body)
	})
	secure, plain := httptest.NewUnstartedServer(answer), httptest.NewServer(answer)
	secure.TLS = b.certificates()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(func() { secure.Close(); plain.Close() })
	b.tls, b.plain = portAt(secure.URL), portAt(plain.URL)
	return b
}

func (b *bench) certificates() *tls.Config {
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return b.authority.leaf(hello.ServerName)
	}}
}

func hostOf(t *testing.T, text string) Host {
	t.Helper()
	h, err := ParseHost(text)
	require.NoError(t, err, text)
	return h
}

func portAt(address string) string {
	u, _ := url.Parse(address)
	return u.Port()
}

// serve starts the proxy. TLS and PLAIN in hosts are the servers' ports.
func (b *bench) serve(change func(*Proxy), hosts ...string) {
	b.t.Helper()
	var list []Host
	for _, text := range hosts {
		list = append(list, hostOf(b.t, b.ports(text)))
	}
	roots := x509.NewCertPool()
	require.True(b.t, roots.AppendCertsFromPEM(b.authority.PEM()))
	p := New(list, Options{
		Now: time.Now, Observer: b.counted, Roots: roots,
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			addr, err := netip.ParseAddr(b.names[name])
			if err != nil {
				return nil, fmt.Errorf("no such host: %s", name)
			}
			return []netip.Addr{addr}, nil
		},
	})
	if change != nil {
		change(p)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.proxy = l.Addr().String()
	var ended sync.WaitGroup
	ended.Go(func() {
		p.Serve(l, func(format string, args ...any) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lines = append(b.lines, fmt.Sprintf(format, args...))
		})
	})
	b.t.Cleanup(func() { _ = l.Close(); ended.Wait() })
}

func (b *bench) ports(text string) string {
	return strings.NewReplacer("TLS", b.tls, "PLAIN", b.plain, "PROXY", b.proxy).Replace(text)
}

func (b *bench) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

// client uses the proxy as programs do.
func (b *bench) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.authority.PEM())
	t := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: b.proxy}), TLSClientConfig: &tls.Config{RootCAs: roots}}
	b.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// get returns the answer to a request for an address, or why there is none.
func (b *bench) get(address string) string {
	b.t.Helper()
	response, err := b.client().Get(b.ports(address))
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	return string(body)
}

// end has the proxy end a connection.
const end = "GET / HTTP/1.1\r\nHost: end.test\r\nConnection: close\r\n\r\n"

// say writes to the proxy and returns all that comes until the connection ends.
func (b *bench) say(text string) string {
	b.t.Helper()
	c := b.dial()
	_, err := io.WriteString(c, b.ports(text)+end)
	require.NoError(b.t, err)
	got, _ := io.ReadAll(c)
	return string(got)
}

func (b *bench) dial() net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.proxy)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	require.NoError(b.t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// tunnel asks for a tunnel and speaks TLS in it for another name.
func (b *bench) tunnel(to, name string) error {
	b.t.Helper()
	c := b.dial()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", b.ports(to))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusOK, response.StatusCode)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.authority.PEM())
	return tls.Client(c, &tls.Config{ServerName: name, RootCAs: roots}).Handshake()
}

var local = map[string]string{
	"git.test": "127.0.0.1", "a.cdn.test": "127.0.0.1", "b.a.cdn.test": "127.0.0.1", "cdn.test": "127.0.0.1",
	"evil.test": "127.0.0.1",
}

func TestListedHostsAreReached(t *testing.T) {
	t.Parallel()
	b := newBench(t, local)
	b.serve(nil, "git.test:TLS", "git.test:PLAIN", "*.cdn.test:TLS", "127.0.0.1:TLS", "127.0.0.1:PLAIN")
	for address, want := range map[string]string{
		"https://git.test:TLS/a%2Fb?x=1;y=2": "GET /a%2Fb?x=1;y=2 of git.test:TLS: ",
		"https://GIT.test:TLS/":              "GET / of GIT.test:TLS: ",
		"http://git.test:PLAIN/x":            "GET /x of git.test:PLAIN: ",
		"http://git.test.:PLAIN/x":           "GET /x of git.test:PLAIN: ",
		"https://a.cdn.test:TLS/":            "GET / of a.cdn.test:TLS: ",
		"https://b.a.cdn.test:TLS/":          "GET / of b.a.cdn.test:TLS: ",
		"http://127.0.0.1:PLAIN/":            "GET / of 127.0.0.1:PLAIN: ",
	} {
		require.Equal(t, b.ports(want), b.get(address), address)
	}
	// A program that makes tunnels for http, too.
	require.Contains(t, b.say("CONNECT git.test:PLAIN HTTP/1.1\r\nHost: x\r\n\r\nGET /in HTTP/1.1\r\nHost: "+
		"git.test:PLAIN\r\nConnection: close\r\n\r\n"),
		b.ports("GET /in of git.test:PLAIN"))
	require.Zero(t, b.of(Refused))
	require.Zero(t, b.of(Failed))
	require.Equal(t, 8, b.of(Permitted))
	require.Contains(t, b.log(), b.ports("network: b.a.cdn.test:TLS"))
}

// TestNothingElseIsReached has a hostile program reach for other hosts.
func TestNothingElseIsReached(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{
		"git.test": "127.0.0.1", "cdn.test": "127.0.0.1", "evil.test": "127.0.0.1", "rebound.test": "127.0.0.1",
		"private.test":  "10.0.0.1",
		"metadata.test": "169.254.169.254", "mapped.test": "::ffff:127.0.0.1", "self.test": "::1", "any.test": "0.0.0.0",
		"nat.test": "64:ff9b::7f00:1",
	})
	b.serve(nil, "git.test:TLS", "*.cdn.test:TLS", "rebound.test", "private.test", "metadata.test", "mapped.test", "self.test",
		"any.test", "nat.test", "127.0.0.1:TLS")
	connect := func(to string) string { return "CONNECT " + to + " HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n" }
	for _, asked := range []string{
		connect("evil.test:TLS"), connect("git.test:PLAIN"), connect("git.test:22"), connect("git.test"), connect("cdn.test:TLS"),
		connect("127.0.0.1:PLAIN"), connect("PROXY"), connect("[::1]:TLS"), connect("[::ffff:127.0.0.1]:PLAIN"),
		connect("localhost:TLS"),
		connect("127.1:TLS"), connect("2130706433:TLS"), connect("0x7f000001:TLS"), connect("0177.0.0.1:TLS"), connect("0:TLS"),
		connect("git.test.evil.test:TLS"), connect("evil.test.:TLS"), connect("git.test..:TLS"), connect("evilgit.test:TLS"),
		connect("*.cdn.test:TLS"),
		connect("git.test%00.evil.test:TLS"), connect("gıt.test:TLS"), connect("ｇｉｔ.test:TLS"), connect("git。test:TLS"),
		connect("git.test:TLS@evil.test:TLS"),
		connect("evil.test:TLS#@git.test:TLS"), connect("git.test:0"), connect("git.test:65536"), connect(".:TLS"),
		connect("fe80::1%25lo:TLS"), connect(strings.Repeat("a.", 5000) + "test:TLS"),
		connect("rebound.test:443"), connect("private.test:443"), connect("metadata.test:80"), connect("mapped.test:443"),
		connect("self.test:443"), connect("any.test:443"), connect("nat.test:443"),
		"GET http://evil.test:PLAIN/ HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n",
		"GET http://git.test:TLS@evil.test:PLAIN/ HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n",
		"GET http://169.254.169.254/latest/meta-data HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://metadata.test/latest/meta-data HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://PROXY/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET ftp://git.test:TLS/ HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n",
		"GET https://git.test:TLS/ HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n",
		"GET //git.test:TLS/ HTTP/1.1\r\nHost: git.test:TLS\r\n\r\n",
		"POST http://git.test:PLAIN/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/2.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x05\x01\x00", "\x16\x03\x01\x00\x05hello",
	} {
		got := b.say(asked)
		require.NotContains(t, got, " 200 ", asked)
	}
	require.Zero(t, b.served.Load(), "nothing came to a server")
	require.Zero(t, b.of(Permitted))
	require.Contains(t, b.log(), "refused metadata.test:80: its address 169.254.169.254 is not public")
	require.Contains(t, b.log(), b.ports("refused evil.test:TLS: it is not listed in network"))
	require.NotContains(t, b.log(), "\x00")
}

// TestATunnelIsForItsHost has a program use a tunnel to a listed host for others, which the
// same server answers for, as those of a content network do.
func TestATunnelIsForItsHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, local)
	b.serve(nil, "git.test:TLS", "git.test:PLAIN", "127.0.0.1:TLS", "127.0.0.1:PLAIN")
	require.NoError(t, b.tunnel("git.test:TLS", "git.test"))
	require.ErrorContains(t, b.tunnel("git.test:TLS", "evil.test"), "remote error: tls")
	require.Contains(t, b.log(), `its TLS is for "evil.test"`)
	require.ErrorContains(t, b.tunnel("127.0.0.1:TLS", "evil.test"), "remote error: tls")

	open := "CONNECT git.test:PLAIN HTTP/1.1\r\nHost: x\r\n\r\n"
	for asked, status := range map[string]int{
		"GET / HTTP/1.1\r\nHost: evil.test:PLAIN\r\n\r\n":                      http.StatusMisdirectedRequest,
		"GET http://evil.test:PLAIN/ HTTP/1.1\r\nHost: git.test:PLAIN\r\n\r\n": http.StatusMisdirectedRequest,
		// the address counts
		"GET http://git.test:PLAIN/ HTTP/1.1\r\nHost: evil.test:PLAIN\r\nConnection: close\r\n\r\n": http.StatusOK,
		"GET https://git.test:PLAIN/ HTTP/1.1\r\nHost: git.test:PLAIN\r\n\r\n":                      http.StatusForbidden,
		"CONNECT git.test:PLAIN HTTP/1.1\r\nHost: git.test:PLAIN\r\n\r\n":                           http.StatusForbidden,
		"GET http:http://evil.test:PLAIN/ HTTP/1.1\r\nHost: git.test:PLAIN\r\n\r\n":                 http.StatusForbidden,
		"GET / HTTP/1.1\r\nHost: git.test:PLAIN\r\nHost: evil.test:PLAIN\r\n\r\n":                   http.StatusBadRequest,
		"GET / HTTP/1.0\r\n\r\n":  http.StatusMisdirectedRequest,
		"SSH-2.0-OpenSSH_9.2\r\n": http.StatusBadRequest,
	} {
		before := b.served.Load()
		said := b.say(open + asked)
		_, inner, ok := strings.Cut(said, "established\r\n\r\n")
		require.True(t, ok, said)
		require.Contains(t, inner, fmt.Sprintf(" %d ", status), asked)
		require.Equal(t, status == http.StatusOK, b.served.Load() > before, asked)
		require.NotContains(t, said, "of evil.test")
	}
}

// TestRequestsAreNotSmuggled sends requests of which another reader could see two.
func TestRequestsAreNotSmuggled(t *testing.T) {
	t.Parallel()
	b := newBench(t, local)
	b.serve(nil, "git.test:PLAIN", "127.0.0.1:PLAIN")
	second := "GET http://git.test:PLAIN/second HTTP/1.1\r\nHost: evil.test:PLAIN\r\n\r\n"
	for _, head := range []string{
		fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n", len(second)), "Content-Length: 0\r\nContent-Length: 9\r\n",
		"Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"Content-Length: +1\r\n", "X: a\rContent-Length: 9\r\n", "X: a\x00b\r\n", " Content-Length: 9\r\n",
	} {
		b.say("POST http://git.test:PLAIN/ HTTP/1.1\r\nHost: git.test:PLAIN\r\n" + head + "\r\n" + second)
		_, seen := b.paths.Load("/second")
		require.False(t, seen, head)
	}
	got := b.say("GET http://git.test:PLAIN/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close, X-Hop\r\nX-Hop: " +
		"1\r\nProxy-Authorization: Basic x\r\nX-Forwarded-Host: evil.test\r\n\r\n")
	require.Contains(t, got, b.ports("GET / of git.test:PLAIN"))
}

// TestARoomTakesUpALimitedNumberOfConnections opens many that say nothing, or little.
func TestARoomTakesUpALimitedNumberOfConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t, local)
	b.serve(func(p *Proxy) {
		p.limits.header, p.limits.idle = 3*time.Second, 3*time.Second
	}, "git.test:TLS", "git.test:PLAIN", "127.0.0.1:TLS", "127.0.0.1:PLAIN")
	var open []net.Conn
	for i := range 400 {
		c := b.dial()
		switch i % 3 {
		case 0:
			_, _ = io.WriteString(c, "GET http://git.test/ HTTP/1.1\r\nX: ")
		case 1:
			_, _ = io.WriteString(c, b.ports("CONNECT git.test:TLS HTTP/1.1\r\nHost: x\r\n\r\n"))
		}
		open = append(open, c)
	}
	for _, c := range open {
		_, _ = io.ReadAll(c) // each of them is ended by the proxy
	}
	require.Contains(t, b.log(), "refused a connection: too many are open")
	require.Eventually(t, func() bool { return strings.Contains(b.get("http://git.test:PLAIN/"), "GET / of git.test") }, time.Minute,
		10*time.Millisecond)
}

// TestARoomsTrafficEndsWithIt closes the listener below a tunnel and a request.
func TestARoomsTrafficEndsWithIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, local)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	at := silent.Addr().String()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.proxy = l.Addr().String()
	ended := make(chan struct{})
	var last string
	hosts := []Host{hostOf(t, at)}
	go func() {
		defer close(ended)
		New(hosts, Options{Now: time.Now, Observer: b.counted}).Serve(l,
			func(format string, args ...any) { last = fmt.Sprintf(format, args...) })
	}()
	c := b.dial()
	_, err = io.WriteString(c, "GET http://"+at+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	upstream, err := silent.Accept()
	require.NoError(t, err)
	defer upstream.Close()
	request := make([]byte, len("GET / HTTP/1.1"))
	_, err = io.ReadFull(upstream, request)
	require.NoError(t, err)
	require.Equal(t, "GET / HTTP/1.1", string(request))
	require.NoError(t, l.Close())
	<-ended
	_, _ = io.ReadAll(upstream) // it ends, however it does
	require.Contains(t, last, "sent", "the last line has the sum")
}

func TestHostsAreRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "*", "*.", "a*.test", "*.*.test", "https://a.test", "a.test/x", "a b", "a.test:", "a.test:0", "a.test:99999", "a..test",
		"-a.test", ".test", "a.test.", "bücher.test", "[::1", "fe80::1%lo",
		"127.1", strings.Repeat("a", 64) + ".test",
	} {
		_, err := ParseHost(text)
		require.Error(t, err, text)
	}
	for _, c := range []struct {
		entry, of string
		covers    bool
	}{
		{"a.test", "A.test", true},
		{"a.test", "a.test:443", true},
		{"a.test", "a.test:8443", false},
		{"a.test:443", "a.test", false},
		{"*.test", "a.test", true},
		{"*.test", "*.a.test", true},
		{"*.a.test", "*.test", false},
		{"*.test", "test", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"[::1]:80", "[::1]:80", true},
	} {
		require.Equal(t, c.covers, hostOf(t, c.entry).Covers(hostOf(t, c.of)), "%s of %s", c.entry, c.of)
	}
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"8.8.8.8", "140.82.121.4", "2606:4700::1111", "2a00:1450:4001::1"} {
		require.True(t, public(netip.MustParseAddr(text)), text)
	}
	for _, text := range []string{
		"0.0.0.0", "10.1.2.3", "100.100.100.200", "127.0.0.53", "169.254.169.254", "172.31.0.1", "192.168.0.1", "198.18.0.1",
		"224.0.0.1", "255.255.255.255", "240.0.0.1",
		"::", "::1", "fe80::1", "fd00:ec2::254", "fec0::1", "ff02::1", "64:ff9b::a00:1", "2002:a00:1::", "2001::1", "2001:db8::1",
		"::ffff:8.8.8.8", "::8.8.8.8", "2606:4700::1%eth0",
	} {
		require.False(t, public(netip.MustParseAddr(text)), text)
	}
}
