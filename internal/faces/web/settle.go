package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// UnsettledView are the calls of a session whose cost is not known.
type UnsettledView struct {
	Session string
	Calls   []control.OpenCall
	// Mine: the person who looks may settle them.
	Mine bool
}

// unsettled reads the calls of a session whose cost is not known; nil: there is none.
func (s *site) unsettled(ctx context.Context, v session.Status) *UnsettledView {
	if v.Unsettled == (cost.Usage{}) {
		return nil
	}
	doc, err := s.Money.Budgets(ctx, v.Session)
	if err != nil {
		return nil // the page has the rest
	}
	busy := map[spec.AssignmentID]bool{}
	for _, p := range v.Phases {
		for _, a := range p.Assignments {
			busy[spec.AssignmentID{Phase: p.Name, Persona: a.Persona}] = a.Status == session.Running && !v.Status.Closed()
		}
	}
	view := &UnsettledView{Session: v.Session, Mine: may(ctx, access.Operate, v.Team)}
	for _, call := range doc.Open {
		if call.State == state.CallUnsettled || !busy[call.AssignmentID] { // the others are in progress, as they should be
			view.Calls = append(view.Calls, call)
		}
	}
	return view
}

// settle is the form that says what one call has cost, or all of a session.
func (s *site) settle(r *http.Request) (page, error) {
	id := r.PathValue("session")
	as := control.Settlement{As: control.SettledAs(r.PostFormValue("as")), Note: strings.TrimSpace(r.PostFormValue("note"))}
	var err error
	if call := r.PostFormValue("call"); call == "all" {
		_, err = s.Money.SettleAll(r.Context(), id, as)
	} else {
		if as.As == control.SettledByCost {
			used, err := readUsage(r)
			if err != nil {
				return page{}, wrongInput("Please correct the cost", err)
			}
			as.Usage, as.Unpriced = used, r.PostFormValue("usd") == ""
		}
		_, err = s.Money.Settle(r.Context(), control.SettleInput{Session: id, Call: call, Body: as})
	}
	return done(sessionURL(id), "settled", id), err
}

// readUsage reads what a call has cost; nil if nothing is given.
func readUsage(r *http.Request) (*cost.Usage, error) {
	var used cost.Usage
	var err error
	if used.InputTokens, err = wholeNumber(r, "input", "input tokens", 1200); err != nil {
		return nil, err
	}
	if used.OutputTokens, err = wholeNumber(r, "output", "output tokens", 1200); err != nil {
		return nil, err
	}
	if err := readUSD(r, &used.CostUSD); err != nil {
		return nil, err
	}
	if used == (cost.Usage{}) && r.PostFormValue("usd") == "" {
		return nil, nil
	}
	return &used, nil
}

// wholeNumber reads a field of a form; zero if it is empty. An error has its name, and an example.
func wholeNumber(r *http.Request, field, name string, example int) (int64, error) {
	text := strings.ReplaceAll(strings.TrimSpace(r.PostFormValue(field)), ",", "")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: enter a whole number, like %d", name, example)
	}
	return n, nil
}

// readUSD reads an amount of money, if one was entered.
func readUSD(r *http.Request, to *cost.USD) error {
	text := strings.TrimSpace(r.PostFormValue("usd"))
	if text == "" {
		return nil
	}
	return to.UnmarshalJSON([]byte(text))
}

// raise is a form that raises a budget.
func (s *site) raise(r *http.Request) (page, error) {
	id := r.PathValue("session")
	raise := control.Raise{Note: strings.TrimSpace(r.PostFormValue("note"))}
	if err := readAmount(r, &raise); err != nil {
		return page{}, wrongInput("Please correct the amount", err)
	}
	_, err := s.Money.Raise(repeatable(r), id, raise)
	return done(returnTo(r), "raised", id), err
}

// readAmount reads what is added to a budget.
func readAmount(r *http.Request, raise *control.Raise) error {
	if err := readUSD(r, &raise.USD); err != nil {
		return err
	}
	var err error
	if raise.Tokens, err = wholeNumber(r, "tokens", "tokens", 500_000); err != nil {
		return err
	}
	if raise.USD <= 0 && raise.Tokens <= 0 {
		return errors.New("enter an amount in USD or in tokens that is more than 0")
	}
	scope := r.PostFormValue("scope")
	raise.Session = scope == budget.SessionScope
	raise.Phase, raise.Persona = budget.Part(scope)
	return nil
}
