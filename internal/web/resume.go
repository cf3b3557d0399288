package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// nextPage is the content of the pages that resume and fork a session: what is reused and what
// runs, before anything does.
type nextPage struct {
	Session session.Status
	// Fork: a new session begins from the work of this one.
	Fork bool
	// From, Until and Forced are what the person has chosen, and Edits what was edited before.
	From, Until string
	Forced      map[string]bool
	Edits       []phaseEdit
	As          string
	Foreseen    control.Foreseen
	// Possible: there is something to do.
	Possible bool
	Problem  string
}

// phaseEdit is a manifest of files that replace those of a phase.
type phaseEdit struct {
	Phase string
	Files spec.Digest
}

// Value is the edit in a form.
func (e phaseEdit) Value() string { return e.Phase + ":" + string(e.Files) }

// nextOf reads what a form or an address asks for.
func nextOf(r *http.Request) nextPage {
	p := nextPage{From: r.FormValue("from"), Until: r.FormValue("until"), As: strings.TrimSpace(r.FormValue("as")), Forced: map[string]bool{}}
	for _, phase := range r.Form["force"] {
		p.Forced[phase] = true
	}
	for _, text := range r.Form["edit"] {
		if phase, files, ok := strings.Cut(text, ":"); ok {
			p.Edits = append(p.Edits, phaseEdit{phase, spec.Digest(files)})
		}
	}
	return p
}

// resume is how the session goes on.
func (p nextPage) resume() control.Resume {
	in := control.Resume{PhaseSelection: control.PhaseSelection{From: p.From, Until: p.Until}}
	for phase := range p.Forced {
		in.Force = append(in.Force, phase)
	}
	for _, e := range p.Edits {
		if in.Edits == nil {
			in.Edits = map[string]spec.Digest{}
		}
		in.Edits[e.Phase] = e.Files
	}
	return in
}

// fork is what the new session is to do.
func (p nextPage) fork() control.Fork { return control.Fork{From: p.From, As: p.As} }

// resume shows what resuming a session would do.
func (s *site) resume(w http.ResponseWriter, r *http.Request) { s.showNext(w, r, nextOf(r)) }

// fork shows what forking a session would do.
func (s *site) fork(w http.ResponseWriter, r *http.Request) {
	p := nextOf(r)
	p.Fork = true
	s.showNext(w, r, p)
}

func (s *site) showNext(w http.ResponseWriter, r *http.Request, p nextPage) {
	ctx, id := r.Context(), r.PathValue("session")
	v, err := s.Sessions.Read(ctx, id)
	if err != nil {
		s.failed(w, r, err, "/sessions")
		return
	}
	p.Session = v.Status
	if p.Fork && p.From == "" && len(v.Phases) > 0 {
		p.From = v.Phases[0].Name
	}
	if p.Fork {
		p.Foreseen, err = s.Starts.PreviewFork(ctx, id, p.fork())
	} else {
		p.Foreseen, err = s.Starts.PreviewResume(ctx, id, p.resume())
	}
	var wrong *control.Error
	switch {
	case errors.As(err, &wrong) && wrong.Kind != control.NotFound && wrong.Kind != control.Unavailable:
		p.Problem = err.Error()
	case err != nil:
		s.failed(w, r, err, sessionURL(id))
		return
	}
	p.Possible = p.Problem == "" && p.Foreseen.Unchanged == ""
	title := "Resume " + id
	if p.Fork {
		title = "Fork " + id
	}
	s.show(w, r, http.StatusOK, page{View: "next", Title: title, Tab: "sessions", Content: p})
}

// resumeNow resumes a session.
func (s *site) resumeNow(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("session")
	if _, err := s.Starts.Resume(r.Context(), id, nextOf(r).resume()); err != nil {
		s.failed(w, r, err, sessionURL(id)+"/resume")
		return
	}
	done(w, r, sessionURL(id), "resumed", id)
}

// forkNow starts a fork of a session.
func (s *site) forkNow(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("session")
	doc, err := s.Starts.Fork(repeatable(r), id, nextOf(r).fork())
	if err != nil {
		s.failed(w, r, err, sessionURL(id)+"/fork")
		return
	}
	done(w, r, sessionURL(doc.Session), "forked", doc.Session)
}

// editPage is the content of the page that edits a file of a finished phase.
type editPage struct {
	Session     session.Status
	Phase, Path string
	Text        string
	Problem     string
}

// maxEdited bounds a file that is edited in a page, in bytes.
const maxEdited = 256 << 10

// edit shows a file of a phase as text to edit.
func (s *site) edit(w http.ResponseWriter, r *http.Request) {
	ctx, id, q := r.Context(), r.PathValue("session"), r.URL.Query()
	p := editPage{Phase: q.Get("phase"), Path: q.Get("path")}
	v, err := s.Sessions.Read(ctx, id)
	if err != nil {
		s.failed(w, r, err, "/sessions")
		return
	}
	p.Session = v.Status
	doc, err := s.Reviews.DiffFile(ctx, control.FileDiffInput{Session: id, Which: p.Phase, Path: p.Path})
	if err != nil {
		s.failed(w, r, err, sessionURL(id))
		return
	}
	p.Text = doc.New.Text
	if !doc.New.Exists || doc.New.Binary || doc.New.TooLarge || doc.New.Link != "" || len(p.Text) > maxEdited || safetext.Block(p.Text) != p.Text {
		p.Text, p.Problem = "", "This file is no text that a page can edit. The command line takes any file: maestro resume "+id+" --edit "+p.Phase+"=PATH"
	}
	s.show(w, r, http.StatusOK, page{View: "edit", Title: "Edit " + p.Path, Tab: "sessions", Content: p})
}

// editNow stores an edited file, and leads to the preview of what runs with it.
func (s *site) editNow(w http.ResponseWriter, r *http.Request) {
	id, phase, path := r.PathValue("session"), r.PostFormValue("phase"), r.PostFormValue("path")
	text := unixLines(r.PostFormValue("text"))
	doc, err := s.Starts.Keep(r.Context(), control.Recipient{Session: id}, map[string]string{path: text})
	if err != nil {
		s.failed(w, r, err, sessionURL(id))
		return
	}
	next := url.Values{"edit": {phaseEdit{phase, doc.Workspace}.Value()}}
	lead(w, r, sessionURL(id)+"/resume?"+next.Encode())
}
