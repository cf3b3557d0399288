package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
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
	// Redone: the work was sent back and done again, and Since: these are the changes since then.
	Redone, Since bool
	// Note is the id of the field to which comments on lines are added; empty: nobody can reject the work now.
	Note string
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

// fileKey names a file's element on a page.
func fileKey(path string) string { return "file-" + keyOf(path) }

// changes compares what the input names, as far as one page shows it.
func (s *site) changes(ctx context.Context, r *http.Request, in control.DiffInput) (Changes, error) {
	var c Changes
	f, file := filterOf(r, "from", "to", "with", "redone"), r.URL.Query().Get("file")
	doc, err := s.compared(ctx, in, file)
	if err != nil {
		return c, err
	}
	if file != "" {
		c.AllURL = f.With("file", "")
	}
	c.Before, c.After, c.Truncated, c.Damage = doc.Before, doc.After, doc.Truncated, doc.Damage.Damage
	for _, f := range doc.Files {
		c.Added, c.Removed = c.Added+f.Added, c.Removed+f.Removed
	}
	limits := diffview.Limits{Lines: maxDiffLines, FileLines: maxFileLines}
	if file != "" {
		limits.FileLines = maxDiffLines
	}
	for _, changed := range diffview.Read(doc.Files, limits) {
		alone := f.With("file", changed.Path)
		v := FileView{File: changed, Key: fileKey(changed.Path), URL: alone, RawURL: alone + "&raw=1"}
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
	if file != "" {
		return s.Reviews.DiffFile(ctx, in, file)
	}
	in.MaxFiles, in.MaxBytes = maxDiffFiles, maxDiffBytes
	return s.Reviews.Diff(ctx, in)
}

// patch is a file's patch, if a request asks for it as text; else nil.
func (s *site) patch(r *http.Request, in control.DiffInput) (*textFile, error) {
	q := r.URL.Query()
	if q.Get("raw") == "" || q.Get("file") == "" {
		return nil, nil
	}
	doc, err := s.Reviews.DiffFile(r.Context(), in, q.Get("file"))
	if err != nil {
		return nil, err
	}
	return &textFile{path.Base(doc.Files[0].Path) + ".patch", "text/plain", doc.Files[0].Diff}, nil
}

// phasePage is the content of a phase's review.
type phasePage struct {
	Session session.Status
	Phase   session.PhaseStatus
	// Asked is the requirement of the session.
	Asked   string
	Changes Changes
	Posts   []threadEntry
}

func (s *site) phase(r *http.Request) (page, error) {
	id, name := r.PathValue("session"), r.PathValue("phase")
	work, err := s.Attempts.Work(r.Context(), id)
	if err != nil && !unavailable(err) {
		return page{}, err
	}
	sentBack, _ := work.Checkpoint.Review(name)
	redone := !sentBack && work.Checkpoint.SentBackLast(name) != nil
	// what nobody has seen yet
	in := control.DiffInput{Session: id, Which: name, Redone: redone && r.URL.Query().Get("redone") != "0"}
	if patch, err := s.patch(r, in); patch != nil || err != nil {
		return page{File: patch}, err
	}
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	i := slices.IndexFunc(v.Phases, func(p session.PhaseStatus) bool { return p.Name == name })
	if i < 0 {
		text := "Session " + id + " has no phase " + name + "."
		return page{}, &problem{Status: http.StatusNotFound, Title: "Phase not found", Text: text}
	}
	content := phasePage{
		Session: v.Status, Phase: v.Phases[i],
		Asked: cmp.Or(work.Requirement, v.Requirement),
	}
	content.Posts = threadOf(id, ofPhase(work, name))
	content.Changes, err = s.changes(r.Context(), r, in)
	content.Changes.Redone, content.Changes.Since = redone, in.Redone
	switch {
	case failedWith(err, control.NotFound, control.Conflict) && r.URL.Query().Get("file") == "":
		content.Changes.None = "The phase has no finished work yet. Its changes are shown here when it has."
		if sentBack {
			content.Changes.None = "The work was sent back, and is done again with the reasons. Its changes are shown here when it is " +
				"finished."
		}
	case err != nil:
		return page{}, err
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
		if c.Phase == name && !c.Denied &&
			slices.ContainsFunc(c.Answers, func(b AnswerButton) bool { return b.Action == session.AnswerReject }) {
			content.Changes.Note = "note-" + c.Key
		}
	}
	return page{View: "phase", Title: name + " of " + id, Content: content}, nil
}

// comparePage is the content of a comparison.
type comparePage struct {
	Session session.Status
	filter
	// Sides are the checkpoints that can be chosen besides the phases, Others the sessions.
	Sides  []checkpointView
	Others []string
	// Costs are those of the phases of both sessions; empty: one session is compared with itself.
	Costs   []phaseCost
	Changes Changes
}

// phaseCost is what a phase has cost in two sessions.
type phaseCost struct {
	Phase     string
	Here, Far cost.Usage
}

// compare shows what differs between two phases or checkpoints, or two sessions.
func (s *site) compare(r *http.Request) (page, error) {
	id := r.PathValue("session")
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	content := comparePage{Session: v.Status, filter: filterOf(r, "from", "to", "with")}
	from, to := content.Get("from"), content.Get("to")
	in := control.DiffInput{Session: id, With: content.Get("with")}
	switch {
	case in.With != "":
		in.Which = to
	case from != "" || to != "":
		in.Which = from + ".." + to
	}
	if patch, err := s.patch(r, in); patch != nil || err != nil {
		return page{File: patch}, err
	}
	if list, err := s.Checkpoints.List(r.Context(), id); err == nil {
		content.Sides = checkpointViews(list.Checkpoints, v.Phases)
	}
	if list, err := s.Sessions.List(r.Context(), control.SessionFilter{Team: v.Team, Limit: pageSize}); err == nil {
		for _, other := range list.Sessions {
			if other.Session != id {
				content.Others = append(content.Others, other.Session)
			}
		}
	}
	if other, _, _ := strings.Cut(in.With, ":"); other != "" {
		far, err := s.Sessions.Read(r.Context(), other)
		if err != nil {
			return page{}, err
		}
		content.Costs = phaseCosts(v.Status, far.Status)
	}
	content.Changes, err = s.changes(r.Context(), r, in)
	return page{View: "compare", Title: "Changes of " + id, Content: content}, err
}

// phaseCosts has the phases of a session, and those that only another one has.
func phaseCosts(here, far session.Status) (costs []phaseCost) {
	for i, s := range []session.Status{here, far} {
		for _, p := range s.Phases {
			at := slices.IndexFunc(costs, func(c phaseCost) bool { return c.Phase == p.Name })
			if at < 0 {
				at = len(costs)
				costs = append(costs, phaseCost{Phase: p.Name})
			}
			sum := (&session.Status{Phases: []session.PhaseStatus{p}}).Sum()
			if i == 0 {
				costs[at].Here = sum
			} else {
				costs[at].Far = sum
			}
		}
	}
	return append(costs, phaseCost{"all", here.Usage, far.Usage})
}
