package web

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// operatePage is the content of the page of workers, agents, queues and breakers, of the budgets of
// the day and of the store.
type operatePage struct {
	workerpool.Roster
	Breakers []workerpool.Breaker
	Days     []DayView
	// Hooks are those of teams that the person is an admin of; nil: of none.
	Hooks *HooksView
	Store *control.StoreSize
	// Examined is the newest examination; nil: there is none yet, or the person may not see it.
	Examined *control.Examination
	// MayExamine: the person who looks may.
	MayExamine bool
	// Trouble says what could not be read.
	Trouble []string
	// Mine: the person who looks may change breakers.
	Mine bool
}

func (s *site) operate(r *http.Request) (page, error) {
	ctx := r.Context()
	content := operatePage{Mine: may(ctx, access.Operate, access.NoTeam)}
	var err error
	content.Roster, err = s.Pool.Workers(ctx)
	content.failed("Workers", err)
	content.readBudgets(ctx, s)
	content.readHooks(ctx, s)
	content.readHealth(ctx, s)
	breakers, err := s.Pool.Breakers(ctx)
	content.failed("Breakers", err)
	content.Breakers = breakers.Breakers
	return page{View: "operate", Title: "Operate", Content: content}, nil
}

// NearCaps counts the teams whose budget of the day is spent to 80 percent or more.
func (p operatePage) NearCaps() (n int) {
	for _, d := range p.Days {
		if slices.ContainsFunc(d.Rows, func(r BudgetRow) bool { return r.Near }) {
			n++
		}
	}
	return n
}

// NotClosed counts the breakers that let not every call through.
func (p operatePage) NotClosed() (n int) {
	for _, b := range p.Breakers {
		if b.State != session.BreakerClosed {
			n++
		}
	}
	return n
}

// Unpolled counts the queues that no worker polls.
func (p operatePage) Unpolled() (n int) {
	for _, q := range p.Queues {
		if len(q.Pollers) == 0 {
			n++
		}
	}
	return n
}

// failed notes why a part of the page cannot be read.
func (p *operatePage) failed(part string, err error) {
	if err != nil {
		p.Trouble = append(p.Trouble, part+": "+err.Error())
	}
}

// HooksView is the part of the page that has hooks, with the newest session of each.
type HooksView struct {
	Hooks  []access.Hook
	Newest map[string]state.Session
}

// readHooks reads the hooks of teams that the person is an admin of.
func (p *operatePage) readHooks(ctx context.Context, s *site) {
	doc, err := s.Hooks.List(ctx)
	if isDenied(err) {
		return
	}
	if err == nil {
		p.Hooks = &HooksView{Hooks: doc.Hooks}
		p.Hooks.Newest, err = s.Hooks.Newest(ctx, doc.Hooks)
	}
	p.failed("Hooks", err)
}

// setBreaker is the form that trips or resets a breaker.
func (s *site) setBreaker(r *http.Request) (page, error) {
	name, why := r.PathValue("breaker"), strings.TrimSpace(r.PostFormValue("why"))
	if r.PostFormValue("action") != "trip" {
		_, err := s.Pool.Reset(r.Context(), name, control.Reset{Why: why})
		return done("/operate", "reset", ""), err
	}
	trip := control.Trip{Why: why}
	if text := strings.TrimSpace(r.PostFormValue("for")); text != "" {
		if err := trip.For.UnmarshalText([]byte(text)); err != nil {
			return page{}, wrongInput("Please correct the input", err)
		}
	}
	_, err := s.Pool.Trip(r.Context(), name, trip)
	return done("/operate", "trip", ""), err
}
