package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// budgetDocument is the document of `budget show -o json`.
type budgetDocument struct {
	Session string       `json:"session"`
	Budgets []budgetLine `json:"budgets"`
	// Raises are people's raises, and Warnings the thresholds that were reached,
	// oldest first.
	Raises   []budget.Raise   `json:"raises"`
	Warnings []budget.Warning `json:"warnings"`
	// Open are the calls whose cost is unknown, or not known yet.
	Open []openCall `json:"open"`
}

// budgetLine is a budget as documents have it.
type budgetLine struct {
	Scope     string      `json:"scope"`
	Cap       spec.Cap    `json:"cap"`
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled"`
	Reserved  cost.Amount `json:"reserved"`
	// Left has what is limited only.
	Left budgetLeft `json:"left"`
}

type budgetLeft struct {
	Tokens *int64    `json:"tokens,omitempty"`
	USD    *cost.USD `json:"usd,omitempty"`
}

// openCall is a call that has no known cost.
type openCall struct {
	spec.AssignmentID
	// Call is the number by which `budget settle` takes it.
	Call int64 `json:"call"`
	// State is unsettled, or begun while it is in flight.
	State    budget.Kind     `json:"state"`
	Agent    string          `json:"agent"`
	Model    string          `json:"model,omitempty"`
	Key      session.CallKey `json:"key"`
	BeganAt  time.Time       `json:"began_at"`
	Estimate cost.Usage      `json:"estimate"`
}

func newBudget(a *app) *cobra.Command {
	return group("budget", "Show and raise budgets, and settle calls with unknown cost",
		newBudgetShow(a), newBudgetRaise(a), newBudgetSettle(a))
}

// budgetShow is `budget show`.
type budgetShow struct {
	*console
	*storeOpener
	team string
}

func newBudgetShow(a *app) *cobra.Command {
	c := budgetShow{console: a.console, storeOpener: a.storeOpener}
	cmd := &cobra.Command{
		Use:   "show (SESSION | --team TEAM)",
		Short: "Show a session's budgets and its calls with unknown cost, or a team's daily budget",
		Long: "Show a session's budgets, what is left of them, and the calls with unknown cost. " +
			"With --team, show the team's daily budget (UTC) over all its sessions in the store. This needs neither a worker nor Temporal.",
		Args: sessionOrTeam(&c.team),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.team != "" {
				return c.day()
			}
			return c.session(args[0])
		},
	}
	cmd.Flags().StringVar(&c.team, "team", "", "show the daily budget of this team")
	a.addSessionFlags(cmd)
	return cmd
}

// budgetLines lists a ledger's budgets.
func budgetLines(l budget.Ledger) []budgetLine {
	lines := []budgetLine{}
	for _, b := range l.Budgets() {
		line := budgetLine{Scope: b.Scope, Cap: b.Cap, Spent: b.Spent, Unsettled: b.Unsettled, Reserved: b.Reserved}
		if b.Left.Tokens >= 0 {
			line.Left.Tokens = &b.Left.Tokens
		}
		if b.Left.USD >= 0 {
			line.Left.USD = &b.Left.USD
		}
		lines = append(lines, line)
	}
	return lines
}

// budgetTable has a row for each dimension that a budget limits.
func budgetTable(p terminal.Palette, lines []budgetLine) *terminal.Table {
	t := terminal.NewTable(p)
	t.Head("BUDGET", "LIMIT", "SPENT", "UNSETTLED", "RESERVED", "LEFT")
	for _, b := range lines {
		if left := b.Left.Tokens; left != nil {
			t.Add(terminal.Plain(b.Scope), terminal.Plain(terminal.Number(b.Cap.Tokens)+" tokens"), terminal.Plain(terminal.Figure(b.Spent.Tokens)), terminal.Plain(terminal.Figure(b.Unsettled.Tokens)),
				terminal.Plain(terminal.Figure(b.Reserved.Tokens)), terminal.Painted(terminal.Number(*left), leftColour(*left)))
		}
		if left := b.Left.USD; left != nil {
			t.Add(terminal.Plain(b.Scope), terminal.Plain(b.Cap.USD.String()+" USD"), terminal.Plain(terminal.Dollars(b.Spent.USD)), terminal.Plain(terminal.Dollars(b.Unsettled.USD)),
				terminal.Plain(terminal.Dollars(b.Reserved.USD)), terminal.Painted(left.Rounded().String(), leftColour(int64(*left))))
		}
	}
	return t
}

