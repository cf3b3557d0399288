package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

// Options are what the dashboard is made of.
type Options struct {
	// Version is the program's.
	Version string
	// Events is the address of the server's events; empty: pages do not update by themselves.
	Events string
	// Now tells the time.
	Now func() time.Time
	Log *slog.Logger
}

// site writes pages.
type site struct {
	Options
	Operations
	views views
}

// New returns the dashboard: all paths besides those of the API.
func New(o Options, operations Operations) http.Handler {
	s := &site{Options: o, Operations: operations, views: loadViews()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/inbox", http.StatusFound) })
	mux.HandleFunc("GET /inbox", s.inbox)
	mux.HandleFunc("GET /sessions", s.sessions)
	mux.HandleFunc("GET /sessions/{session}", s.session)
	mux.HandleFunc("GET /sessions/{session}/changes", s.compare)
	mux.HandleFunc("GET /sessions/{session}/phases/{phase}", s.phase)
	mux.HandleFunc("GET /sessions/{session}/phases/{phase}/{persona}", s.assignment)
	mux.HandleFunc("GET /sessions/{session}/phases/{phase}/{persona}/attempts/{attempt}", s.attempt)
	mux.HandleFunc("GET /sessions/{session}/checkpoints", s.checkpoints)
	mux.HandleFunc("GET /teams", s.teams)
	mux.HandleFunc("GET /teams/{team}", s.team)
	mux.HandleFunc("GET /register-team", s.register)
	mux.HandleFunc("POST /register-team", s.registerNow)
	mux.HandleFunc("GET /history", s.history)
	mux.HandleFunc("GET /operate", s.operate)
	mux.HandleFunc("GET /audit", s.audit)
	mux.HandleFunc("GET /start", s.start)
	mux.HandleFunc("POST /start", s.startNow)
	mux.HandleFunc("GET /sessions/{session}/resume", s.resume)
	mux.HandleFunc("POST /sessions/{session}/resume", s.resumeNow)
	mux.HandleFunc("GET /sessions/{session}/fork", s.fork)
	mux.HandleFunc("POST /sessions/{session}/fork", s.forkNow)
	mux.HandleFunc("GET /sessions/{session}/edit", s.edit)
	mux.HandleFunc("POST /sessions/{session}/edit", s.editNow)
	mux.HandleFunc("POST /operate/breakers/{breaker}", s.setBreaker)
	mux.HandleFunc("POST /sessions/{session}/requests/{request}/answer", s.answer)
	mux.HandleFunc("POST /operate/budgets/{team}/raise", s.raiseDay)
	mux.HandleFunc("POST /operate/examine", s.examine)
	mux.HandleFunc("POST /sessions/{session}/requests/{request}/supply", s.supply)
	mux.HandleFunc("POST /sessions/{session}/raise", s.raise)
	mux.HandleFunc("POST /sessions/{session}/settle", s.settle)
	mux.HandleFunc("POST /sessions/{session}/cancel", s.cancel)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, r, problem{Status: http.StatusNotFound, Title: "Page not found", Text: "Nothing has the address " + r.URL.Path + ".", Command: "maestro list"})
	})
	return mux
}

// UploadFor is who the files of a form are for; ok is false for one that has none.
func UploadFor(r *http.Request) (to control.Recipient, ok bool) {
	if r.Method != http.MethodPost {
		return to, false
	}
	if team := r.URL.Query().Get("for"); r.URL.Path == "/start" && team != "" {
		return control.Recipient{Team: control.TeamInput{Name: team}}, true
	}
	parts := strings.Split(r.URL.Path, "/") // as in /sessions/web-1/requests/r-1/supply
	if len(parts) == 6 && parts[1] == "sessions" && parts[5] == "supply" {
		return control.Recipient{Session: parts[2]}, true
	}
	return to, false
}

// page is what a handler shows.
type page struct {
	View, Title, Tab string
	Content          any
}

// show writes a page. A browser that has the same one already gets no content.
func (s *site) show(w http.ResponseWriter, r *http.Request, status int, p page) {
	f := frame{
		Title: p.Title, Tab: p.Tab, Open: s.open(r.Context()), Who: who(r.Context()),
		Events: s.Events, Version: s.Version, Now: s.Now(), Content: p.Content,
	}
	if r.Method == http.MethodPost { // its address shows another page
		f.Events = ""
	}
	text, err := s.views.render(p.View, f)
	if err != nil {
		s.Log.ErrorContext(r.Context(), "cannot render a page", "page", p.View, "error", err)
		http.Error(w, "the page could not be made; the server's log says why", http.StatusInternalServerError)
		return
	}
	protect(w.Header())
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	w.Header().Set("ETag", tag)
	if status == http.StatusOK && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// repeatable is the context of a form's change. The form has a key in the field once, so that the
// change is made once if the form is sent again.
func repeatable(r *http.Request) context.Context {
	return control.Repeatable(r.Context(), r.PostFormValue("once"))
}

// open counts the requests that wait for a person; zero where that is not known.
func (s *site) open(ctx context.Context) int {
	doc, err := s.Requests.Inbox(ctx)
	if err != nil {
		return 0
	}
	open := 0
	for _, e := range doc.Waiting {
		if !e.NoticeOnly() {
			open++
		}
	}
	return open
}

// problem is why a page cannot be shown, or a form did nothing.
type problem struct {
	Status int
	Title  string
	Text   string
	// Command is one that helps; empty: none does.
	Command string
	// Back is the page to go on from.
	Back string
}

func (s *site) problem(w http.ResponseWriter, r *http.Request, p problem) {
	s.show(w, r, p.Status, page{View: "problem", Title: p.Title, Content: p})
}
