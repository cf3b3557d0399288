package agent

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/sandbox/egress"
)

// hasPrograms skips a test where a program is missing.
func hasPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

// TestAListOfHosts has an agent and a check reach a listed host of two that this worker can
// reach, and try ways around the list.
func TestAListOfHosts(t *testing.T) {
	t.Parallel()
	inRooms(t)
	hasPrograms(t, "curl", "python3")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, "%s%s\n", q.Host,
			q.URL.Path)
	}))
	defer server.Close()
	port := strings.TrimPrefix(server.URL, "http://127.0.0.1:")
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer datagrams.Close()
	script := strings.NewReplacer("PORT", port, "UDP", datagrams.LocalAddr().String()[len("127.0.0.1:"):], "SECRET",
		secret).Replace(`
say() { echo "$1: $(eval "$2" 2>&1 | tr '\n' ' ')"; }
say listed 'curl -sS http://git.test:PORT/a'
say python 'python3 -c "import urllib.request as r; print(r.urlopen(\"http://git.test:PORT/b\").read())"'
say other 'curl -sS http://evil.test:PORT/a'
say address 'curl -sS http://127.0.0.1:PORT/a'
say proxied 'curl -sS --noproxy "" http://127.0.0.1:PORT/a'
say direct 'curl -sS --noproxy "*" http://git.test:PORT/a'
say tunnel 'curl -sSp http://git.test:PORT/in'
say self 'curl -sS --noproxy "" http://127.0.0.1:3128/'
say secret 'curl -sS http://SECRET.test/'
say udp 'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", UDP))"'
say udp-out 'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 53))"'
say dns 'python3 -c "import socket; print(socket.gethostbyname(\"git.test\"))"'
`)
	b := newBench(t)
	shell := []string{"/bin/sh", "-c", script}
	network := Network{"git.test:" + port, "127.0.0.2:" + port}
	s, err := New(Config{
		Version: 1, Dir: b.dir, Isolation: IsolationRequired,
		Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: shell, Network: network, Env: []string{"API_KEY"}}},
		Checks: map[string]CheckDefinition{"x": {Argv: shell, Network: network}},
	}, Options{Getenv: func(n string) string { return b.vars[n] }, Now: time.Now, Egress: egress.Options{
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			addr := map[string]string{"git.test": "127.0.0.2"}[name]
			return []netip.Addr{netip.MustParseAddr(addr)}, nil
		},
	}})
	require.NoError(t, err)
	all, err := net.Listen("tcp", "127.0.0.2:"+port) // another address, so that the server's own is not listed
	require.NoError(t, err)
	go http.Serve(all, server.Config.Handler)
	defer all.Close()
	for what, run := range map[string]func() ([]byte, error){
		"agent": func() ([]byte, error) { out, err := b.run(s); return out.Log, err },
		"check": func() ([]byte, error) { out, err := s.Check(t.Context(), b.checkJob("x")); return out.Log, err },
	} {
		log, err := run()
		require.NoError(t, err, string(log))
		said := answersIn(log)
		for name, want := range map[string]string{
			"listed": "git.test:" + port + "/a", "python": "git.test:" + port + "/b", "tunnel": "git.test:" + port + "/in",
			"other": "the room may not reach evil.test:" + port, "address": "Failed to connect",
			"proxied": "the room may not reach 127.0.0.1:" + port,
			"direct":  "Could not resolve", "self": "the room may not reach 127.0.0.1:3128", "udp-out": "Network is unreachable",
			"dns": "gaierror",
		} {
			require.Contains(t, said[name], want, "%s: %s: %s", what, name, log)
		}
		require.Contains(t, string(log), "maestro: network: git.test:"+port+"\n")
		require.Contains(t, string(log), "maestro: network: refused evil.test:"+port+": it is not listed in network\n")
		require.Contains(t, string(log), "maestro: network: 3 permitted, ")
	}
	_, err = datagrams.WriteTo([]byte("ours"), datagrams.LocalAddr())
	require.NoError(t, err)
	first := make([]byte, 4)
	_, _, err = datagrams.ReadFrom(first)
	require.NoError(t, err)
	require.Equal(t, "ours", string(first), "no datagram leaves the room")
}

