// Package githubtest serves the part of GitHub's REST and GraphQL APIs that Maestro uses on 127.0.0.1, as an Enterprise Server
// does: below /api/v3 and /api/graphql. Its repositories are bare ones of git, whose branches are the heads of pull requests,
// and a merge merges there. Paths, status codes and error bodies are those that GitHub publishes.
//
// A [Fault] makes an answer go wrong: lost after the work was done, cut, slow, limited, or another one than GitHub's.
package githubtest

import (
	"bytes"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

// The account that a server knows unless told otherwise.
const (
	Token = "ghp_githubTestToken0123456789"
	Login = "maestro-user"
)

// maxBody bounds what the server reads of a request, in bytes.
const maxBody = 16 << 20

// Options say what a GitHub is like.
type Options struct {
	// Git serves the repositories to git, below the server's own address; nil: it serves none. GitUser and GitPassword are the
	// credentials that it wants in place of a token, which this server checks.
	Git                  http.Handler
	GitUser, GitPassword string
	// Dir returns the directory of a bare repository like acme/shop.
	Dir func(repository string) string
	// App makes the account a GitHub App. Nil: it is the user [Login] with the token [Token].
	App *App
	// Skew is how far the server's clock is ahead.
	Skew time.Duration
	// MergeableLate: the first answer about a pair of commits does not know whether they can be merged.
	MergeableLate bool
}

// App is a GitHub App.
type App struct {
	ID   int64
	Slug string
	Key  *rsa.PublicKey
	// Installation is the id of its installation in all repositories.
	Installation int64
	// Lifetime is how long a token is valid. Zero: an hour.
	Lifetime time.Duration
}

// GraphQL is the path of its API, which the name of the query or mutation follows in a [Request].
const GraphQL = "/api/graphql/"

// Request is a request to one of the APIs.
type Request = faulttest.Request

// Fault is how the answer to a request goes wrong. The zero value is none.
type Fault = faulttest.Fault

// SecondaryLimit is the fault of too many requests at once.
func SecondaryLimit(after time.Duration) Fault {
	f := Fault{Status: http.StatusForbidden, Body: `{"message": "You have exceeded a secondary rate limit. Please wait.",` +
		` "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`}
	if after > 0 {
		f.Header = map[string]string{"Retry-After": strconv.Itoa(int(after.Seconds()))}
	}
	return f
}

// PrimaryLimit is the fault of too many requests in an hour.
func PrimaryLimit(reset time.Time) Fault {
	return Fault{
		Status: http.StatusForbidden, Body: `{"message": "API rate limit exceeded for user ID 1."}`,
		Header: map[string]string{
			"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(reset.Unix(), 10),
		},
	}
}

// BadGateway is the fault of GitHub's own web servers.
func BadGateway() Fault {
	return Fault{Status: http.StatusBadGateway, Body: "<html>Unicorn!</html>"}
}

// Server is a GitHub at an address of its own.
type Server struct {
	faulttest.Server
	// URL is its web address, without a slash at the end.
	URL string

	t       testing.TB
	options Options
	closing chan struct{}
	rest    *http.ServeMux

	mu       sync.Mutex
	repos    []*Repository
	nextID   int64
	clock    time.Time
	tokens   map[string]time.Time
	computed map[string]mergeable
}

// New starts a server that the test closes at its end.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{
		t: t, options: o, closing: make(chan struct{}), nextID: 1000, clock: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
		tokens: map[string]time.Time{}, computed: map[string]mergeable{},
	}
	if o.App == nil {
		s.tokens[Token] = time.Time{}
	}
	s.HalfGets = true
	s.rest = s.routes()
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		close(s.closing)
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Accept makes other tokens the only ones that are right.
func (s *Server) Accept(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	for _, t := range tokens {
		s.tokens[t] = time.Time{}
	}
}

// now is the server's clock for the Date of answers and the end of tokens.
func (s *Server) now() time.Time { return time.Now().Add(s.options.Skew).UTC() }

