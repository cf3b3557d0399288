// Package jiratest serves the part of Jira's REST API that Maestro uses on
// 127.0.0.1, so that tests talk to it over a real socket: Cloud's version 3, with
// its search that lags and its documents in Atlassian Document Format, and Data
// Center's version 2, with its wiki markup. Paths, status codes and error bodies
// are those that Atlassian publishes.
//
// A [Fault] makes an answer go wrong: lost after the work was done, cut, slow, or
// another one than Jira's.
package jiratest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

// The account that a server knows unless told otherwise.
const (
	Email = "maestro@example.org"
	Token = "ATATT3xFfGF0-jira-test-token"
)

// maxBody bounds what the server reads of a request, in bytes.
const maxBody = 8 << 20

// Options say what a Jira is like.
type Options struct {
	// DataCenter makes it a Data Center; otherwise it is Cloud.
	DataCenter bool
	// ContextPath is the path that it is served under, like /jira.
	ContextPath string
	// IndexDelay is how long the search does not find a new ticket.
	IndexDelay time.Duration
	// Projects are what it has; nil: one with the key MD.
	Projects []Project
}

// Project is a project and its settings.
type Project struct {
	Key        string
	Types      []Type
	Components []string
	Priorities []string
	// Denied lists the permissions that the account has not, like CREATE_ISSUES.
	Denied []string
}

// Type is a type of issue, with its create screen.
type Type struct {
	Name string
	// Fields are those of the create screen, besides project, issuetype, summary,
	// description, labels, components and priority.
	Fields []Field
	// Without lists fields of those that the create screen has not.
	Without []string
}

// Field is a field of a create screen.
type Field struct {
	ID, Name string
	Required bool
	// Options are the values that a field of options has; nil: it takes a text.
	Options []string
}

// Server is a Jira at an address of its own.
type Server struct {
	faulttest.Server

	options Options
	http    *httptest.Server
	media   *httptest.Server
	closing chan struct{}

	mu      sync.Mutex
	token   string
	issues  []*Issue
	files   map[string]Attachment
	nextID  int
	fetched []Request
}

// New starts a server that the test closes at its end.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Projects == nil {
		o.Projects = []Project{{
			Key:        "MD",
			Types:      []Type{{Name: "Bug"}, {Name: "Task"}},
			Components: []string{"Back end"},
			Priorities: []string{"Highest", "High", "Medium", "Low"},
		}}
	}
	s := &Server{options: o, closing: make(chan struct{}), token: Token, files: map[string]Attachment{}, nextID: 10_000}
	s.media = httptest.NewServer(http.HandlerFunc(s.serveMedia))
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		close(s.closing)
		s.http.CloseClientConnections()
		s.http.Close()
		s.media.Close()
	})
	return s
}

// URL is the address that Jira has in a worker file.
func (s *Server) URL() string { return s.http.URL + s.options.ContextPath }

// Revoke makes the server know another token.
func (s *Server) Revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Fetched lists what the host of Cloud's attachments was asked.
func (s *Server) Fetched() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fetched)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), s.options.ContextPath)
	req := Request{Method: r.Method, Path: path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body}
	s.Answer(w, r, req, s.closing, func(out http.ResponseWriter) {
		if !ok {
			deadLink(out)
			return
		}
		s.route(out, req)
	})
}

// route answers a request as Jira does.
func (s *Server) route(w http.ResponseWriter, r Request) {
	if !s.authenticated(w, r) {
		return
	}
	const version = "/rest/api/2/"
	switch {
	case strings.HasPrefix(r.Path, "/secure/attachment/"):
		s.attachmentOfServer(w, strings.TrimPrefix(r.Path, "/secure/attachment/"))
		return
	case !s.options.DataCenter && r.Path == version+"search":
		refuse(w, http.StatusGone, nil, "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API. "+
			"A full migration guideline is available at https://developer.atlassian.com/changelog/#CHANGE-2046")
		return
	case !strings.HasPrefix(r.Path, version):
		deadLink(w)
		return
	}
	var parts []string
	for part := range strings.SplitSeq(strings.TrimPrefix(r.Path, version), "/") {
		if plain, err := url.PathUnescape(part); err == nil {
			parts = append(parts, plain)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resource(w, r, parts)
}

// resource answers for a resource of the API. The server is locked.
func (s *Server) resource(w http.ResponseWriter, r Request, parts []string) {
	search := "search/jql"
	if s.options.DataCenter {
		search = "search"
	}
	get, path := r.Method == http.MethodGet, strings.Join(parts, "/")
	switch {
	case get && path == "myself":
		s.myself(w)
	case get && path == "mypermissions":
		s.permissions(w, r)
	case get && path == search:
		s.search(w, r)
	case r.Method == http.MethodPost && path == "issue":
		s.create(w, r)
	case get && len(parts) == 2 && parts[0] == "issue":
		s.issue(w, parts[1])
	case get && len(parts) == 3 && parts[2] == "comment":
		s.comments(w, r, parts[1])
	case r.Method == http.MethodPost && len(parts) == 3 && parts[2] == "comment":
		s.addComment(w, r, parts[1])
	case get && !s.options.DataCenter && len(parts) == 3 && parts[1] == "content":
		s.attachmentOfCloud(w, parts[2])
	default:
		deadLink(w)
	}
}

// authenticated reports whether the request has the account's credentials, and
// answers it if it has not.
func (s *Server) authenticated(w http.ResponseWriter, r Request) bool {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	probe := http.Request{Header: r.Header}
	user, password, basic := probe.BasicAuth()
	if s.options.DataCenter {
		if r.Header.Get("Authorization") == "Bearer "+token {
			w.Header().Set("X-Seraph-LoginReason", "OK")
			return true
		}
	} else if basic && user == Email && password == token {
		return true
	}
	w.Header().Set("X-Seraph-LoginReason", "AUTHENTICATED_FAILED")
	w.Header().Set("WWW-Authenticate", `OAuth realm="`+s.http.URL+`"`)
	refuse(w, http.StatusUnauthorized, nil, "Client must be authenticated to access this resource.")
	return false
}

// reply answers with a value as JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with an error body as Jira has it.
func refuse(w http.ResponseWriter, status int, fields map[string]string, messages ...string) {
	if fields == nil {
		fields = map[string]string{}
	}
	if messages == nil {
		messages = []string{}
	}
	reply(w, status, map[string]any{"errorMessages": messages, "errors": fields})
}

// deadLink answers for an address that Jira does not have.
func deadLink(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, "<html><head><title>Oops, you&#39;ve found a dead link.</title></head><body></body></html>")
}
