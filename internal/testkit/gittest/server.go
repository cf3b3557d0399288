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
)

// The credentials that a server accepts unless told otherwise.
const (
	User     = "git-user"
	Password = "git-test-password"
)

// maxBody bounds what the server reads of a request, in bytes.
const maxBody = 64 << 20

// Fault is how a request goes wrong. The zero value is none.
type Fault struct {
	// Cut closes the connection instead of doing what is asked.
	Cut bool
	// Lost does what is asked and closes the connection instead of answering.
	Lost bool
	// Status is another answer, which comes instead of git's, with the text Body; zero: git's own.
	Status int
	Body   string
}

// Server serves the bare repositories below a directory: the repository acme/shop is at URL/acme/shop.git. It is an
// [http.Handler], too, which other servers may mount.
type Server struct {
	// URL is the address of the server, without a slash at its end.
	URL string

	t       testing.TB
	root    string
	program string

	mu             sync.Mutex
	user, password string
	hook           func(*http.Request) Fault
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

// Fail asks a function for the fault of each request from now on; nil: there are none. The path of a request that fetches
// ends with /git-upload-pack, and that of one that pushes with /git-receive-pack. Before each is a GET of /info/refs with
// the name in the query's service.
func (s *Server) Fail(hook func(*http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// ServeHTTP serves a request of git's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hook, wantUser, wantPassword := s.hook, s.user, s.password
	s.mu.Unlock()
	var f Fault
	if hook != nil {
		f = hook(r)
	}
	user, password, _ := r.BasicAuth()
	switch {
	case f.Cut:
		cut(w)
		return
	case f.Status != 0:
		http.Error(w, f.Body, f.Status)
		return
	case user != wantUser || password != wantPassword:
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
	if f.Lost {
		backend.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
		return
	}
	backend.ServeHTTP(w, r)
}

// cut closes the connection within an answer. Clients repeat a request by themselves if a connection ends before an answer
// begins.
func cut(w http.ResponseWriter) {
	if conn, out, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = out.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
		_ = out.Flush()
		_ = conn.Close()
	}
}
