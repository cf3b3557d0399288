package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
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
	Said    string
	// Mine: the person who looks may change breakers.
	Mine bool
	Now  time.Time
}

func (s *site) operate(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	content := operatePage{Said: said(r), Now: s.Now(), Mine: may(ctx, access.Operate, access.NoTeam)}
	var err error
	if content.Roster, err = s.Pool.Workers(ctx); err != nil {
		content.Trouble = append(content.Trouble, "Workers: "+err.Error())
	}
	content.readBudgets(ctx, s)
	content.readHooks(ctx, s)
	content.readHealth(ctx, s)
	breakers, err := s.Pool.Breakers(ctx)
	if err != nil {
		content.Trouble = append(content.Trouble, "Breakers: "+err.Error())
	}
	content.Breakers = breakers.Breakers
	s.show(w, r, http.StatusOK, page{View: "operate", Title: "Operate", Tab: "operate", Content: content})
}

// HooksView is the part of the page that has hooks, with the newest session of each.
type HooksView struct {
	Hooks  []access.Hook
	Newest map[string]state.Session
}

// readHooks reads the hooks of teams that the person is an admin of.
func (p *operatePage) readHooks(ctx context.Context, s *site) {
	doc, err := s.Hooks.List(ctx)
	if _, denied := errors.AsType[*access.DeniedError](err); denied {
		return
	}
	view := &HooksView{Hooks: doc.Hooks}
	if err == nil {
		p.Hooks = view
		view.Newest, err = s.Hooks.Newest(ctx, doc.Hooks)
	}
	if err != nil {
		p.Trouble = append(p.Trouble, "Hooks: "+err.Error())
	}
}

// lookOfBreaker is the look of a breaker's state.
func lookOfBreaker(s session.BreakerState) Look {
	switch s {
	case session.BreakerIsOpen:
		return Look{"bad", "breaker", "Open"}
	case session.BreakerHalfOpen:
		return Look{"slow", "clock", "Probing"}
	case session.BreakerClosed:
	}
	return Look{"good", "check", "Closed"}
}

// setBreaker is the form that trips or resets a breaker.
func (s *site) setBreaker(w http.ResponseWriter, r *http.Request) {
	name, why := r.PathValue("breaker"), strings.TrimSpace(r.PostFormValue("why"))
	what, err := "reset", error(nil)
	if r.PostFormValue("action") == "trip" {
		what = "trip"
		request := control.Trip{Why: why}
		if text := strings.TrimSpace(r.PostFormValue("for")); text != "" {
			var d textfmt.Duration
			if err := d.UnmarshalText([]byte(text)); err != nil {
				s.problem(w, r, problem{Status: http.StatusUnprocessableEntity, Title: "Please correct the input", Text: err.Error(), Back: "/operate"})
				return
			}
			request.For = d
		}
		_, err = s.Pool.Trip(r.Context(), name, request)
	} else {
		_, err = s.Pool.Reset(r.Context(), name, control.Reset{Why: why})
	}
	if err != nil {
		s.failed(w, r, err, "/operate")
		return
	}
	done(w, r, "/operate", what, "")
}
