package cli

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// settleFlags are what a person says of a call.
type settleFlags struct {
	used     team.Usage
	cost     string
	writeOff bool
	note     string
	// priced: its cost was given.
	priced bool
}

// settledDocument is the document of `budget settle -o json`.
type settledDocument struct {
	Session string `json:"session"`
	team.AssignmentID
	Call int64 `json:"call"`
	// Estimate is what was booked until now, Usage what the call has cost.
	Estimate   team.Usage `json:"estimate"`
	Usage      team.Usage `json:"usage"`
	WrittenOff bool       `json:"written_off"`
	By         string     `json:"by"`
	Note       string     `json:"note"`
	// Unsettled is how many of the session's calls still are.
	Unsettled int `json:"unsettled"`
}

func newBudgetSettle(a *app) *cobra.Command {
	var f settleFlags
	cmd := &cobra.Command{
		Use:   "settle SESSION PHASE/PERSONA CALL",
		Short: "Say what a call has cost of which nobody knows, or write it off",
		Long: "Say what a call has cost whose worker died, or whose connection broke, before its cost was known: until then its estimate " +
			"is held against the budgets. `maestro budget show` lists such calls with their numbers; the provider's own records say what they cost.",
		Args: arguments(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.priced = cmd.Flags().Changed("cost-usd")
			if err := f.check(); err != nil {
				return err
			}
			return a.settle(args[0], args[1], args[2], f)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.used.InputTokens, "input-tokens", 0, "input tokens that were not cached")
	flags.Int64Var(&f.used.OutputTokens, "output-tokens", 0, "output tokens, reasoning included")
	flags.Int64Var(&f.used.CacheReadTokens, "cache-read-tokens", 0, "input tokens that were read from the cache")
	flags.Int64Var(&f.used.CacheWriteTokens, "cache-write-tokens", 0, "input tokens that were written to the cache")
	flags.Int64Var(&f.used.ReasoningTokens, "reasoning-tokens", 0, "how many of the output tokens went into thinking")
	flags.StringVar(&f.cost, "cost-usd", "", "what it cost, in USD, like 0.25")
	flags.BoolVar(&f.writeOff, "write-off", false, "count it as nothing")
	flags.StringVar(&f.note, "note", "", "how you know")
	a.addNamespaceFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	cmd.ValidArgsFunction = a.completeCalls
	return cmd
}

// check reads the cost and refuses what makes no sense.
func (f *settleFlags) check() error {
	if f.priced {
		if err := f.used.CostUSD.UnmarshalYAML([]byte(f.cost)); err != nil {
			return usagef("--cost-usd: %w", err)
		}
	}
	given := f.priced || f.used != team.Usage{}
	switch {
	case f.writeOff && given:
		return usagef("--write-off counts the call as nothing; leave out either it or what the call cost")
	case !f.writeOff && !given:
		return usagef("say what the call cost, like --input-tokens 1200 --output-tokens 300 --cost-usd 0.01, or --write-off")
	}
	if err := f.used.Validate(); err != nil {
		return usagef("%w", err)
	}
	if f.used.ReasoningTokens > f.used.OutputTokens {
		return usagef("--reasoning-tokens is %d; it is a part of --output-tokens, which is %d", f.used.ReasoningTokens, f.used.OutputTokens)
	}
	return nil
}

// settle closes a call in the name of a person. The assignment's lock keeps
// everybody else from its journal meanwhile.
func (a *app) settle(session, assignment, number string, f settleFlags) error {
	s, key, err := a.stored(session)
	if err != nil {
		return err
	}
	id, err := team.ParseAssignmentID(assignment)
	if err != nil {
		return usagef("%w", err)
	}
	call, err := strconv.ParseInt(number, 10, 64)
	if err != nil || call < 1 {
		return usagef("%q is no number of a call; `maestro budget show %s` has them", team.Shorten(number, 40), session)
	}
	lock, ok, err := s.Lock(key, id)
	if err != nil {
		return err
	}
	if !ok {
		return failf("%s of session %s is at work, and writes its journal itself; try again when it has ended, or waits", id, session)
	}
	defer lock.Unlock()
	j, err := s.Journal(key, id)
	if err != nil {
		return err
	}
	open, err := findOpen(j, session, id, call)
	if err != nil {
		return err
	}
	if !f.writeOff && !f.priced && open.Estimate.CostUSD > 0 {
		return usagef("call %d may have cost money (%s USD, it was estimated); give --cost-usd, too, or --cost-usd 0", call, open.Estimate.CostUSD)
	}
	doc := settledDocument{
		Session: session, AssignmentID: id, Call: call, Estimate: open.Estimate, Usage: f.used, WrittenOff: f.writeOff,
		By: a.person(), Note: f.note,
	}
	l, err := a.close(s, key, j, open, doc)
	if err != nil {
		return err
	}
	for _, row := range l.Rows {
		doc.Unsettled += row.UnsettledCalls
	}
	return a.writeSettled(doc)
}

// findOpen finds a call whose cost is not known. One that is under way by the
// journal has lost its worker: nobody else holds the assignment's lock.
func findOpen(j *budget.Journal, session string, id team.AssignmentID, call int64) (budget.Call, error) {
	i := slices.IndexFunc(j.Calls(), func(c budget.Call) bool { return c.ID == call })
	if i < 0 {
		return budget.Call{}, usagef("%s of session %s has no call %d; `maestro budget show %s` has those whose cost nobody knows", id, session, call, session)
	}
	c := j.Calls()[i]
	switch c.State {
	case budget.Begun, budget.Unsettled:
		return c, nil
	case budget.Closed:
		return c, failf("call %d of %s was settled by hand already%s, %s: %s", call, id, by(c.By), terminal.Moment(&c.EndedAt), terminal.Amount(c.Usage.Amount()))
	default:
		return c, failf("what call %d of %s has cost is known: %s", call, id, terminal.Amount(c.Usage.Amount()))
	}
}

// close writes the end of a call to the journal, and then to the ledger.
func (a *app) close(s *store.Store, key team.SessionKey, j *budget.Journal, c budget.Call, doc settledDocument) (budget.Ledger, error) {
	add := func(e budget.Entry) error {
		e.Seq, e.At, e.Call = j.Next(), a.env.Now().UTC(), c.ID
		if err := s.AppendEntry(key, doc.AssignmentID, e); err != nil {
			return err
		}
		return j.Apply(e)
	}
	var ledger budget.Ledger
	if c.State == budget.Begun {
		if err := add(budget.Entry{Kind: budget.Unsettled}); err != nil {
			return ledger, err
		}
	}
	if err := add(budget.Entry{Kind: budget.Closed, Usage: &doc.Usage, By: doc.By, Note: doc.Note}); err != nil {
		return ledger, err
	}
	err := s.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(doc.AssignmentID, j.Row(l.Row(doc.AssignmentID).Reserved), a.env.Now().UTC())
		ledger = *l
		return nil
	})
	return ledger, err
}

func (a *app) writeSettled(doc settledDocument) error {
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	what := terminal.Amount(doc.Usage.Amount())
	if doc.WrittenOff {
		what = "nothing"
	}
	a.print("call %d of %s in session %s counts as %s; it was estimated at %s", doc.Call, doc.AssignmentID, doc.Session, what, terminal.Amount(doc.Estimate.Amount()))
	if doc.Unsettled > 0 {
		a.print("%s of the session unsettled still; see `maestro budget show %s`", team.Count(doc.Unsettled, "call"), doc.Session)
	}
	return nil
}
