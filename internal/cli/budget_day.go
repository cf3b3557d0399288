package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// dayDocument is the document of `budget show --team` and `budget raise --team`.
type dayDocument struct {
	Team string `json:"team"`
	// Date is the day, by UTC; EndsAt is when the next one begins.
	Date   string `json:"date"`
	EndsAt string `json:"ends_at"`
	// Cap is the team file's; Limit includes what was added for the day.
	Cap   spec.Cap `json:"cap"`
	Limit spec.Cap `json:"limit"`
	// Spent is what calls have cost that ended on the day, Unsettled the estimates of
	// those with unknown cost, and Reserved what is reserved for calls in
	// progress.
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled"`
	Reserved  cost.Amount `json:"reserved"`
	// Left has what is limited only.
	Left control.BudgetLeft `json:"left"`
	// Sessions have spent or reserved something on the day, sorted by name.
	Sessions []daySession `json:"sessions"`
	// Raises are people's raises, and Warnings the thresholds that were reached.
	Raises   []budget.Raise   `json:"raises"`
	Warnings []budget.Warning `json:"warnings"`
}

// daySession is a session's part of a day.
type daySession struct {
	Session   string      `json:"session"`
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled"`
	// UnsettledCalls is how many calls there are with unknown cost.
	UnsettledCalls int         `json:"unsettled_calls"`
	Reserved       cost.Amount `json:"reserved"`
}

// sessionOrTeam checks that a command gets a session or, with --team, a team.
func sessionOrTeam(name *string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if *name == "" {
			return cmdline.Arguments(1, 1)(cmd, args)
		}
		if len(args) > 0 {
			return usagef("SESSION and --team exclude each other; leave one out")
		}
		if err := spec.CheckName(*name); err != nil {
			return usagef("--team: %w", err)
		}
		return nil
	}
}

// day shows a team's daily budget.
func (c *budgetShow) day() error {
	s, namespace, err := c.inNamespace(c.openStore)
	if err != nil {
		return err
	}
	day, err := s.Day(namespace, c.team)
	if errors.Is(err, session.ErrNotFound) {
		return noDailyBudget(s, c.team)
	}
	if err != nil {
		return storeError(err)
	}
	return printDay(c.console, day)
}

// raiseDay raises a team's daily budget for today. It needs only the store.
func (c *budgetRaise) raiseDay(name string, r workflows.Raise) error {
	s, namespace, err := c.inNamespace(c.openStoreToWrite)
	if err != nil {
		return err
	}
	now := c.env.Now().UTC()
	var day budget.Day
	err = s.UpdateDay(namespace, name, func(d *budget.Day) error {
		if err := raisable(s, *d, r); err != nil {
			return err
		}
		d.Raise(budget.Raise{
			ID: fmt.Sprintf("%s/%d/%d", c.env.Host, c.env.PID, now.UnixNano()), Scope: budget.DayScope,
			By: textfmt.Shorten(r.By, session.MaxMessage), Note: textfmt.Shorten(r.Note, session.MaxMessage),
			Added: cost.Amount{Tokens: r.Tokens, USD: r.USD}, When: now,
		})
		day = *d
		return nil
	})
	if err != nil {
		return storeError(err)
	}
	c.printErr("daily budget of team %s: %s on %s; the raise ends at %s",
		name, terminal.Cap(day.Limit()), day.Date, budget.NextDay(day.Date).Format("2006-01-02 15:04 UTC"))
	return printDay(c.console, day)
}

// raisable rejects a raise of a budget that does not exist.
func raisable(s *store.Store, d budget.Day, r workflows.Raise) error {
	switch {
	case d.Cap == (spec.Cap{}):
		return noDailyBudget(s, d.Team)
	case r.Tokens > 0 && d.Cap.Tokens == 0:
		return usagef("team %s has no daily budget of tokens", d.Team)
	case r.USD > 0 && d.Cap.USD == 0:
		return usagef("team %s has no daily budget of USD", d.Team)
	}
	return nil
}

func noDailyBudget(s *store.Store, name string) error {
	return usagef("no session of team %q in the store in %s has a daily budget; set one in the team file, like `budget: {daily: {tokens: N}}`", name, s.Dir())
}

func printDay(c *console, d budget.Day) error {
	sum, left := d.Sum(), d.Left()
	doc := dayDocument{
		Team: d.Team, Date: d.Date, EndsAt: budget.NextDay(d.Date).Format("2006-01-02T15:04:05Z"),
		Cap: d.Cap, Limit: d.Limit(), Spent: sum.Spent, Unsettled: sum.Unsettled, Reserved: sum.Reserved,
		Sessions: []daySession{}, Raises: append([]budget.Raise{}, d.Raises...), Warnings: append([]budget.Warning{}, d.Warnings...),
	}
	for _, name := range slices.Sorted(maps.Keys(d.Rows)) {
		if r := d.Rows[name]; r != (budget.DayRow{}) {
			doc.Sessions = append(doc.Sessions, daySession{name, r.Spent, r.Unsettled, r.Calls, r.Reserved})
		}
	}
	if left.Tokens >= 0 {
		doc.Left.Tokens = &left.Tokens
	}
	if left.USD >= 0 {
		doc.Left.USD = &left.USD
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	c.print("team %s on %s (UTC), %s", safetext.Line(doc.Team), doc.Date, textfmt.Count(len(doc.Sessions), "session"))
	budgetTable(c.palette, []control.Budget{{
		Scope: budget.DayScope, Cap: doc.Limit, Spent: doc.Spent, Unsettled: doc.Unsettled, Reserved: doc.Reserved, Left: doc.Left,
	}}).Write(c.stdout)
	printHistory(c, doc.Raises, doc.Warnings)
	for _, s := range doc.Sessions {
		if s.UnsettledCalls > 0 {
			c.printErr("%s of session %s unsettled, estimated at %s: maestro budget show %s", textfmt.Count(s.UnsettledCalls, "call"), s.Session, terminal.Amount(s.Unsettled), s.Session)
		}
	}
	return nil
}