// tick is the time of an event: each has one of its own. The server is locked.
func (s *Server) tick() time.Time {
	s.clock = s.clock.Add(time.Minute)
	return s.clock
}

func (s *Server) id() int64 {
	s.nextID++
	return s.nextID
}

// ServeHTTP serves the APIs, git, and the store of logs.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.now().Format(http.TimeFormat))
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/"):
		s.serveAPI(w, r)
	case strings.HasPrefix(r.URL.Path, "/_logs/"):
		s.serveLog(w, r)
	case strings.Contains(r.URL.Path, ".git/") && s.options.Git != nil:
		s.serveGit(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	path := strings.TrimPrefix(r.URL.Path, "/api/v3")
	if name := operationOf(path, body); name != "" {
		path = GraphQL + name
	}
	request := Request{Method: r.Method, Path: path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body}
	s.Answer(w, r, request, s.closing, func(out http.ResponseWriter) { s.answer(out, r) })
}

// answer does what is asked.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.authorized(r) {
		failure{http.StatusUnauthorized, "Bad credentials", nil}.write(w)
		return
	}
	s.settle()
	w.Header().Set("X-RateLimit-Limit", "5000")
	w.Header().Set("X-RateLimit-Remaining", "4999")
	w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(s.now().Add(time.Hour).Unix(), 10))
	s.rest.ServeHTTP(w, r)
}

// serveGit checks the token, and leaves the rest to the server of the repositories.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
	user, password, _ := r.BasicAuth()
	s.mu.Lock()
	repo, valid := s.repo(name), s.valid(password)
	s.mu.Unlock()
	if user != "x-access-token" || !valid || repo == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		http.Error(w, "Invalid username or token.", http.StatusUnauthorized)
		return
	}
	if repo.archived && strings.Contains(r.URL.String(), "git-receive-pack") {
		http.Error(w, "This repository was archived so it is read-only.", http.StatusForbidden)
		return
	}
	r = r.Clone(r.Context())
	r.URL.Path = "/" + repo.stored + ".git/" + rest
	r.SetBasicAuth(s.options.GitUser, s.options.GitPassword)
	s.options.Git.ServeHTTP(w, r)
	if strings.HasSuffix(rest, "git-receive-pack") && r.Method == http.MethodPost {
		s.mu.Lock()
		s.settle()
		s.mu.Unlock()
	}
}

func (s *Server) serveLog(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/_logs/"), 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, repo := range s.repos {
		for _, c := range repo.checks {
			if c.id == id {
				_, _ = io.WriteString(w, c.log)
				return
			}
		}
	}
	http.NotFound(w, r)
}

// failure is an error as GitHub answers it.
type failure struct {
	status  int
	message string
	errors  []string
}

func (f failure) write(w http.ResponseWriter) {
	doc := doc{"message": f.message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(f.status)}
	if f.errors != nil {
		var list []map[string]any
		for _, text := range f.errors {
			list = append(list, map[string]any{"resource": "PullRequest", "code": "custom", "message": text})
		}
		doc["errors"] = list
	}
	write(w, f.status, doc)
}

func write(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// writePage answers a page of a list. wrap puts it into the document.
func writePage[T any](w http.ResponseWriter, r *http.Request, all []T, wrap func([]T) any) {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	page, size = max(page, 1), min(max(size, 1), 100)
	if r.URL.Query().Get("per_page") == "" {
		size = 30
	}
	last := max(1, (len(all)+size-1)/size)
	if page < last {
		link := func(to int, rel string) string {
			q := r.URL.Query()
			q.Set("page", strconv.Itoa(to))
			return "<http://" + r.Host + r.URL.Path + "?" + q.Encode() + `>; rel="` + rel + `"`
		}
		w.Header().Set("Link", link(page+1, "next")+", "+link(last, "last"))
	}
	from := min((page-1)*size, len(all))
	items := slices.Clone(all[from:min(from+size, len(all))])
	if items == nil {
		items = []T{}
	}
	write(w, http.StatusOK, wrap(items))
}

// list is the wrap of lists that are no part of another document.
func list[T any](items []T) any { return items }
