package web

import (
	"crypto/rand"
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
	// Checkpoint is the one that the fork starts from; empty: the newest.
	Checkpoint string
	// Teams are the registered teams. Named is the chosen one, and File the text of a team file; Own is the text of the
	// session's own team, which is used if neither differs.
	Teams            []control.ListedTeam
	Named, File, Own string
	// Resume is what the person has chosen. A fork has only the phase to begin from.
	control.Resume
	Foreseen control.Foreseen
	// Possible: there is something to do.
	Possible bool
	Problem  string
	// Once is the key of the form's session: a form that is sent again starts no other one.
	Once string
}

// Forced reports whether a phase runs although it is finished.
func (p nextPage) Forced(phase string) bool { return slices.Contains(p.Force, phase) }

// Other reports whether another team is chosen.
func (p nextPage) Other() bool { return p.Team != (control.TeamInput{}) }

// fork is what the new session is to do.
func (p nextPage) fork() control.Fork {
	return control.Fork{From: p.From, As: p.As, Checkpoint: p.Checkpoint, Team: p.Team}
}

// nextOf reads what a form or an address asks for.
func (s *site) nextOf(r *http.Request, fork bool) nextPage {
	p := nextPage{
		Fork: fork, As: strings.TrimSpace(r.FormValue("as")), Checkpoint: r.FormValue("checkpoint"),
		Named: r.FormValue("team"), Once: rand.Text(),
	}
	p.From, p.Until, p.Force, p.Only = r.FormValue("from"), r.FormValue("until"), r.Form["force"], r.Form["only"]
	for _, text := range r.Form["edit"] {
		if phase, files, ok := strings.Cut(text, ":"); ok {
			if p.Edits == nil {
				p.Edits = map[string]spec.Digest{}
			}
			p.Edits[phase] = spec.Digest(files)
		}
	}
	own, err := s.Starts.TeamText(r.Context(), r.PathValue("session"))
	if err == nil && safetext.Block(own) == own { // a person edits only what can be seen
		p.Own = own
	}
	p.File = unixLines(r.FormValue("file"))
	if to := r.FormValue("to"); to != "" {
		p.deliver(s.Starts.Delivering(r.Context(), r.PathValue("session"), control.Deliver{
			To: to, Repository: strings.TrimSpace(r.FormValue("repository")), Base: strings.TrimSpace(r.FormValue("base")),
			Merge: spec.MergeMode(r.FormValue("merge")),
		}))
	}
	switch strings.TrimSpace(p.File) {
	case "", strings.TrimSpace(p.Own):
		p.File, p.Team.Name = p.Own, p.Named
	default:
		p.Team.File = p.File
	}
	return p
}

// deliver takes over the team and the phases of a delivery.
func (p *nextPage) deliver(next control.Resume, err error) {
	if err != nil {
		p.Problem = err.Error()
	}
	p.File, p.Only = next.Team.File, next.Only
}

// resume shows what resuming a session would do.
func (s *site) resume(r *http.Request) (page, error) { return s.next(r, s.nextOf(r, false)) }

// fork shows what forking a session would do.
func (s *site) fork(r *http.Request) (page, error) { return s.next(r, s.nextOf(r, true)) }

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
	teams, err := s.Teams.List(ctx)
	if err != nil && !unavailable(err) {
		return page{}, err
	}
	p.Teams = teams.Teams
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
	shown := page{View: "next", Title: title, Content: p}
	if p.Problem != "" && r.Method == http.MethodPost {
		shown.Status = http.StatusUnprocessableEntity
	}
	return shown, nil
}

// resumeNow resumes a session.
func (s *site) resumeNow(r *http.Request) (page, error) {
	return s.nextNow(r, s.nextOf(r, false), func(id string, p nextPage) (string, error) {
		_, err := s.Starts.Resume(r.Context(), id, p.Resume)
		return done(sessionURL(id), "resumed", id).Next, err
	})
}

// forkNow starts a fork of a session.
func (s *site) forkNow(r *http.Request) (page, error) {
	return s.nextNow(r, s.nextOf(r, true), func(id string, p nextPage) (string, error) {
		doc, err := s.Starts.Fork(repeatable(r), id, p.fork())
		return done(sessionURL(doc.Session), "forked", doc.Session).Next, err
	})
}

// nextNow does what the form says and leads to a page, or shows again what it would do: on request, and where it is refused.
func (s *site) nextNow(r *http.Request, p nextPage, do func(id string, p nextPage) (to string, err error)) (page, error) {
	if r.FormValue("action") == "preview" {
		return s.next(r, p)
	}
	to, err := do(r.PathValue("session"), p)
	if failedWith(err, control.Invalid, control.Conflict) {
		p.Problem = err.Error()
		return s.next(r, p)
	}
	return page{Next: to}, err
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
	text, ok, err := s.Reviews.Text(ctx, id, p.Phase, p.Path, maxEdited)
	if err != nil {
		return page{}, err
	}
	if p.Text = text; !ok || safetext.Block(text) != text {
		p.Text, p.Problem = "", "This file is no text that a page can edit. The command line takes any file: maestro resume "+id+
			" --edit "+p.Phase+"=PATH"
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