func leftColour(left int64) terminal.Colour {
	if left == 0 {
		return terminal.Red
	}
	return ""
}

func (c *budgetShow) session(sessionID string) error {
	s, key, err := c.stored(sessionID)
	if err != nil {
		return err
	}
	l, err := s.Ledger(key)
	if err != nil {
		return err
	}
	doc := budgetDocument{Session: sessionID, Budgets: budgetLines(l), Raises: l.Raises, Warnings: l.Warnings, Open: []openCall{}}
	if doc.Open, err = openCalls(s, key, l); err != nil {
		return err
	}
	if doc.Raises == nil {
		doc.Raises = []budget.Raise{}
	}
	if doc.Warnings == nil {
		doc.Warnings = []budget.Warning{}
	}
	return c.result(doc, func() { c.write(doc) })
}

// openCalls lists the calls of a session whose cost is not known, oldest first
// within each assignment.
func openCalls(s *store.Store, key session.Key, l budget.Ledger) ([]openCall, error) {
	calls := []openCall{}
	for _, id := range l.Assignments() {
		j, err := s.Journal(key, id)
		if err != nil {
			return nil, err
		}
		for _, c := range j.Calls() {
			if c.State == budget.Begun || c.State == budget.Unsettled {
				calls = append(calls, openCall{
					AssignmentID: id, Call: c.ID, State: c.State, Agent: c.Agent, Model: c.Model, Key: c.Key, BeganAt: c.BeganAt, Estimate: c.Estimate,
				})
			}
		}
	}
	return calls, nil
}

func (c *budgetShow) write(doc budgetDocument) {
	if len(doc.Budgets) == 0 {
		c.print("session %s has no budget", doc.Session)
	} else {
		budgetTable(c.palette, doc.Budgets).Write(c.stdout)
	}
	printHistory(c.console, doc.Raises, doc.Warnings)
	if len(doc.Open) == 0 {
		return
	}
	t := c.table("ASSIGNMENT", "CALL", "STATE", "AGENT", "BEGAN", "ESTIMATE")
	unsettled := false
	for _, call := range doc.Open {
		unsettled = unsettled || call.State == budget.Unsettled
		t.Add(terminal.Plain(call.String()), terminal.Plain(fmt.Sprint(call.Call)), terminal.Plain(callState(call.State)), terminal.Plain(terminal.Dash(safetext.Line(call.Agent))),
			terminal.Plain(terminal.Moment(&call.BeganAt)), terminal.Plain(terminal.Amount(call.Estimate.Amount())))
	}
	c.print("")
	t.Write(c.stdout)
	if unsettled {
		c.printErr("settle a call when you know its cost: maestro budget settle %s PHASE/PERSONA CALL --output-tokens N --cost-usd X, or --write-off; use --all instead of PHASE/PERSONA CALL to settle all", doc.Session)
	}
}

// callState is a call's state in words.
func callState(k budget.Kind) string {
	if k == budget.Begun {
		return "in flight"
	}
	return string(k)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + safetext.Line(who)
}

// printHistory prints raises of budgets and warnings.
func printHistory(c *console, raises []budget.Raise, warnings []budget.Warning) {
	for _, r := range raises {
		c.print("%s raised by %s%s, %s%s", r.Scope, terminal.Amount(r.Added), by(r.By), terminal.Moment(&r.When), reason(r.Note))
	}
	for _, w := range warnings {
		c.print("%s", c.palette.Paint(terminal.Yellow, fmt.Sprintf("%s reached %g%% (%s) %s", w.Scope, 100*w.At, terminal.Amount(w.Spent), terminal.Moment(&w.When))))
	}
}
