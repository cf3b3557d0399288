package cli

import (
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// settleCommand is `budget settle`.
type settleCommand struct {
	*console
	*storeOpener
	env  Env
	used cost.Usage
	cost string
	// priced: its cost was given.
	priced                bool
	writeOff, asEstimated bool
	note                  string
	// all: of every call of the session.
	all bool
}

// settledDocument is the document of `budget settle -o json`.
type settledDocument struct {
	Session string `json:"session"`
	spec.AssignmentID
	Call int64 `json:"call"`
	// Estimate is what was booked until now, Usage what the call has cost.
	Estimate   cost.Usage `json:"estimate"`
	Usage      cost.Usage `json:"usage"`
	WrittenOff bool       `json:"written_off"`
	By         string     `json:"by"`
	Note       string     `json:"note"`
	// Unsettled is how many of the session's calls still are.
	Unsettled int `json:"unsettled"`
}

// settledCalls is the document of `budget settle --all -o json`.
type settledCalls struct {
	Session   string            `json:"session"`
	Calls     []settledDocument `json:"calls"`
	Unsettled int               `json:"unsettled"`
}

func newBudgetSettle(a *app) *cobra.Command {
	c := settleCommand{console: a.console, storeOpener: a.storeOpener, env: a.env}
	cmd := &cobra.Command{
		Use:   "settle SESSION [PHASE/PERSONA CALL]",
		Short: "Record or write off the cost of an unsettled call",
		Long: "Record the cost of a call whose worker died, or whose connection broke, before its cost was known. Until then its estimate " +
			"counts against the budgets. `maestro budget show` lists such calls with their numbers; look up their cost at the provider.",
		Args: func(cmd *cobra.Command, args []string) error {
			if c.all {
				return cmdline.Arguments(1, 1)(cmd, args)
			}
			return cmdline.Arguments(3, 3)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.priced = cmd.Flags().Changed("cost-usd")
			if err := c.check(); err != nil {
				return err
			}
			if c.all {
				return c.settleAll(args[0])
			}
			return c.settle(args[0], args[1], args[2])
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&c.used.InputTokens, "input-tokens", 0, "input tokens not read from the cache")
	flags.Int64Var(&c.used.OutputTokens, "output-tokens", 0, "output tokens, including reasoning")
	flags.Int64Var(&c.used.CacheReadTokens, "cache-read-tokens", 0, "input tokens read from the cache")
	flags.Int64Var(&c.used.CacheWriteTokens, "cache-write-tokens", 0, "input tokens written to the cache")
	flags.Int64Var(&c.used.ReasoningTokens, "reasoning-tokens", 0, "output tokens used for reasoning")
	flags.StringVar(&c.cost, "cost-usd", "", "cost in USD, like 0.25")
	flags.BoolVar(&c.writeOff, "write-off", false, "count it as zero")
	flags.BoolVar(&c.asEstimated, "as-estimated", false, "count it at its estimate")
	flags.BoolVar(&c.all, "all", false, "all unsettled calls of the session, with --write-off or --as-estimated")
	flags.StringVar(&c.note, "note", "", "where the figure comes from")
	a.addStoreFlags(cmd)
	return cmd
}

// check reads the cost and rejects contradictions.
func (c *settleCommand) check() error {
	if c.priced {
		if err := c.used.CostUSD.UnmarshalYAML([]byte(c.cost)); err != nil {
			return usagef("--cost-usd: %w", err)
		}
	}
	given := c.priced || c.used != cost.Usage{}
	switch {
	case c.writeOff && c.asEstimated:
		return usagef("--write-off and --as-estimated exclude each other; leave one out")
	case c.writeOff && given:
		return usagef("--write-off excludes token and cost flags; leave one out")
	case c.asEstimated && given:
		return usagef("--as-estimated excludes token and cost flags; leave one out")
	case c.all && given:
		return usagef("--all needs --write-off or --as-estimated; settle calls with different costs one by one")
	case !c.writeOff && !c.asEstimated && !given:
		return usagef("missing cost; give it, like --input-tokens 1200 --output-tokens 300 --cost-usd 0.01, or --write-off, or --as-estimated")
	}
	if err := c.used.Validate(); err != nil {
		return usagef("%w", err)
	}
	if c.used.ReasoningTokens > c.used.OutputTokens {
		return usagef("--reasoning-tokens: %d is more than --output-tokens, which includes it (%d)", c.used.ReasoningTokens, c.used.OutputTokens)
	}
	return nil
}

// settle closes a call by a person's entry.
func (c *settleCommand) settle(sessionID, assignment, number string) error {
	s, key, err := c.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	id, err := spec.ParseAssignmentID(assignment)
	if err != nil {
		return usagef("%w", err)
	}
	call, err := strconv.ParseInt(number, 10, 64)
	if err != nil || call < 1 {
		return usagef("%q is not the number of a call; `maestro budget show %s` lists them", textfmt.Shorten(number, 40), sessionID)
	}
	doc, err := c.settleCall(s, key, id, call)
	if err != nil {
		return err
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	c.writeSettled(doc)
	c.writeUnsettled(sessionID, doc.Unsettled)
	return nil
}

// settleAll closes all calls of a session with unknown cost. Those of an
// assignment that is at work stay.
func (c *settleCommand) settleAll(sessionID string) error {
	s, key, err := c.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	l, err := s.Ledger(key)
	if err != nil {
		return err
	}
	open, err := control.OpenCalls(s, key, l)
	if err != nil {
		return err
	}
	all := settledCalls{Session: sessionID, Calls: []settledDocument{}}
	var failed []error
	for _, call := range open {
		doc, err := c.settleCall(s, key, call.AssignmentID, call.Call)
		switch {
		case err != nil && call.State == budget.Begun: // it is running
			continue
		case err != nil:
			failed = append(failed, err)
			all.Unsettled++
			continue
		}
		all.Calls = append(all.Calls, doc)
		if c.output != outputJSON {
			c.writeSettled(doc)
		}
	}
	switch {
	case c.output == outputJSON:
		failed = append(failed, c.printJSON(all))
	case len(all.Calls)+len(failed) == 0:
		c.print("session %s has no unsettled call", sessionID)
	}
	return errors.Join(failed...)
}

// settleCall closes one call. The assignment's lock keeps others from writing its journal
// meanwhile.
func (c *settleCommand) settleCall(s *store.Store, key session.Key, id spec.AssignmentID, call int64) (doc settledDocument, err error) {
	lock, ok, err := s.Lock(key, id)
	if err != nil {
		return doc, err
	}
	if !ok {
		return doc, failf("%s of session %s is running; try again when it has ended or waits", id, key.Session)
	}
	defer lock.Unlock()
	j, err := s.Journal(key, id)
	if err != nil {
		return doc, err
	}
	open, err := findOpen(j, key.Session, id, call)
	if err != nil {
		return doc, err
	}
	used := c.used
	switch {
	case c.asEstimated:
		used = open.Usage.Max(open.Reported).Add(open.Estimate)
	case !c.writeOff && !c.priced && open.Estimate.CostUSD > 0:
		return doc, usagef("call %d may have cost money (estimated: %s USD); add --cost-usd, or --cost-usd 0", call, open.Estimate.CostUSD)
	}
	doc = settledDocument{
		Session: key.Session, AssignmentID: id, Call: call, Estimate: open.Estimate, Usage: used, WrittenOff: c.writeOff,
		By: c.env.person(), Note: c.note,
	}
	l, err := c.close(s, key, j, open, doc)
	for _, row := range l.Rows {
		doc.Unsettled += len(row.Unsettled)
	}
	return doc, err
}

// findOpen finds a call whose cost is not known. A call that is open in the
// journal has lost its worker: the assignment's lock is free.
func findOpen(j *budget.Journal, sessionID string, id spec.AssignmentID, call int64) (budget.Call, error) {
	i := slices.IndexFunc(j.Calls(), func(c budget.Call) bool { return c.ID == call })
	if i < 0 {
		return budget.Call{}, usagef("call %[3]d of %[1]s of session %[2]s not found; `maestro budget show %[4]s` lists unsettled calls", id, sessionID, call, sessionID)
	}
	c := j.Calls()[i]
	switch c.State {
	case budget.Begun, budget.Unsettled:
		return c, nil
	case budget.Closed:
		return c, failf("call %d of %s was already settled%s, %s: %s", call, id, by(c.By), terminal.Moment(&c.ClosedAt), terminal.Amount(c.Usage.Amount()))
	default:
		return c, failf("call %d of %s needs no settling; its cost is known: %s", call, id, terminal.Amount(c.Usage.Amount()))
	}
}

// close writes the end of a call to the journal, and then to the ledger.
func (c *settleCommand) close(s *store.Store, key session.Key, j *budget.Journal, call budget.Call, doc settledDocument) (budget.Ledger, error) {
	add := func(e budget.Entry) error {
		e.Seq, e.At, e.Call = j.Next(), c.env.Now().UTC(), call.ID
		if err := s.AppendEntry(key, doc.AssignmentID, e); err != nil {
			return err
		}
		return j.Apply(e)
	}
	var ledger budget.Ledger
	if call.State == budget.Begun {
		if err := add(budget.Entry{Kind: budget.Unsettled}); err != nil {
			return ledger, err
		}
		call = j.Call(call.ID) // with what it had reported
	}
	rest := doc.Usage.Minus(call.Usage).Max(cost.Usage{}) // a part may be known already
	if err := add(budget.Entry{Kind: budget.Closed, Usage: &rest, By: doc.By, Note: doc.Note}); err != nil {
		return ledger, err
	}
	err := s.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(doc.AssignmentID, j.Row(l.Row(doc.AssignmentID).Reserved), c.env.Now().UTC())
		ledger = *l
		return nil
	})
	return ledger, err
}

func (c *settleCommand) writeSettled(doc settledDocument) {
	what := terminal.Amount(doc.Usage.Amount())
	if doc.WrittenOff {
		what = "nothing"
	}
	c.print("call %d of %s in session %s counts as %s; it was estimated at %s", doc.Call, doc.AssignmentID, doc.Session, what, terminal.Amount(doc.Estimate.Amount()))
}

// writeUnsettled prints the number of calls that are still unsettled.
func (c *settleCommand) writeUnsettled(sessionID string, n int) {
	if n > 0 {
		c.print("%s of the session still unsettled; see `maestro budget show %s`", textfmt.Count(n, "call"), sessionID)
	}
}
