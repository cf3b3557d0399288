package agent

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/sandbox/egress"
)

// registries answer git, npm and Go's module client below /git/, /npm/ and /go/, if they have
// the user's name and password.
func registries(t *testing.T, repositories string) http.Handler {
	t.Helper()
	execPath, err := exec.Command("git", "--exec-path").Output()
	require.NoError(t, err)
	require.NoError(t, exec.Command("git", "init", "--quiet", "--bare", "--initial-branch=main", filepath.Join(repositories, "work.git")).Run())
	require.NoError(t, exec.Command("git", "-C", filepath.Join(repositories, "work.git"), "config", "http.receivepack", "true").Run())
	mux := http.NewServeMux()
	mux.Handle("/git/", http.StripPrefix("/git", &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + repositories, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=ci"},
	}))
	mux.HandleFunc("/npm/left", func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, `{"name":"left","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"left","version":"1.0.0","dist":{"tarball":"https://%s/npm/left.tgz"}}}}`, q.Host)
	})
	mux.HandleFunc("/npm/left.tgz", func(w http.ResponseWriter, _ *http.Request) {
		packed := gzip.NewWriter(w)
		files := tar.NewWriter(packed)
		text := `{"name":"left","version":"1.0.0"}`
		_ = files.WriteHeader(&tar.Header{Name: "package/package.json", Mode: 0o644, Size: int64(len(text))})
		_, _ = files.Write([]byte(text))
		_, _ = files.Close(), packed.Close()
	})
	mux.HandleFunc("/go/example.com/mod/@v/v1.0.0.info", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"Version":"v1.0.0"}`) })
	mux.HandleFunc("/go/example.com/mod/@v/v1.0.0.mod", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "module example.com/mod\n") })
	mux.HandleFunc("/go/example.com/mod/@v/v1.0.0.zip", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		f, _ := z.Create("example.com/mod@v1.0.0/go.mod")
		_, _ = f.Write([]byte("module example.com/mod\n"))
		_ = z.Close()
		_, _ = w.Write(b.Bytes())
	})
	mux.HandleFunc("/plain", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") })
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "ci" || password != secret {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(q.Body) // CGI takes no chunks
		q.Body, q.ContentLength, q.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		mux.ServeHTTP(w, q)
	})
}

// TestProgramsWorkWithoutCredentialsInTheRoom has the real programs use a server that wants a
// password, from a room that does not have it.
func TestProgramsWorkWithoutCredentialsInTheRoom(t *testing.T) {
	t.Parallel()
	inRooms(t)
	hasPrograms(t, "git", "npm", "go", "curl", "python3")
	repositories := t.TempDir()
	server := httptest.NewTLSServer(registries(t, repositories))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	script := strings.ReplaceAll(`
set -e
at=https://example.com:PORT
curl -sS --fail $at/plain > curl
python3 -c "import urllib.request as r; print(r.urlopen('$at/plain').read())" > python
git clone --quiet $at/git/work.git clone
cd clone
git config user.name x; git config user.email x@localhost
head -c 3000000 /dev/urandom > big; echo work > file
git add .; git commit --quiet -m work; git push --quiet origin HEAD:main
cd ..
GOPROXY=$at/go GONOSUMDB='*' GOFLAGS=-mod=mod GOMODCACHE=$HOME/mod go mod download -json example.com/mod@v1.0.0 > go 2>&1
mkdir node; cd node; npm install --silent --no-audit --no-fund --registry $at/npm/ left; cd ..
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
		Agents:      map[string]Definition{"x": {Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script}, Network: Network{"example.com:" + port, "127.0.0.1:" + port}}},
	}, Options{Getenv: func(n string) string { return b.vars[n] }, Now: time.Now, Egress: egress.Options{
		Roots: roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}})
	require.NoError(t, err)
	out, err := s.Run(t.Context(), b.job())
	require.NoError(t, err, string(out.Log))
	read := func(name string) string {
		t.Helper()
		data, err := exec.Command("cat", b.path(name)).Output()
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, "plain", read("curl"))
	require.Equal(t, "b'plain'\n", read("python"))
	require.Contains(t, read("go"), `"Version": "v1.0.0"`)
	require.Contains(t, read("node/node_modules/left/package.json"), "1.0.0")
	pushed, err := exec.Command("git", "-C", filepath.Join(repositories, "work.git"), "show", "main:file").CombinedOutput()
	require.NoError(t, err, string(pushed))
	require.Equal(t, "work\n", string(pushed))
	everything := read("everything")
	require.Contains(t, everything, "BEGIN CERTIFICATE")
	require.Contains(t, everything, "HTTPS_PROXY=http://127.0.0.1:3128")
	for _, hidden := range []string{secret, base64.StdEncoding.EncodeToString([]byte("ci:" + secret)), "PRIVATE KEY"} {
		require.NotContains(t, everything, hidden)
		require.NotContains(t, string(out.Log), hidden)
	}
	require.Contains(t, string(out.Log), "maestro: network: permitted example.com:"+port)
}