// TestARestrictedNetworkNeedsRooms starts nothing whose network cannot be restricted.
func TestARestrictedNetworkNeedsRooms(t *testing.T) {
	t.Parallel()
	for _, network := range []Network{{"none"}, {"git.test"}} {
		b := newBench(t)
		cfg := Config{
			Version: 1, Isolation: IsolationAuto,
			Agents: map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"true"}, Network: network}},
			Checks: map[string]CheckDefinition{"x": {Argv: []string{"true"}, Network: network}},
		}
		_, err := New(cfg, Options{Getenv: func(string) string { return "" }, Now: time.Now, Executable: "/bin/false"})
		require.ErrorContains(t, err, "find out whether this host permits rooms", "a shim that was killed says nothing about the host")
		s, err := New(cfg, Options{Getenv: func(string) string { return "" }, Now: time.Now})
		require.NoError(t, err)
		s.rooms, s.noRooms = false, errors.New("the kernel forbids it")
		_, agents := b.run(s)
		_, checks := s.Check(t.Context(), b.checkJob("x"))
		for _, err := range []error{agents, checks} {
			f := failure(t, err)
			require.Equal(t, failures.ResourceError, f.Category)
			require.True(t, f.Final)
			require.Contains(t, f.Message, "its network is restricted, which takes a room, and this host permits none")
		}
		cfg.Isolation = IsolationNone
		_, err = New(cfg, Options{Getenv: func(string) string { return "" }, Now: time.Now})
		require.ErrorContains(t, err, "agents.x.network needs rooms; write `isolation: required`")
		require.ErrorContains(t, err, "checks.x.network needs rooms")
	}
}

// registry answers git and npm below /git/ and /npm/, if they have the user's name and password.
func registry(t *testing.T, repositories string) http.Handler {
	t.Helper()
	require.NoError(t, exec.Command("sh", "-ec",
		`cd "$0"; git init --quiet work; cd work; git config user.name x; git config user.email x@localhost
echo work > file; git add .; git commit --quiet -m work; git clone --quiet --bare . ../work.git; git -C ../work.git update-server-info`, repositories).Run())
	mux := http.NewServeMux()
	mux.Handle("/git/", http.StripPrefix("/git", http.FileServer(http.Dir(repositories))))
	mux.HandleFunc("/npm/left", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"left","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"left","version":"1.0.0"}}}`)
	})
	mux.HandleFunc("/go/example.com/mod/@v/v1.0.0.info",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"Version":"v1.0.0"}`) })
	mux.HandleFunc("/go/example.com/mod/@v/v1.0.0.mod",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "module example.com/mod\n") })
	mux.HandleFunc("/plain", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") })
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "ci" || password != secret {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, q)
	})
}

// TestProgramsWorkWithoutCredentialsInTheRoom has the real programs use a server that wants a
// password, from a room that does not have it.
func TestProgramsWorkWithoutCredentialsInTheRoom(t *testing.T) {
	t.Parallel()
	inRooms(t)
	hasPrograms(t, "git", "npm", "go", "curl", "python3")
	server := httptest.NewTLSServer(registry(t, t.TempDir()))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	script := strings.ReplaceAll(`
set -e
at=https://example.com:PORT
curl -sS --fail $at/plain > curl
python3 -c "import urllib.request as r; print(r.urlopen('$at/plain').read())" > python
git clone --quiet $at/git/work.git clone
GOPROXY=$at/go GONOSUMDB='*' GOFLAGS=-mod=mod GOMODCACHE=$HOME/mod go list -m example.com/mod@v1.0.0 > go
npm view --registry $at/npm/ left version > npm
! curl -sS --fail --cacert /etc/ssl/certs/ca-certificates.crt $at/plain
(env; cat /proc/*/environ; cat /proc/*/cmdline; cat $SSL_CERT_FILE; ls -laR /run; find . $HOME /tmp -type f -size -100k -exec cat {} +) > everything 2>/dev/null || true
`, "PORT", port)
	b := newBench(t)
	b.vars["GIT_PASSWORD"] = secret
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s, err := New(Config{
		Version: 1, Dir: b.dir, Isolation: IsolationRequired,
		Credentials: []Credential{{Host: "example.com:" + port, Username: "ci", SecretEnv: "GIT_PASSWORD"}},
		Agents: map[string]Definition{"x": {
			Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script},
			Network: Network{"example.com:" + port, "127.0.0.1:" + port},
		}},
	}, Options{Getenv: func(n string) string { return b.vars[n] }, Now: time.Now, Egress: egress.Options{
		Roots: roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}})
	require.NoError(t, err)
	out := b.done(s, b.job())
	read := func(name string) string {
		t.Helper()
		data, err := exec.Command("cat", b.path(name)).Output()
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, "plain", read("curl"))
	require.Equal(t, "b'plain'\n", read("python"))
	require.Equal(t, "example.com/mod v1.0.0\n", read("go"))
	require.Equal(t, "1.0.0\n", read("npm"))
	require.Equal(t, "work\n", read("clone/file"))
	everything := read("everything")
	require.Contains(t, everything, "BEGIN CERTIFICATE")
	require.Contains(t, everything, "HTTPS_PROXY=http://127.0.0.1:3128")
	for _, hidden := range []string{secret, base64.StdEncoding.EncodeToString([]byte("ci:" + secret)), "PRIVATE KEY"} {
		require.NotContains(t, everything, hidden)
		require.NotContains(t, string(out.Log), hidden)
	}
	require.Contains(t, string(out.Log), "maestro: network: example.com:"+port+"\n")
}
