package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// sessionPage is the content of a session's page.
type sessionPage struct {
	sessionstatus.Session
	// Asked is the requirement.
	Asked    string
	Sentence Sentence
	Graph    Graph
	Timeline Timeline
	Posts    []threadEntry
	// Result is what a completed session has made; nil for others.
	Result  *resultView
	Budgets []BudgetRow
	Open    *UnsettledView
	Cards   []RequestCard
	// Newest are the alerts, the newest first.
	Newest []session.Alert
	// MayCancel: the person who looks may end it, and it has not ended.
	MayCancel bool
	// MayStart: they may resume and fork it.
	MayStart bool
	// Attempts counts those of all assignments.
	Attempts int
}

func (s *site) session(r *http.Request) (page, error) {
	id := r.PathValue("session")
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	work, err := s.Attempts.Work(r.Context(), id)
	if err != nil && !unavailable(err) {
		return page{}, err
	}
	now := s.Now()
	control.AddTimes(&v.Status, work.Attempts, now)
	content := sessionPage{
		Session: v, Asked: cmp.Or(work.Requirement, v.Requirement), Sentence: sentenceOf(v.Status, now),
		Graph: graphOf(v.Status, work.Phases),
		Cards: s.cardsOf(r.Context(), v.Status, sessionURL(id)), Newest: slices.Clone(v.Alerts),
		Timeline: timelineOf(Course{v.Status, work}, now), Budgets: budgetRows(work.Budgets),
		Posts:     threadOf(id, work),
		MayStart:  may(r.Context(), access.Operate, v.Team),
		MayCancel: !v.Status.Status.Closed() && may(r.Context(), access.Operate, v.Team),
	}
	if v.Status.Status == session.Completed {
		content.Result = s.resultOf(r.Context(), id)
	}
	if content.Result != nil && content.MayStart && !v.Delivers() {
		content.Result.Agents, _ = s.Starts.DeliveryAgents(r.Context()) // without them the page has no form
	}
	slices.Reverse(content.Newest)
	content.Open = s.unsettled(r.Context(), v.Status)
	for _, p := range v.Phases {
		for _, a := range p.Assignments {
			content.Attempts += a.Attempts
		}
	}
	return page{View: "session", Title: id, Content: content}, nil
}

// resultView is what a session has made.
type resultView struct {
	Changes
	// URL is the page of all changes.
	URL, PatchURL, ArchiveURL, Command string
	// Agents may deliver it as a pull request, by the form of DeliverURL.
	Agents     []string
	DeliverURL string
}

// resultOf reads what a session has made; nil if that is not at hand.
func (s *site) resultOf(ctx context.Context, id string) *resultView {
	doc, err := s.Reviews.Diff(ctx, control.DiffInput{Session: id, Stat: true, MaxFiles: maxDiffFiles})
	if err != nil {
		return nil // the page has the rest
	}
	api := "/api/v1" + sessionURL(id)
	v := &resultView{
		URL: sessionURL(id) + "/changes", PatchURL: api + "/patch", ArchiveURL: api + "/archive",
		Command: "maestro apply " + id, DeliverURL: sessionURL(id) + "/resume",
	}
	v.Truncated = doc.Truncated
	for _, f := range doc.Files {
		v.Added, v.Removed = v.Added+f.Added, v.Removed+f.Removed
		file := FileView{Key: fileKey(f.Path)}
		file.ChangedFile = f
		v.Files = append(v.Files, file)
	}
	return v
}

// cancel is the form that ends a session.
func (s *site) cancel(r *http.Request) (page, error) {
	id := r.PathValue("session")
	_, err := s.Sessions.Cancel(r.Context(), id)
	return done(sessionURL(id), "cancel", id), err
}
