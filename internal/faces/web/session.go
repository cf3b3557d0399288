package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// sessionPage is the content of a session's page.
type sessionPage struct {
	sessionstatus.Session
	Sentence Sentence
	Graph    Graph
	Timeline Timeline
	Did      []sessionstatus.Intervention
	Budgets  []BudgetRow
	Open     *UnsettledView
	Cards    []RequestCard
	// Newest are the alerts, the newest first.
	Newest []session.Alert
	Said   string
	// MayCancel: the person who looks may end it, and it has not ended.
	MayCancel bool
	// MayStart: they may resume and fork it.
	MayStart bool
	Now      time.Time
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
		Session: v, Sentence: sentenceOf(v.Status, now), Graph: graphOf(v.Status, work.Phases), Said: said(r),
		Cards: s.cardsOf(r.Context(), v.Status, sessionURL(id)), Now: now, Newest: slices.Clone(v.Alerts),
		Timeline: timelineOf(Course{v.Status, work}, now), Budgets: budgetRows(work.Budgets),
		Did:       work.Interventions,
		MayStart:  may(r.Context(), access.Operate, v.Team),
		MayCancel: !v.Status.Status.Closed() && may(r.Context(), access.Operate, v.Team),
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

// cancel is the form that ends a session.
func (s *site) cancel(r *http.Request) (page, error) {
	id := r.PathValue("session")
	_, err := s.Sessions.Cancel(r.Context(), id)
	return done(sessionURL(id), "cancel", id), err
}
