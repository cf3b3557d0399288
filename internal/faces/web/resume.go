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
func (s *site) resume(r *http.Request) (page, error) { return s.next(r, nextOf(r)) }

// fork shows what forking a session would do.
func (s *site) fork(r *http.Request) (page, error) {
	p := nextOf(r)
	p.Fork = true
	return s.next(r, p)
}

// next shows what a session would do next, before it does anything.
func (s *site) next(r *http.Request, p nextPage) (page, error) {
	ctx, id := r.Context(), r.PathValue("session")
	v, err := s.Sessions.Read(ctx, id)
	if err != nil {
		return page{}, err
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
		return page{}, err
	}
	p.Possible = p.Problem == "" && p.Foreseen.Unchanged == ""
	title := "Resume " + id
	if p.Fork {
		title = "Fork " + id
	}
	return page{View: "next", Title: title, Content: p}, nil
}

// resumeNow resumes a session.
func (s *site) resumeNow(r *http.Request) (page, error) {
	id := r.PathValue("session")
	_, err := s.Starts.Resume(r.Context(), id, nextOf(r).Resume)
	return done(sessionURL(id), "resumed", id), err
}

// forkNow starts a fork of a session.
func (s *site) forkNow(r *http.Request) (page, error) {
	doc, err := s.Starts.Fork(repeatable(r), r.PathValue("session"), nextOf(r).fork())
	return done(sessionURL(doc.Session), "forked", doc.Session), err
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
func (s *site) edit(r *http.Request) (page, error) {
	ctx, id, q := r.Context(), r.PathValue("session"), r.URL.Query()
	p := editPage{Phase: q.Get("phase"), Path: q.Get("path")}
	v, err := s.Sessions.Read(ctx, id)
	if err != nil {
		return page{}, err
	}
	p.Session = v.Status
	doc, err := s.Reviews.DiffFile(ctx, control.FileDiffInput{Session: id, Which: p.Phase, Path: p.Path})
	if err != nil {
		return page{}, err
	}
	p.Text = doc.New.Text
	if !doc.New.Exists || doc.New.Binary || doc.New.TooLarge || doc.New.Link != "" || len(p.Text) > maxEdited || safetext.Block(p.Text) != p.Text {
		p.Text, p.Problem = "", "This file is no text that a page can edit. The command line takes any file: maestro resume "+id+" --edit "+p.Phase+"=PATH"
	}
	return page{View: "edit", Title: "Edit " + p.Path, Content: p}, nil
}

// editNow stores an edited file, and leads to the preview of what runs with it.
func (s *site) editNow(r *http.Request) (page, error) {
	id, phase, path := r.PathValue("session"), r.PostFormValue("phase"), r.PostFormValue("path")
	text := unixLines(r.PostFormValue("text"))
	doc, err := s.Starts.Keep(r.Context(), control.Recipient{Session: id}, map[string]string{path: text})
	next := url.Values{"edit": {phase + ":" + string(doc.Workspace)}}
	return page{Next: sessionURL(id) + "/resume?" + next.Encode()}, err
}
