package agent

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/sandbox/egress"
)

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
