package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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
	operations
	views views
}

// operations are those of a control plane that pages show and do.
type operations struct {
	Sessions    control.Sessions
	Requests    control.Requests
	Money       control.Money
	Pool        control.Pool
	Reviews     control.Reviews
	Attempts    control.Attempts
	Checkpoints control.Checkpoints
	Starts      control.Starts
	Teams       control.Teams
	Health      control.Health
	Alerts      control.Alerts
	Hooks       control.Hooks
	Account     control.Access
}

// route is a page or a form of the dashboard.
type route struct {
	pattern string
	// tab is the main page that it belongs to.
	tab string
	// back is the page to go on from after a problem; empty if there is none. Names in braces are those of the pattern.
	back   string
	handle func(*http.Request) (page, error)
}

// routes lists all pages and forms. A form leads to a page, or shows one with what is wrong.
func (s *site) routes() []route {
	const (
		oneSession = "/sessions/{session}"
		assignment = oneSession + "/phases/{phase}/{persona}"
		request    = "POST " + oneSession + "/requests/{request}"
	)
	return []route{
		{"GET /{$}", "", "", func(*http.Request) (page, error) { return page{Next: "/inbox"}, nil }},
		{"GET /inbox", "inbox", "", s.inbox},
		{"GET /inbox/approve", "inbox", "/inbox", s.confirmMany},
		{"POST /inbox/approve", "inbox", "/inbox", s.approveMany},
		{"GET /sessions", "sessions", "/sessions", s.sessions},
		{"GET " + oneSession, "sessions", "/sessions", s.session},
		{"GET " + oneSession + "/changes", "sessions", oneSession, s.compare},
		{"GET " + oneSession + "/phases/{phase}", "sessions", oneSession, s.phase},
		{"GET " + assignment, "sessions", oneSession, s.assignment},
		{"GET " + assignment + "/attempts/{attempt}", "sessions", assignment, s.attempt},
		{"GET " + oneSession + "/checkpoints", "sessions", oneSession, s.checkpoints},
		{"GET " + oneSession + "/resume", "sessions", oneSession, s.resume},
		{"POST " + oneSession + "/resume", "sessions", oneSession + "/resume", s.resumeNow},
		{"GET " + oneSession + "/fork", "sessions", oneSession, s.fork},
		{"POST " + oneSession + "/fork", "sessions", oneSession + "/fork", s.forkNow},
		{"GET " + oneSession + "/edit", "sessions", oneSession, s.edit},
		{"POST " + oneSession + "/edit", "sessions", oneSession, s.editNow},
		{"POST " + oneSession + "/raise", "sessions", "/inbox", s.raise},
		{"POST " + oneSession + "/settle", "sessions", oneSession, s.settle},
		{"POST " + oneSession + "/cancel", "sessions", oneSession, s.cancel},
		{request + "/answer", "sessions", "/inbox", s.answer},
		{request + "/supply", "sessions", "/inbox", s.supply},
		{"GET /start", "sessions", "/start?choose", s.start},
		{"POST /start", "sessions", "/start?choose", s.startNow},
		{"GET /teams", "sessions", "/sessions", s.teams},
		{"GET /teams/{team}", "sessions", "/teams", s.team},
		{"GET /register-team", "sessions", "/teams", s.register},
		{"POST /register-team", "sessions", "/teams", s.registerNow},
		{"GET /history", "history", "/history", s.history},
		{"GET /history.csv", "history", "/history", s.historyCSV},
		{"GET /operate", "operate", "", s.operate},
		{"POST /operate/breakers/{breaker}", "operate", "/operate", s.setBreaker},
		{"POST /operate/budgets/{team}/raise", "operate", "/operate", s.raiseDay},
		{"POST /operate/examine", "operate", "/operate", s.examine},
		{"GET /audit", "operate", "/audit", s.audit},
		{"GET /account", "", "/inbox", s.account},
		{"/", "", "", func(r *http.Request) (page, error) {
			text := "Nothing has the address " + r.URL.Path + "."
			return page{}, &problem{Status: http.StatusNotFound, Title: "Page not found", Text: text, Command: "maestro list"}
		}},
	}
}

