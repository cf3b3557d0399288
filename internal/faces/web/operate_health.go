package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// healthPatience is how long the page waits for what takes a while. It is shown when it is there.
const healthPatience = 1500 * time.Millisecond

// DayView is a team's daily budget on the page.
type DayView struct {
	control.Day
	Rows []BudgetRow
	// Mine: the person who looks may raise it.
	Mine bool
}

// readBudgets reads the daily budgets of the teams that the person may see.
func (p *operatePage) readBudgets(ctx context.Context, s *site) {
	doc, err := s.Money.Days(ctx)
	if err != nil {
		p.Trouble = append(p.Trouble, "Daily budgets: "+err.Error())
	}
	for _, d := range doc.Days {
		b := budget.Budget{Kind: session.BudgetOfDay, Name: d.Team, Cap: d.Limit, Spent: d.Spent, Unsettled: d.Unsettled, Reserved: d.Reserved}
		p.Days = append(p.Days, DayView{Day: d, Mine: may(ctx, access.Operate, d.Team), Rows: budgetRows([]budget.Budget{b})})
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
		p.Examined = &doc
	case !errors.Is(err, context.DeadlineExceeded):
		p.Trouble = append(p.Trouble, "Examination: "+err.Error())
	}
}

// lookOfResult is the look of a finding, and of an examination as a whole.
func lookOfResult(result string) Look {
	switch result {
	case control.ResultBad:
		return Look{"bad", "cross", "Bad"}
	case control.ResultWarning:
		return Look{"slow", "help", "Warning"}
	}
	return Look{"good", "check", "OK"}
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
