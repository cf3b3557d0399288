package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// nextPage is the content of the pages that resume and fork a session: what is reused and what
// runs, before anything does.
type nextPage struct {
	Session session.Status
	// Fork: a new session begins from the work of this one. Its id is As; empty: one is chosen.
	Fork bool
	As   string
	// Resume is what the person has chosen. A fork has only the phase to begin from.
	control.Resume
	Foreseen control.Foreseen
	// Possible: there is something to do.
	Possible bool
	Problem  string
}

// Forced reports whether a phase runs although it is finished.
func (p nextPage) Forced(phase string) bool { return slices.Contains(p.Force, phase) }

// fork is what the new session is to do.
func (p nextPage) fork() control.Fork { return control.Fork{From: p.From, As: p.As} }

// nextOf reads what a form or an address asks for.
func nextOf(r *http.Request) nextPage {
	p := nextPage{As: strings.TrimSpace(r.FormValue("as"))}
	p.From, p.Until, p.Force = r.FormValue("from"), r.FormValue("until"), r.Form["force"]
	for _, text := range r.Form["edit"] {
		if phase, files, ok := strings.Cut(text, ":"); ok {
			if p.Edits == nil {
				p.Edits = map[string]spec.Digest{}
			}
			p.Edits[phase] = spec.Digest(files)
		}
	}
	return p
}

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
		p.Foreseen, err = s.Starts.PreviewResume(ctx, id, p.Resume)
	}
	switch {
	case failedWith(err, control.Invalid, control.Conflict):
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
	if _, err := s.Starts.Resume(r.Context(), id, nextOf(r).Resume); err != nil {
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
	next := url.Values{"edit": {phase + ":" + string(doc.Workspace)}}
	lead(w, r, sessionURL(id)+"/resume?"+next.Encode())
}
