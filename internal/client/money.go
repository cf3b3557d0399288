package client

import (
	"context"
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
)

// Money is described with [control.Money].
type Money struct{ *Client }

// raised is what a budget is raised by.
type raised struct {
	Tokens  int64    `json:"tokens,omitempty"`
	USD     cost.USD `json:"usd,omitempty"`
	Persona string   `json:"persona,omitempty"`
	Phase   string   `json:"phase,omitempty"`
	Session bool     `json:"session,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// Budgets lists the budgets of a session, and its calls that have no known cost.
func (m Money) Budgets(ctx context.Context, sessionID string) (doc control.Budgets, err error) {
	return read[control.Budgets](ctx, m.Client, ofSession(sessionID, "budgets"), nil)
}

// Raise raises a budget of a running session. Who raises it is who the token is of.
func (m Money) Raise(ctx context.Context, sessionID string, r control.Raise) (doc control.Raised, err error) {
	by := raised{r.Tokens, r.USD, r.Persona, r.Phase, r.Session, r.Note}
	return change[control.Raised](ctx, m.Client, ofSession(sessionID, "budget", "raise"), by)
}

// Day reads a team's daily budget.
func (m Money) Day(ctx context.Context, team string) (control.Day, error) {
	return read[control.Day](ctx, m.Client, path("budgets", team), nil)
}

// RaiseDay raises a team's daily budget for today.
func (m Money) RaiseDay(ctx context.Context, team string, r control.DayRaise) (control.Day, error) {
	return change[control.Day](ctx, m.Client, path("budgets", team, "raise"), raised{Tokens: r.Tokens, USD: r.USD, Note: r.Note})
}

// Usage adds up what the sessions of the server's store have cost. Of the sessions' filter, only labels
// count.
func (m Money) Usage(ctx context.Context, f control.UsageFilter) (control.Usage, error) {
	query := summed(f.By, f.Since)
	for key, value := range f.Sessions.Labels {
		query.Add("label", key+"="+value)
	}
	return read[control.Usage](ctx, m.Client, "/usage", query)
}

// SessionUsage adds up what a session has cost, and lists its budgets.
func (m Money) SessionUsage(ctx context.Context, sessionID string, by []string, since string) (doc control.Usage, err error) {
	return read[control.Usage](ctx, m.Client, ofSession(sessionID, "usage"), summed(by, since))
}

// summed says how costs are added up.
func summed(by []string, since string) url.Values {
	query := url.Values{"format": {"json"}, "by": {strings.Join(by, ",")}}
	if since != "" {
		query.Set("from", since)
	}
	return query
}