// New returns the dashboard of a control plane: all paths besides those of the API.
func New(o Options, base *control.Base) http.Handler {
	s := &site{Options: o, views: loadViews(), operations: operations{
		Sessions: control.Sessions{Base: base}, Requests: control.Requests{Base: base}, Money: control.Money{Base: base},
		Pool: control.Pool{Base: base}, Reviews: control.Reviews{Base: base}, Attempts: control.Attempts{Base: base},
		Checkpoints: control.Checkpoints{Base: base}, Starts: control.Starts{Base: base},
		Teams: control.Teams{Base: base}, Health: control.Health{Base: base}, Alerts: control.Alerts{Base: base},
		Hooks: control.Hooks{Base: base}, Account: control.Access{Base: base},
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	for _, route := range s.routes() {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, route) })
	}
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

// page is the answer to a request.
type page struct {
	// View is the template of the page, and Content what it shows.
	View, Title string
	Content     any
	// Status is the page's status of HTTP; zero: it is 200.
	Status int
	// Next is the page of this site that the browser goes to instead.
	Next string
	// File is sent instead.
	File *textFile
}

// textFile is a file that a browser shows or keeps.
type textFile struct{ Name, Type, Text string }

// serve answers a request.
func (s *site) serve(w http.ResponseWriter, r *http.Request, at route) {
	p, err := at.handle(r)
	switch {
	case errors.Is(err, context.Canceled): // nobody reads the answer
	case err != nil:
		failed := problemOf(err)
		if _, known := errors.AsType[*control.Error](err); failed.Status == http.StatusInternalServerError && !known {
			s.Log.ErrorContext(r.Context(), "an operation failed", "path", r.URL.Path, "error", err)
		}
		failed.Back = at.backOf(r, failed.Back)
		s.show(w, r, at.tab, page{View: "problem", Title: failed.Title, Status: failed.Status, Content: failed})
	case p.Next != "":
		http.Redirect(w, r, p.Next, http.StatusSeeOther)
	case p.File != nil:
		protect(w.Header())
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		w.Header().Set("Content-Type", p.File.Type+"; charset=utf-8")
		w.Header().Set("Content-Disposition",
			mime.FormatMediaType("inline", map[string]string{"filename": safetext.Portable(p.File.Name)}))
		_, _ = w.Write([]byte(p.File.Text))
	default:
		s.show(w, r, at.tab, p)
	}
}

// answer answers the request of a card, and leads back to the page with what became of it.
func (s *site) answer(r *http.Request) (page, error) {
	id, back := r.PathValue("session"), returnTo(r)
	a := control.AnswerBody{Action: session.Action(r.PostFormValue("action")), Note: strings.TrimSpace(r.PostFormValue("note"))}
	doc, err := s.Requests.Answer(r.Context(), control.AnswerInput{Session: id, Request: r.PathValue("request"), Body: a})
	if failedWith(err, control.Conflict) {
		p := problemOf(err)
		p.Title = "The request was not answered"
		return page{}, p
	}
	return done(back, became(doc), id), err
}

// became says what became of an answer, as a key of saidTexts.
func became(a control.Answered) string {
	switch {
	case !a.Taken:
		return "left"
	case a.Answer.Left > 0:
		return "counted"
	default:
		return string(a.Answer.Action)
	}
}

// supply is a form with the files that stand for the work of an assignment.
func (s *site) supply(r *http.Request) (page, error) {
	id := r.PathValue("session")
	file, _, err := r.FormFile("files")
	if err != nil {
		return page{}, &problem{
			Status: http.StatusUnprocessableEntity, Title: "Please choose the files",
			Text: "The form has no archive.",
		}
	}
	defer file.Close() //nolint:errcheck // only read
	files, err := s.Starts.Upload(r.Context(), control.Recipient{Session: id}, file)
	if err == nil {
		_, err = s.Requests.Answer(r.Context(), control.AnswerInput{
			Session: id, Request: r.PathValue("request"), Body: control.AnswerBody{Action: session.AnswerSupply, Files: files.Workspace},
		})
	}
	return done(returnTo(r), string(session.AnswerSupply), id), err
}

// backOf is the page to go on from after a problem. The problem may name one itself, and a form that is on several pages
// names the page that it is on.
func (at route) backOf(r *http.Request, named string) string {
	if named != "" {
		return named
	}
	if r.Method == http.MethodPost && r.PostForm.Has("return") {
		return returnTo(r)
	}
	back := at.back
	for _, name := range []string{"session", "phase", "persona"} {
		back = strings.ReplaceAll(back, "{"+name+"}", url.PathEscape(r.PathValue(name)))
	}
	return back
}

