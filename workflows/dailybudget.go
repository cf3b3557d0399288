package workflows

import (
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// DailyBudgetName is the wire name of [DailyBudget].
const DailyBudgetName = "daily-budget"

// DailyBudgetID is the workflow id of a team's daily budget. There is one for all
// sessions of the team in one store.
func DailyBudgetID(store, name string) string { return "budget/" + store + "/" + name }

// The updates and the query of a daily budget.
const (
	// DrawUpdate takes a [budget.Draw] and answers with a [budget.Drawing].
	DrawUpdate = "draw"
	// RaiseDayUpdate takes a [RaiseDay] and answers with a [budget.DayView].
	RaiseDayUpdate = "raise-day"
	// DayQuery answers with the [budget.Day], grants by session included.
	DayQuery = "day"
)

// MemoDay is where a daily budget's memo has its [budget.DayView].
const MemoDay = "day"

// RaiseDay adds to a team's budget for the day that it is, and for no other.
type RaiseDay struct {
	// Tokens and USD are what is added.
	Tokens int64    `json:"tokens,omitempty"`
	USD    team.USD `json:"usd,omitempty"`
	// By is who says so; Note is why.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// DailyBudgetInput is all that a daily budget starts from, and continues as new
// with.
type DailyBudgetInput struct {
	Store string     `json:"store"`
	Team  string     `json:"team"`
	Day   budget.Day `json:"day"`
}

// DailyBudget is what a team may spend in a day, over all its sessions in a store.
//
// It changes by updates only. What an update that was acknowledged has left is in
// the memo, where it can be read without a worker. A draw that is sent again, even
// to a later run, is granted once, because it says what the session needs in all;
// so is a raise, because it is known by its id. The workflow never completes: when
// its history has grown it continues as new between two updates.
func DailyBudget(ctx workflow.Context, in DailyBudgetInput) error {
	d := &dailyBudget{DailyBudgetInput: in}
	d.shown = d.Day.View(d.Team)
	if err := d.handle(ctx); err != nil {
		return err
	}
	err := workflow.Await(ctx, func() bool {
		return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx)
	})
	if err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, DailyBudgetName, d.DailyBudgetInput)
}

// dailyBudget is a running one.
type dailyBudget struct {
	DailyBudgetInput
	// shown is what the memo has.
	shown budget.DayView
}

func (d *dailyBudget) handle(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, DayQuery, func() (budget.Day, error) { return d.Day, nil },
		workflow.QueryHandlerOptions{Description: "What the team may spend on the last day on which a session asked, and who was granted how much of it."})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, DrawUpdate, d.draw, workflow.UpdateHandlerOptions{
		Validator: d.drawable, Description: "Asks for a part of the day, or gives some back; sent by workers.",
	})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, RaiseDayUpdate, d.raise, workflow.UpdateHandlerOptions{
		Validator: d.raisable,
		Description: `Adds to what the team may spend today, by UTC; sessions that have parked because that is spent go on. ` +
			`Paste {"tokens": 50000, "usd": 1.5, "by": "your name"}.`,
	})
}

func (d *dailyBudget) draw(ctx workflow.Context, r budget.Draw) (out budget.Drawing, err error) {
	d.Day, out = d.Day.Draw(r, workflow.Now(ctx))
	return out, d.show(ctx)
}

func (d *dailyBudget) raise(ctx workflow.Context, r RaiseDay) (budget.DayView, error) {
	now := workflow.Now(ctx).UTC()
	d.Day = d.Day.Raise(budget.Raise{
		ID: workflow.GetCurrentUpdateInfo(ctx).ID, Scope: budget.DayScope, By: team.Shorten(r.By, team.MaxMessage),
		Note: team.Shorten(r.Note, team.MaxMessage), Added: team.Amount{Tokens: r.Tokens, USD: r.USD}, When: now,
	}, now)
	err := d.show(ctx)
	return d.shown, err
}

// show brings the memo up to date, in the same step that acknowledges the update.
func (d *dailyBudget) show(ctx workflow.Context) error {
	view := d.Day.View(d.Team)
	if view == d.shown {
		return nil
	}
	d.shown = view
	return workflow.UpsertMemo(ctx, map[string]any{MemoDay: view})
}

// drawable refuses what no session asks.
func (d *dailyBudget) drawable(r budget.Draw) error {
	negative := func(a team.Amount) bool { return a.Tokens < 0 || a.USD < 0 }
	switch {
	case r.Session == "":
		return notDrawn("it names no session")
	case r.Cap == (team.Cap{}) || r.Cap.Tokens < 0 || r.Cap.USD < 0:
		return notDrawn("it names no cap")
	case negative(r.Spent) || negative(r.Reserved) || negative(r.Want) || negative(r.Least) || r.Serial < 0:
		return notDrawn("an amount is negative")
	}
	return nil
}

func notDrawn(why string) error {
	return temporal.NewApplicationErrorWithOptions("nothing is drawn: "+why, "NotDrawn",
		temporal.ApplicationErrorOptions{NonRetryable: true})
}

// raisable refuses what would add nothing.
func (d *dailyBudget) raisable(r RaiseDay) error {
	var none []string
	if r.Tokens > 0 && d.Day.Cap.Tokens == 0 {
		none = append(none, "tokens")
	}
	if r.USD > 0 && d.Day.Cap.USD == 0 {
		none = append(none, "USD")
	}
	switch {
	case r.Tokens < 0 || r.USD < 0:
		return notRaised("a budget can only be raised; give positive numbers")
	case r.Tokens == 0 && r.USD == 0:
		return notRaised("it says neither tokens nor usd")
	case d.Day.Cap == (team.Cap{}):
		return notRaised("no session of team " + d.Team + " has drawn from a daily budget yet")
	case len(none) > 0:
		return notRaised("team " + d.Team + " has no daily budget of " + strings.Join(none, " and "))
	}
	return nil
}
