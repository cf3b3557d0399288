package web

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/web/diffview"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// The bounds of a difference on one page. Files beyond them have a page of their own.
const (
	maxDiffFiles = 1000
	maxDiffBytes = 4 << 20
	maxDiffLines = 8000
	maxFileLines = 3000
)

// Changes is a difference on a page.
type Changes struct {
	Before, After  string
	Files          []FileView
	Added, Removed int
	// Truncated: there are more files than the page lists.
	Truncated bool
	// AllURL leads to all files; empty if all are shown.
	AllURL string
	// Damage says what cannot be read.
	Damage string
	// Cards are the open requests about it.
	Cards []RequestCard
	// None says why there is nothing to compare; empty: there is.
	None string
}

// FileView is a file of it.
type FileView struct {
	diffview.File
	Key string
	// URL is the page of the file alone, RawURL its patch as text.
	URL, RawURL string
	// EditURL edits the file and goes on from there; empty: that is not possible now.
	EditURL string
}

// changes compares what the input names, as far as one page shows it.
func (s *site) changes(ctx context.Context, r *http.Request, in control.DiffInput) (Changes, error) {
	q := r.URL.Query()
	var c Changes
	file := q.Get("file")
	link := func(file string) string {
		next := url.Values{}
		for _, name := range []string{"from", "to", "with"} {
			if v := q.Get(name); v != "" {
				next.Set(name, v)
			}
		}
		if file != "" {
			next.Set("file", file)
		}
		return "?" + next.Encode()
	}
	doc, err := s.compared(ctx, in, file)
	if err != nil {
		return c, err
	}
	if file != "" {
		c.AllURL = link("")
	}
	c.Before, c.After, c.Truncated, c.Damage = doc.Before, doc.After, doc.Truncated, doc.Damage.Damage
	for _, f := range doc.Files {
		c.Added, c.Removed = c.Added+f.Added, c.Removed+f.Removed
	}
	limits := diffview.Limits{Lines: maxDiffLines, FileLines: maxFileLines}
	if file != "" {
		limits.FileLines = maxDiffLines
	}
	for _, f := range diffview.Read(doc.Files, limits) {
		v := FileView{File: f, Key: "file-" + keyOf(f.Path), URL: link(f.Path), RawURL: link(f.Path) + "&raw=1"}
		if file != "" {
			v.Folded = ""
		}
		if v.Omitted {
			v.Notes = nil
		}
		c.Files = append(c.Files, v)
	}
	return c, nil
}

// compared is the difference of all files, or of one.
func (s *site) compared(ctx context.Context, in control.DiffInput, file string) (control.Diff, error) {
	if file == "" {
		in.MaxFiles, in.MaxBytes = maxDiffFiles, maxDiffBytes
		return s.Reviews.Diff(ctx, in)
	}
	doc, err := s.Reviews.DiffFile(ctx, in.File(file))
	return control.Diff{Session: doc.Session, Before: doc.Before, After: doc.After, Files: []control.ChangedFile{doc.ChangedFile}}, err
}

// raw writes a file's patch as text, if it is asked for.
func (s *site) raw(w http.ResponseWriter, r *http.Request, in control.DiffInput) bool {
	q := r.URL.Query()
	if q.Get("raw") == "" || q.Get("file") == "" {
		return false
	}
	doc, err := s.Reviews.DiffFile(r.Context(), in.File(q.Get("file")))
	if err != nil {
		s.failed(w, r, err, r.URL.Path)
		return true
	}
	protect(w.Header())
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": safetext.Portable(path.Base(doc.Path) + ".patch")}))
	_, _ = w.Write([]byte(doc.Diff))
	return true
}

// phasePage is the content of a phase's review.
type phasePage struct {
	Session session.Status
	Phase   session.PhaseStatus
	Changes Changes
	Said    string
	Now     time.Time
}

func (s *site) phase(w http.ResponseWriter, r *http.Request) {
	id, name := r.PathValue("session"), r.PathValue("phase")
	in := control.DiffInput{Session: id, Which: name}
	if s.raw(w, r, in) {
		return
	}
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		s.failed(w, r, err, "/sessions")
		return
	}
	i := slices.IndexFunc(v.Phases, func(p session.PhaseStatus) bool { return p.Name == name })
	if i < 0 {
		s.problem(w, r, problem{Status: http.StatusNotFound, Title: "Phase not found", Text: "Session " + id + " has no phase " + name + ".", Back: sessionURL(id)})
		return
	}
	content := phasePage{Session: v.Status, Phase: v.Phases[i], Said: said(r), Now: s.Now()}
	content.Changes, err = s.changes(r.Context(), r, in)
	switch {
	case failedWith(err, control.NotFound, control.Conflict) && r.URL.Query().Get("file") == "":
		content.Changes.None = "The phase has no finished work yet. Its changes are shown here when it has."
	case err != nil:
		s.failed(w, r, err, sessionURL(id))
		return
	}
	if v.Status.Status.Closed() && may(r.Context(), access.Operate, v.Team) {
		for i, f := range content.Changes.Files {
			if f.Change != "removed" && !f.Binary {
				content.Changes.Files[i].EditURL = sessionURL(id) + "/edit?" + url.Values{"phase": {name}, "path": {f.Path}}.Encode()
			}
		}
	}
	for _, c := range s.cardsOf(r.Context(), v.Status, phaseURL(id, name)) {
		if c.Review = true; c.Phase == name {
			content.Changes.Cards = append(content.Changes.Cards, c)
		}
	}
	s.show(w, r, http.StatusOK, page{View: "phase", Title: name + " of " + id, Tab: "sessions", Content: content})
}

// comparePage is the content of a comparison.
type comparePage struct {
	Session        session.Status
	From, To, With string
	Changes        Changes
}

// compare shows what differs between two phases, or two sessions.
func (s *site) compare(w http.ResponseWriter, r *http.Request) {
	id, q := r.PathValue("session"), r.URL.Query()
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		s.failed(w, r, err, "/sessions")
		return
	}
	content := comparePage{Session: v.Status, From: q.Get("from"), To: q.Get("to"), With: q.Get("with")}
	in := control.DiffInput{Session: id, With: content.With}
	switch {
	case content.With != "":
		in.Which = content.To
	case content.From != "" || content.To != "":
		in.Which = content.From + ".." + content.To
	}
	if s.raw(w, r, in) {
		return
	}
	if content.Changes, err = s.changes(r.Context(), r, in); err != nil {
		s.failed(w, r, err, sessionURL(id))
		return
	}
	s.show(w, r, http.StatusOK, page{View: "compare", Title: "Changes of " + id, Tab: "sessions", Content: content})
}
