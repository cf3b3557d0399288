package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
)

// healthPatience is how long the page waits for what takes a while. It is shown when it is there.
const healthPatience = 1500 * time.Millisecond

// DayView is a team's daily budget on the page.
type DayView struct {
	control.Day
	Rows []BudgetRow
	// Waiting are the sessions that have calls with unknown cost.
	Waiting []control.DaySession
	// Mine: the person who looks may raise it.
	Mine bool
}

// ExaminationView is an examination on the page.
type ExaminationView struct {
	control.Examination
	Look
	// Wrong are the findings that are not ok, the bad ones first, and Fine the others.
	Wrong, Fine []FindingView
}

// FindingView is a finding on the page.
type FindingView struct {
	control.Finding
	Look
}

// readBudgets reads the daily budgets of the teams that the person may see.
func (p *operatePage) readBudgets(ctx context.Context, s *site) {
	doc, err := s.Money.Days(ctx)
	if err != nil {
		p.Trouble = append(p.Trouble, "Daily budgets: "+err.Error())
	}
	for _, d := range doc.Days {
		b := budget.Budget{Kind: session.BudgetOfDay, Name: d.Team, Cap: d.Limit, Spent: d.Spent, Unsettled: d.Unsettled, Reserved: d.Reserved}
		v := DayView{Day: d, Mine: may(ctx, access.Operate, d.Team), Rows: budgetRows([]budget.Budget{b})}
		for _, one := range d.Sessions {
			if one.UnsettledCalls > 0 {
				v.Waiting = append(v.Waiting, one)
			}
		}
		p.Days = append(p.Days, v)
	}
}

// readHealth reads what is known of the store and of the installation.
func (p *operatePage) readHealth(ctx context.Context, s *site) {
	bounded, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	size, err := s.Health.Size(bounded)
	switch {
	case err == nil:
		p.Store = &size
	case !errors.Is(err, context.DeadlineExceeded):
		p.Trouble = append(p.Trouble, "Store: "+err.Error())
	}
	p.MayExamine = may(ctx, access.View, access.AllTeams)
	if !p.MayExamine {
		return
	}
	doc, err := s.Health.Examine(bounded, control.ExamineInput{})
	switch {
	case err == nil:
		p.Examined = examinationOf(doc)
	case !errors.Is(err, context.DeadlineExceeded):
		p.Trouble = append(p.Trouble, "Examination: "+err.Error())
	}
}

func examinationOf(doc control.Examination) *ExaminationView {
	v := &ExaminationView{Examination: doc, Look: Look{"good", "check", "Sessions can run"}}
	for _, f := range doc.Findings {
		switch f.Result {
		case control.ResultBad:
			v.Wrong = append(v.Wrong, FindingView{f, Look{"bad", "cross", "Bad"}})
		case control.ResultWarning:
			v.Wrong = append(v.Wrong, FindingView{f, Look{"slow", "help", "Warning"}})
		default:
			v.Fine = append(v.Fine, FindingView{f, Look{"good", "check", "OK"}})
		}
	}
	slices.SortStableFunc(v.Wrong, func(a, b FindingView) int { return strings.Compare(a.Result, b.Result) })
	if !doc.OK {
		v.Look = Look{"bad", "cross", "Sessions cannot run"}
	}
	return v
}

// examine is the button that examines the installation now.
func (s *site) examine(w http.ResponseWriter, r *http.Request) {
	if _, err := s.Health.Examine(r.Context(), control.ExamineInput{Again: true}); err != nil {
		s.failed(w, r, err, "/operate")
		return
	}
	done(w, r, "/operate", "examined", "")
}

// raiseDay is the form that raises a team's daily budget.
func (s *site) raiseDay(w http.ResponseWriter, r *http.Request) {
	var amount control.Raise
	if err := readAmount(r, &amount); err != nil {
		s.problem(w, r, problem{Status: http.StatusUnprocessableEntity, Title: "Please correct the amount", Text: err.Error(), Back: "/operate"})
		return
	}
	team := r.PathValue("team")
	_, err := s.Money.RaiseDay(repeatable(r), team, control.DayRaise{Tokens: amount.Tokens, USD: amount.USD, Note: strings.TrimSpace(r.PostFormValue("note"))})
	if err != nil {
		s.failed(w, r, err, "/operate")
		return
	}
	done(w, r, "/operate", "day", team)
}
