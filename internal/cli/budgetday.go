package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/host"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/workflows"
)

// dayDocument is the document of `budget show --team` and `budget raise --team`.
type dayDocument struct {
	Team string `json:"team"`
	// Date is the day, by UTC; EndsAt is when the next one begins.
	Date   string `json:"date"`
	EndsAt string `json:"ends_at"`
	// Cap is the team file's; Limit includes what was added for the day.
	Cap   team.Cap `json:"cap"`
	Limit team.Cap `json:"limit"`
	// Granted is what sessions may spend, and Spent what they say of it that they
	// have spent.
	Granted team.Amount `json:"granted"`
	Spent   team.Amount `json:"spent"`
	// Left has what is limited only.
	Left budgetLeft `json:"left"`
	// Sessions have drawn on the day.
	Sessions int `json:"sessions"`
}

// sessionOrTeam checks that a command is told a session or, with --team, a team.
func sessionOrTeam(name *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if *name == "" {
			return arguments(1, 1)(cmd, args)
		}
		if len(args) > 0 {
			return usagef("give a session or --team, not both: a team's daily budget is that of all its sessions")
		}
		if err := team.CheckName(*name); err != nil {
			return usagef("--team: %w", err)
		}
		return nil
	}
}

// addTeamFlag lets a command of the group `budget` work on a team's day in place
// of a session.
func (a *app) addTeamFlag(cmd *cobra.Command, name *string, usage string) {
	cmd.Flags().StringVar(name, "team", "", usage)
}

// showDay shows what a team may spend today.
func (a *app) showDay(ctx context.Context, name string) error {
	return a.withDays(ctx, name, func(_ *host.Days, view budget.DayView) error { return a.printDay(view) })
}

// raiseDay adds to what a team may spend today.
func (a *app) raiseDay(ctx context.Context, name string, r workflows.RaiseDay) error {
	return a.withDays(ctx, name, func(days *host.Days, _ budget.DayView) error {
		bounded, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		id := fmt.Sprintf("cli/%s/%d/%d", a.env.Host, a.env.PID, a.env.Now().UnixNano())
		view, err := days.Raise(bounded, id, name, r)
		var refusal *temporal.ApplicationError
		switch {
		case errors.As(err, &refusal) && refusal.Type() == workflows.NotRaised:
			return usagef("team %s: %s", name, refusal.Message())
		case errors.As(err, &refusal):
			return failf("team %s: %s", name, refusal.Message())
		case ctx.Err() != nil:
			return ctx.Err()
		case unanswered(bounded, err):
			return failf("no worker has answered for the daily budget of team %s within %s; start one with `maestro worker`, which may still take this up: look with `maestro budget show --team %s` before you try again",
				name, answerPatience, name)
		case err != nil:
			return failf("%w", err)
		}
		a.say("team %s may spend %s on %s; the next day begins at %s without the raise",
			name, terminal.Cap(view.Limit), view.Date, budget.NextDay(view.Date).Format("2006-01-02 15:04 UTC"))
		return a.printDay(view)
	})
}

// withDays looks a team's day up, which somebody has to have drawn from.
func (a *app) withDays(ctx context.Context, name string, use func(*host.Days, budget.DayView) error) error {
	s, conn, err := a.both(ctx, a.openStore)
	if err != nil {
		return err
	}
	defer conn.Close()
	days := &host.Days{Temporal: conn.Client, Store: s.ID()}
	view, err := days.Read(ctx, name)
	if err != nil {
		return err
	}
	if view.Date == "" {
		return usagef("no session of team %q in the store in %s has drawn from a daily budget yet; a team has one if its file says `budget: {daily: {tokens: N}}`",
			name, s.Dir())
	}
	return use(days, view.At(a.env.Now()))
}

func (a *app) printDay(v budget.DayView) error {
	left := v.Left()
	doc := dayDocument{
		Team: v.Team, Date: v.Date, EndsAt: budget.NextDay(v.Date).Format("2006-01-02T15:04:05Z"),
		Cap: v.Cap, Limit: v.Limit, Granted: v.Granted, Spent: v.Spent, Sessions: v.Sessions,
	}
	if left.Tokens >= 0 {
		doc.Left.Tokens = &left.Tokens
	}
	if left.USD >= 0 {
		doc.Left.USD = &left.USD
	}
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	a.print("team %s on %s (UTC), %s", team.Printable(v.Team), v.Date, team.Count(v.Sessions, "session"))
	t := terminal.NewTable(a.palette)
	t.Head("LIMIT", "SPENT", "GRANTED BEYOND", "LEFT")
	if doc.Left.Tokens != nil {
		t.Add(terminal.Plain(terminal.Number(v.Limit.Tokens)+" tokens"), terminal.Plain(terminal.Figure(v.Spent.Tokens)), terminal.Plain(terminal.Figure(v.Granted.Tokens-v.Spent.Tokens)),
			terminal.Painted(terminal.Number(left.Tokens), leftColour(left.Tokens)))
	}
	if doc.Left.USD != nil {
		t.Add(terminal.Plain(v.Limit.USD.String()+" USD"), terminal.Plain(terminal.Dollars(v.Spent.USD)), terminal.Plain(terminal.Dollars(v.Granted.USD-v.Spent.USD)),
			terminal.Painted(left.USD.String(), leftColour(int64(left.USD))))
	}
	t.Write(a.env.Stdout)
	return nil
}
