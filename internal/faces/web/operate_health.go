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
	p.failed("Daily budgets", err)
	for _, d := range doc.Days {
		b := budget.Budget{
			Kind: session.BudgetOfDay, Name: d.Team, Cap: d.Limit, Spent: d.Spent, Unsettled: d.Unsettled,
			Reserved: d.Reserved,
		}
		p.Days = append(p.Days, DayView{Day: d, Mine: may(ctx, access.Operate, d.Team), Rows: budgetRows([]budget.Budget{b})})
	}
}

// readHealth reads what is known of the store and of the installation.
func (p *operatePage) readHealth(ctx context.Context, s *site) {
	bounded, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	if size, err := s.Health.Size(bounded); err == nil {
		p.Store = &size
	} else if !errors.Is(err, context.DeadlineExceeded) {
		p.failed("Store", err)
	}
	if p.MayExamine = may(ctx, access.View, access.AllTeams); !p.MayExamine {
		return
	}
	if doc, err := s.Health.Examine(bounded, control.ExamineInput{}); err == nil {
		p.Examined = &doc
	} else if !errors.Is(err, context.DeadlineExceeded) {
		p.failed("Examination", err)
	}
}

// examine is the button that examines the installation now.
func (s *site) examine(r *http.Request) (page, error) {
	_, err := s.Health.Examine(r.Context(), control.ExamineInput{Again: true})
	return done("/operate", "examined", ""), err
}

// raiseDay is the form that raises a team's daily budget.
func (s *site) raiseDay(r *http.Request) (page, error) {
	var amount control.Raise
	if err := readAmount(r, &amount); err != nil {
		return page{}, wrongInput("Please correct the amount", err)
	}
	raise := control.DayRaise{Tokens: amount.Tokens, USD: amount.USD, Note: strings.TrimSpace(r.PostFormValue("note"))}
	team := r.PathValue("team")
	_, err := s.Money.RaiseDay(repeatable(r), team, raise)
	return done("/operate", "day", team), err
}
