// Package gittest serves git repositories over smart HTTP on 127.0.0.1, by git's own http-backend, so that tests fetch and
// push as they would on a real host. A [Fault] makes the answer to a request go wrong.
package gittest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cgi" //nolint:gosec // Go has no Httpoxy since 1.6.3.
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"

	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

// The credentials that a server accepts unless told otherwise.
const (
	User     = "git-user"
	Password = "git-test-password"
)

// maxBody bounds what the server reads of a request, in bytes.
const maxBody = 64 << 20

// Server serves the bare repositories below a directory: the repository acme/shop is at URL/acme/shop.git. It is an
// [http.Handler], too, which other servers may mount.
//
// The path of a request that fetches ends with /git-upload-pack, and that of one that pushes with /git-receive-pack. Before each
// is a GET of /info/refs. Git repeats a request by itself if no answer begins: a fault has to cut it in its middle.
type Server struct {
	faulttest.Server
	// URL is the address of the server, without a slash at its end.
	URL string

	t       testing.TB
	root    string
	program string

	mu             sync.Mutex
	user, password string
	commits        int
}

// New starts a server that the test closes at its end.
func New(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("git is not installed: %v", err)
	}
	s := &Server{t: t, root: t.TempDir(), program: program, user: User, password: Password}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.URL = server.URL
	return s
}

// Remote is the address of a repository, without credentials.
func (s *Server) Remote(name string) string { return s.URL + "/" + name + ".git" }

// Accept makes other credentials the only ones that are right. Requests with others are answered with 401.
func (s *Server) Accept(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.password = user, password
}

// ServeHTTP serves a request of git's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := faulttest.Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query()}
	s.Answer(w, r, request, nil, func(out http.ResponseWriter) { s.serve(out, r) })
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	wantUser, wantPassword := s.user, s.password
	s.mu.Unlock()
	user, password, _ := r.BasicAuth()
	if user != wantUser || password != wantPassword {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "Invalid username or password.", http.StatusUnauthorized)
		return
	}
	// A program that is run as CGI cannot read a body that comes in chunks, as large packs do.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "The request is too large.", http.StatusRequestEntityTooLarge)
		return
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	backend := &cgi.Handler{
		Path: s.program, Args: []string{"http-backend"}, Dir: s.root, Stderr: io.Discard,
		Env: append(s.environment(), "GIT_PROJECT_ROOT="+s.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER="+user,
			"GIT_PROTOCOL="+r.Header.Get("Git-Protocol")),
	}
	backend.ServeHTTP(w, r)
}
