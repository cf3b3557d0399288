package egress

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const secret = "swordfish-4711"

// TestCredentialsAreAddedOutsideOfTheRoom has a program talk to a host with a credential and to
// one without, and try to have the credential sent elsewhere.
func TestCredentialsAreAddedOutsideOfTheRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t, local)
	var redirect string
	seen := make(chan string, 100)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		seen <- fmt.Sprintf("%s %s %s %q", q.Method, q.Host[:strings.Index(q.Host, ":")], q.URL.Path, q.Header["Authorization"])
		if q.URL.Path == "/away" {
			http.Redirect(w, q, redirect, http.StatusFound)
		}
	}))
	upstream.TLS = b.certificates()
	upstream.StartTLS()
	defer upstream.Close()
	b.tls = portAt(upstream.URL)
	redirect = b.ports("https://cdn.test:TLS/there")

	host := hostOf(t, b.ports("git.test:TLS"))
	mine, err := NewAuthority([]Host{host}, time.Now)
	require.NoError(t, err)
	b.serve(func(p *Proxy) {
		p.options.Authority, p.options.Credentials = mine,
			[]Credential{{Host: host, Header: "Authorization", Value: Basic("ci", secret)}}
	}, "git.test:TLS", "cdn.test:TLS", "127.0.0.1:TLS")
	roots := x509.NewCertPool() // as the room's bundle has them
	require.True(t, roots.AppendCertsFromPEM(mine.PEM()))
	require.True(t, roots.AppendCertsFromPEM(b.authority.PEM()))
	client := b.client()
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs = roots
	get := func(method, address string, header ...string) (*http.Response, string) {
		t.Helper()
		q, err := http.NewRequest(method, b.ports(address), strings.NewReader("body"))
		require.NoError(t, err)
		q.Header.Set("Authorization", "Bearer of-the-room")
		for _, name := range header {
			q.Header[name] = []string{"trace"}
		}
		answer, err := client.Do(q)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer, string(body)
	}
	basic := Basic("ci", secret)

	answer, _ := get("POST", "https://git.test:TLS/push")
	require.Equal(t, `POST git.test /push ["`+basic+`"]`, <-seen, "the room's own header is replaced")
	require.Equal(t, "CN=Maestro worker", answer.TLS.PeerCertificates[0].Issuer.String())
	require.Equal(t, []string{"git.test"}, answer.TLS.PeerCertificates[0].DNSNames)
	_, err = answer.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool(b.authority), DNSName: "git.test"})
	require.Error(t, err, "it is the proxy's certificate")

	answer, _ = get("GET", "https://cdn.test:TLS/other")
	require.Equal(t, `GET cdn.test /other ["Bearer of-the-room"]`, <-seen)
	_, err = answer.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool(b.authority), DNSName: "cdn.test"})
	require.NoError(t, err, "TLS to other hosts is not read")

	get("GET", "https://git.test:TLS/away")
	require.Equal(t, `GET git.test /away ["`+basic+`"]`, <-seen)
	require.NotContains(t, <-seen, basic, "where it is sent to gets no credential")

	for _, echo := range [][]string{
		{"TRACE", "/echo"},
		{"TRACK", "/echo"},
		{"POST", "/echo", "X-Http-Method-Override"},
		{"POST", "/echo", "x_http_method_override"},
		{"POST", "/echo", "X-Http-Method"},
		{"POST", "/echo", "X-Method-Override"},
		{"POST", "/echo?a=b&_method=TRACE"},
		{"POST", "/echo?a=b;_method=TRACE"},
		{"POST", "/echo?a=%zz;b=%&%5Fmethod=%54race"},
	} {
		answer, body := get(echo[0], "https://git.test:TLS"+echo[1], echo[2:]...)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, echo)
		require.NotContains(t, body, basic)
	}

	// Requests for other hosts within the tunnel.
	for _, head := range []string{
		"Host: cdn.test:TLS", "Host: evil.test:TLS", "Host: git.test",
		"Host: git.test:TLS\r\nHost: cdn.test:TLS",
	} {
		c := b.dial()
		fmt.Fprintf(c, "CONNECT git.test:%s HTTP/1.1\r\nHost: x\r\n\r\n", b.tls)
		established, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, established.StatusCode)
		inner := tls.Client(c, &tls.Config{ServerName: "git.test", RootCAs: roots})
		fmt.Fprintf(inner, "GET /smuggled HTTP/1.1\r\n%s\r\nConnection: close\r\n\r\n", b.ports(head))
		said, err := io.ReadAll(inner)
		require.NoError(t, err)
		require.Contains(t, string(said), " 4", head)
	}
	require.ErrorContains(t, b.tunnel("git.test:TLS", "cdn.test"), "remote error")
	require.Empty(t, seen, "nothing else came to a server")
	require.NotContains(t, b.log(), secret)
	require.NotContains(t, b.log(), basic[6:])
}

func pool(a *Authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(a.PEM())
	return p
}

// TestTheAuthorityIsForItsHosts has the key of an authority sign for other hosts.
func TestTheAuthorityIsForItsHosts(t *testing.T) {
	t.Parallel()
	exact := hostOf(t, "git.test:8443")
	below := hostOf(t, "*.corp.test")
	a, err := NewAuthority([]Host{exact, below}, time.Now)
	require.NoError(t, err)
	for name, trusted := range map[string]bool{
		"git.test": true, "a.corp.test": true, "evil.test": false,
		"git.test.evil.test": false, "xgit.test": false,
	} {
		leaf, err := a.leaf(name)
		require.NoError(t, err)
		_, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool(a), DNSName: name})
		require.Equal(t, trusted, err == nil, "%s: %v", name, err)
	}
	again, err := a.leaf("git.test")
	require.NoError(t, err)
	same, err := a.leaf("git.test")
	require.NoError(t, err)
	require.Same(t, again, same)
}
