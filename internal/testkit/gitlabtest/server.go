// Package gitlabtest serves the part of GitLab's REST API (version 4) that Maestro uses on 127.0.0.1, so that tests talk to it
// over a real socket. Paths, fields, status codes and texts of errors are those that GitLab publishes. Its repositories are bare
// repositories of git: a merge request is merged there.
//
// A [Fault] makes an answer go wrong: lost before or after the work was done, slow, or another one than GitLab's. Methods of
// [Server] do what people and CI do on the web pages.
package gitlabtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

// Token is the access token that a server knows, and Self the name of its account.
const (
	Token = "glpat-gitlab-test-token-0123" //nolint:gosec // nobody else knows it
	Self  = "maestro"
)

// maxBody bounds what the server reads of a request, in bytes.
const maxBody = 8 << 20

// Options say what a GitLab is like.
type Options struct {
	// Git serves paths outside of the API: the repositories, as GROUP/NAME.git. Nil: there is no git over HTTP.
	Git http.Handler
	// Path is the one that GitLab is served under, like /gitlab.
	Path string
}

// Server is a GitLab at an address of its own.
type Server struct {
	faulttest.Server

	options Options
	http    *httptest.Server
	mux     *http.ServeMux
	closing chan struct{}
	close   func()
	dir     string

	mu       sync.Mutex
	lastID   int64
	projects []*project
	users    []*user
}

// New starts a server that the test closes at its end.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{options: o, closing: make(chan struct{}), dir: t.TempDir(), lastID: 100}
	s.user(Self)
	s.routes()
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.close = sync.OnceFunc(func() {
		close(s.closing)
		s.http.CloseClientConnections()
		s.http.Close()
	})
	t.Cleanup(s.close)
	return s
}

// Close ends the server and what is still asked of it.
func (s *Server) Close() { s.close() }

// URL is the address of the server.
func (s *Server) URL() string { return s.http.URL + s.options.Path }

// Count is how many requests of the API had a method and the end of a path.
func (s *Server) Count(method, path string) (n int) {
	for _, r := range s.Requests() {
		if r.Method == method && strings.HasSuffix(r.Path, path) {
			n++
		}
	}
	return n
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.options.Path != "" {
		r.URL.RawPath = strings.TrimPrefix(r.URL.EscapedPath(), s.options.Path)
		r.URL.Path = strings.TrimPrefix(r.URL.Path, s.options.Path)
	}
	path, isAPI := strings.CutPrefix(r.URL.EscapedPath(), "/api/v4")
	if !isAPI {
		if s.options.Git == nil {
			http.NotFound(w, r)
			return
		}
		s.options.Git.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	req := Request{Method: r.Method, Path: path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body}
	s.Answer(w, r, req, s.closing, func(out http.ResponseWriter) { s.mux.ServeHTTP(out, r) })
}

// call is a request of the API.
type call struct {
	r       *http.Request
	header  http.Header
	project *project
	mr      *mergeRequest
	body    map[string]any
}

// text is a value of the body, or of the query.
func (c *call) text(key string) string {
	if v, ok := c.body[key]; ok && v != nil {
		return fmt.Sprint(v)
	}
	return c.r.URL.Query().Get(key)
}

func (c *call) has(key string) bool { return c.body[key] != nil }

// number is a part of the path.
func (c *call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.r.PathValue(name), 10, 64)
	return n
}

// handler answers a call. The server is locked.
type handler func(c *call) (status int, answer any)

// on serves an address of the API. {id} in it is a project, {iid} one of its merge requests.
func (s *Server) on(method, path string, h handler) {
	s.mux.HandleFunc(method+" /api/v4"+path, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		status, answer := s.call(&call{r: r, header: w.Header()}, h)
		if text, ok := answer.([]byte); ok {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			_, _ = w.Write(text)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})
}

func (s *Server) call(c *call, h handler) (int, any) {
	if given := c.r.Header.Get("Private-Token"); given != Token && c.r.Header.Get("Authorization") != "Bearer "+Token {
		return refuse(http.StatusUnauthorized, "401 Unauthorized")
	}
	if data, _ := io.ReadAll(c.r.Body); len(data) > 0 && json.Unmarshal(data, &c.body) != nil {
		return refuse(http.StatusBadRequest, "400 Bad request")
	}
	if id := c.r.PathValue("id"); id != "" {
		moved := false
		if c.project, moved = s.find(id); c.project == nil {
			return refuse(http.StatusNotFound, "404 Project Not Found")
		}
		switch {
		case moved && c.r.Method != http.MethodGet:
			return refuse(http.StatusMethodNotAllowed, "Non GET methods are not allowed for moved projects")
		case moved:
			target := strings.Replace(c.r.URL.EscapedPath(), "/projects/"+strings.Split(c.r.URL.EscapedPath(), "/")[4],
				fmt.Sprintf("/projects/%d", c.project.id), 1)
			c.header.Set("Location", s.URL()+target+"?"+c.r.URL.RawQuery)
			return refuse(http.StatusMovedPermanently, "301 Moved Permanently")
		case c.project.archived && c.r.Method != http.MethodGet:
			return refuse(http.StatusForbidden, "403 Forbidden")
		}
	}
	if c.r.PathValue("iid") != "" {
		if c.mr = c.project.mergeRequest(int(c.number("iid"))); c.mr == nil {
			return refuse(http.StatusNotFound, "404 Not found")
		}
		s.refresh(c.mr)
	}
	return h(c)
}

// refuse is an error as GitLab has it.
func refuse(status int, message any) (int, any) { return status, map[string]any{"message": message} }

func notFound(what string) (int, any) { return refuse(http.StatusNotFound, "404 "+what+" Not Found") }

// maxCounted is the longest list that GitLab counts.
const maxCounted = 10_000

// page is a page of a list, with the headers of its pages.
func page[T any](c *call, all []T) (int, any) {
	size, number := 20, 1
	if n, err := strconv.Atoi(c.r.URL.Query().Get("per_page")); err == nil {
		size = min(max(n, 1), 100)
	}
	if n, err := strconv.Atoi(c.r.URL.Query().Get("page")); err == nil {
		number = max(n, 1)
	}
	first := min((number-1)*size, len(all))
	last := min(first+size, len(all))
	c.header.Set("X-Page", strconv.Itoa(number))
	c.header.Set("X-Per-Page", strconv.Itoa(size))
	c.header.Set("X-Next-Page", "")
	if last < len(all) {
		c.header.Set("X-Next-Page", strconv.Itoa(number+1))
	}
	if len(all) <= maxCounted {
		c.header.Set("X-Total", strconv.Itoa(len(all)))
		c.header.Set("X-Total-Pages", strconv.Itoa((len(all)+size-1)/size))
	}
	return http.StatusOK, append([]T{}, all[first:last]...)
}

// id is a new one. Times follow from it, so that they differ and are the same in each run of a test.
func (s *Server) id() int64 {
	s.lastID++
	return s.lastID
}

func timeOf(id int64) time.Time {
	return time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC).Add(time.Duration(id) * time.Second)
}

func check(err error) {
	if err != nil {
		panic("gitlabtest: " + err.Error())
	}
}
