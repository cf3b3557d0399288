package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Day is a team's daily budget, today.
type Day struct {
	Team string `json:"team"`
	// Date is the day, by UTC; EndsAt is when the next one begins.
	Date   string    `json:"date"`
	EndsAt time.Time `json:"ends_at"`
	// Cap is the team file's; Limit includes what was added for the day.
	Cap   spec.Cap `json:"cap"`
	Limit spec.Cap `json:"limit"`
	// Spent is the cost of calls that began on the day, Unsettled the estimates of those with
	// unknown cost, and Reserved what is reserved for calls in progress.
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled"`
	Reserved  cost.Amount `json:"reserved"`
	// Left has only the limited dimensions.
	Left BudgetLeft `json:"left"`
	// Sessions are those with spending or reservations on the day, sorted by name.
	Sessions []DaySession `json:"sessions"`
	// Raises are people's raises, and Warnings the thresholds that were reached.
	Raises   []budget.Raise   `json:"raises"`
	Warnings []budget.Warning `json:"warnings"`
}

// DaySession is a session's part of a day's spending.
type DaySession struct {
	Session   string      `json:"session"`
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled"`
	// UnsettledCalls is the number of calls with unknown cost.
	UnsettledCalls int         `json:"unsettled_calls"`
	Reserved       cost.Amount `json:"reserved"`
}

// DayRaise is a raise of a team's daily budget, for today only.
type DayRaise struct {
	Tokens int64    `json:"tokens,omitempty" minimum:"0" doc:"tokens to add"`
	USD    cost.USD `json:"usd,omitempty" doc:"dollars to add"`
	Note   string   `json:"note,omitempty" maxLength:"4096" doc:"why, for the record"`
}

// DayList is the daily budgets of teams, sorted by team.
type DayList struct {
	Days []Day `json:"days"`
}

// Budget is the day in the form of a budget.
func (d Day) Budget() Budget {
	return Budget{Scope: budget.DayScope, Cap: d.Limit, Spent: d.Spent, Unsettled: d.Unsettled, Reserved: d.Reserved, Left: d.Left}
}

// Day reads a team's daily budget.
func (m Money) Day(ctx context.Context, team string) (Day, error) {
	if err := invalid("team", spec.CheckName(team)); err != nil {
		return Day{}, err
	}
	if err := access.Check(ctx, access.View, team); err != nil {
		return Day{}, err
	}
	return m.day(ctx, team)
}

// Days lists the daily budgets of the teams that the caller may view, sorted by team.
func (m Money) Days(ctx context.Context) (DayList, error) {
	doc := DayList{Days: []Day{}}
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return doc, err
	}
	teams, err := m.Store.State.DayTeams(ctx)
	if err != nil {
		return doc, err
	}
	may := access.Visible(ctx)
	for _, team := range teams {
		if !may(team) {
			continue
		}
		day, err := m.day(ctx, team)
		if err != nil {
			return doc, err
		}
		doc.Days = append(doc.Days, day)
	}
	return doc, nil
}

// RaiseDay raises a team's daily budget for today. Sessions that wait for it continue.
func (m Money) RaiseDay(ctx context.Context, team string, r DayRaise) (day Day, err error) {
	if err := invalid("team", spec.CheckName(team)); err != nil {
		return day, err
	}
	id := cmp.Or(changeID(ctx, "raise-day", m.Namespace, team, r), rand.Text())
	event := access.Event{Action: "budget.raise", Team: team, Subject: budget.DayScope, Detail: raiseDetail(r.Tokens, r.USD, r.Note)}
	err = m.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		if r.Tokens < 0 || r.USD < 0 || r.Tokens == 0 && r.USD == 0 {
			return invalidf("tokens", "%d tokens and %s USD; give a positive amount to add", r.Tokens, r.USD)
		}
		day, err = m.day(ctx, team)
		switch {
		case err != nil:
			return err
		case r.Tokens > 0 && day.Cap.Tokens == 0:
			return invalidf("", "team %s has no daily budget of tokens", team)
		case r.USD > 0 && day.Cap.USD == 0:
			return invalidf("", "team %s has no daily budget of USD", team)
		}
		if _, err := m.Store.State.AddRaise(ctx, session.Key{}, budget.Raise{
			ID: id, Scope: budget.DayScope, Team: team, Added: cost.Amount{Tokens: r.Tokens, USD: r.USD},
			By: textfmt.Shorten(actor(ctx), session.MaxMessage), Note: textfmt.Shorten(r.Note, session.MaxMessage),
		}, ""); err != nil {
			return err
		}
		day, err = m.day(ctx, team)
		return err
	})
	return day, err
}

// raiseDetail is the text of a raise for the audit log.
func raiseDetail(tokens int64, usd cost.USD, note string) string {
	return strings.TrimSpace(fmt.Sprintf("%d tokens, %s USD. %s", tokens, usd, note))
}

// day reads a team's daily budget.
func (m Money) day(ctx context.Context, team string) (Day, error) {
	d, err := m.Store.State.Day(ctx, team)
	if errors.Is(err, session.ErrNotFound) {
		err = notFoundf("no session of team %q in the store has a daily budget; set one in the team file, like `budget: {daily: "+
			"{tokens: N}}`", team)
	}
	doc := Day{
		Team: d.Name, Date: d.Date, EndsAt: budget.NextDay(d.Date), Cap: d.Base, Limit: d.Cap,
		Spent: d.Spent, Unsettled: d.Unsettled, Reserved: d.Reserved, Left: leftOf(d.Budget),
		Sessions: []DaySession{}, Raises: append([]budget.Raise{}, d.Raises...), Warnings: append([]budget.Warning{}, d.Warnings...),
	}
	for _, s := range d.Sessions {
		doc.Sessions = append(doc.Sessions, DaySession{s.Session, s.Spent, s.Estimated, s.Unsettled, s.Reserved})
	}
	return doc, err
}
