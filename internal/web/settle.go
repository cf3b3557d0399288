package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/state"
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
func (s *site) settle(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("session")
	as := control.Settlement{As: control.SettledAs(r.PostFormValue("as")), Note: strings.TrimSpace(r.PostFormValue("note"))}
	var err error
	switch call := r.PostFormValue("call"); call {
	case "all":
		_, err = s.Money.SettleAll(r.Context(), id, as)
	default:
		if as.As == control.SettledByCost {
			used, err := readUsage(r)
			if err != nil {
				s.problem(w, r, problem{Status: http.StatusUnprocessableEntity, Title: "Please correct the cost", Text: err.Error(), Back: sessionURL(id)})
				return
			}
			as.Usage, as.Unpriced = used, r.PostFormValue("usd") == ""
		}
		_, err = s.Money.Settle(r.Context(), control.SettleInput{Session: id, Call: call, Body: as})
	}
	if err != nil {
		s.failed(w, r, err, sessionURL(id))
		return
	}
	done(w, r, sessionURL(id), "settled", id)
}

// readUsage reads what a call has cost; nil: nothing is given.
func readUsage(r *http.Request) (*cost.Usage, error) {
	var used cost.Usage
	for name, to := range map[string]*int64{"input": &used.InputTokens, "output": &used.OutputTokens} {
		text := strings.ReplaceAll(strings.TrimSpace(r.PostFormValue(name)), ",", "")
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New(name + " tokens: enter a whole number, like 1200")
		}
		*to = n
	}
	if usd := strings.TrimSpace(r.PostFormValue("usd")); usd != "" {
		if err := used.CostUSD.UnmarshalJSON([]byte(usd)); err != nil {
			return nil, err
		}
	}
	if used == (cost.Usage{}) && r.PostFormValue("usd") == "" {
		return nil, nil
	}
	return &used, nil
}