// returnTo is the page that a form is on. It is one of this site.
func returnTo(r *http.Request) string {
	back := r.PostFormValue("return")
	if u, err := url.Parse(back); err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(back, "/") ||
		strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n") {
		return "/inbox"
	}
	return back
}

// saidTexts say what a form has done. %s is a session.
var saidTexts = map[string]string{
	string(session.AnswerApprove): "Approved. Session %s continues.",
	string(session.AnswerReject):  "Rejected. Session %s does the phase again with your note.",
	string(session.AnswerRetry):   "Session %s tries again.",
	string(session.AnswerSkip):    "Session %s continues as the request says.",
	string(session.AnswerSupply):  "Session %s checks your files.",
	string(session.AnswerAbort):   "Session %s ends.",
	"approved":                    "The chosen phases are approved. Their sessions continue.",
	"counted":                     "Approved. Session %s waits for the approval of others.",
	"left":                        "The answer is stored. Session %s takes it as soon as a worker runs.",
	"resumed":                     "Session %s goes on.",
	"forked":                      "Session %s is started.",
	"raised":                      "The budget of session %s is raised.",
	"cancel":                      "Session %s ends as soon as its agents have stopped.",
	"settled":                     "The cost of session %s is settled.",
	"day":                         "The daily budget of team %s is raised, until midnight UTC.",
	"registered":                  "The version is registered. New sessions of the team get it.",
	"unchanged":                   "This is the newest version already.",
	"examined":                    "Everything was examined again.",
	"trip":                        "The breaker is open.",
	"reset":                       "The breaker is closed.",
}

// done leads from a form to the page that it is on, which says what was done.
func done(back, what, id string) page {
	u, err := url.Parse(back)
	if err != nil {
		u = &url.URL{Path: "/inbox"}
	}
	q := u.Query()
	q.Set("said", what)
	if id != "" {
		q.Set("of", id)
	}
	u.RawQuery = q.Encode()
	return page{Next: u.String()}
}

// said is what the form has done that led to a page; empty: none has.
func said(r *http.Request) string {
	q := r.URL.Query()
	text := saidTexts[q.Get("said")]
	if id := q.Get("of"); strings.Contains(text, "%s") {
		if spec.CheckSession(id) != nil {
			return ""
		}
		return strings.Replace(text, "%s", id, 1)
	}
	return text
}

// show writes a page. A browser that has the same one already gets no content.
func (s *site) show(w http.ResponseWriter, r *http.Request, tab string, p page) {
	who, _ := access.Of(r.Context())
	f := frame{page: p, Tab: tab, Away: s.Health.Away(), Who: who.Person(), Events: s.Events, Version: s.Version, Now: s.Now()}
	f.Said, f.MayStart = said(r), who.MayAnywhere(access.Operate)
	f.MayAudit = access.Check(r.Context(), access.Admin, access.AllTeams) == nil
	var err error
	if f.Open, f.Waiting, err = s.open(r.Context()); err != nil && len(f.Away) == 0 && !isDenied(err) {
		f.Away = append(f.Away, "Requests cannot be read: "+err.Error())
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
	if p.Status == 0 && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(max(p.Status, http.StatusOK))
	_, _ = w.Write(text)
}

// protect sets the headers of every page: it loads what this server serves, and nothing else.
func protect(h http.Header) {
	access.SetHeaders(h)
	h.Set("Referrer-Policy", "same-origin") // without a referrer, forms would have no origin either
}

// repeatable is the context of a form's change. The form has a key in the field once, so that the
// change is made once if the form is sent again.
func repeatable(r *http.Request) context.Context {
	return control.Repeatable(r.Context(), r.PostFormValue("once"))
}

// open counts the requests that wait for a person, and is the page of the first.
func (s *site) open(ctx context.Context) (n int, first string, err error) {
	doc, err := s.Requests.Inbox(ctx, control.InboxFilter{})
	for _, e := range doc.Waiting {
		if e.NoticeOnly() || isForOthers(ctx, e) {
			continue
		}
		if n++; n == 1 {
			first = pageOf(e)
		}
	}
	return n, first, err
}
