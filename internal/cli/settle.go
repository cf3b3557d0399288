package cli

import (
	"errors"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// settleFlags are what a person says of a call.
type settleFlags struct {
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
	var f settleFlags
	cmd := &cobra.Command{
		Use:   "settle SESSION [PHASE/PERSONA CALL]",
		Short: "Say what a call has cost of which nobody knows, or write it off",
		Long: "Say what a call has cost whose worker died, or whose connection broke, before its cost was known: until then its estimate " +
			"is held against the budgets. `maestro budget show` lists such calls with their numbers; the provider's own records say what they cost.",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.all {
				return cmdline.Arguments(1, 1)(cmd, args)
			}
			return cmdline.Arguments(3, 3)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.priced = cmd.Flags().Changed("cost-usd")
			if err := f.check(); err != nil {
				return err
			}
			if f.all {
				return a.settleAll(args[0], f)
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
	flags.BoolVar(&f.asEstimated, "as-estimated", false, "count it as what it was estimated at")
	flags.BoolVar(&f.all, "all", false, "all calls of the session whose cost nobody knows, with --write-off or --as-estimated")
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
	given := f.priced || f.used != cost.Usage{}
	switch {
	case f.writeOff && f.asEstimated:
		return usagef("--write-off counts the call as nothing, and --as-estimated does not; leave out either")
	case f.writeOff && given:
		return usagef("--write-off counts the call as nothing; leave out either it or what the call cost")
	case f.asEstimated && given:
		return usagef("--as-estimated says what the call cost; leave out either it or what the call cost")
	case f.all && given:
		return usagef("--all takes --write-off or --as-estimated: what one call cost is not what each of them did")
	case !f.writeOff && !f.asEstimated && !given:
		return usagef("say what the call cost, like --input-tokens 1200 --output-tokens 300 --cost-usd 0.01, or --write-off, or --as-estimated")
	}
	if err := f.used.Validate(); err != nil {
		return usagef("%w", err)
	}
	if f.used.ReasoningTokens > f.used.OutputTokens {
		return usagef("--reasoning-tokens is %d; it is a part of --output-tokens, which is %d", f.used.ReasoningTokens, f.used.OutputTokens)
	}
	return nil
}

// settle closes a call in the name of a person.
func (a *app) settle(sessionID, assignment, number string, f settleFlags) error {
	s, key, err := a.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	id, err := spec.ParseAssignmentID(assignment)
	if err != nil {
		return usagef("%w", err)
	}
	call, err := strconv.ParseInt(number, 10, 64)
	if err != nil || call < 1 {
		return usagef("%q is no number of a call; `maestro budget show %s` has them", textfmt.Shorten(number, 40), sessionID)
	}
	doc, err := a.settleCall(s, key, id, call, f)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	a.writeSettled(doc)
	a.writeUnsettled(sessionID, doc.Unsettled)
	return nil
}

// settleAll closes all calls of a session whose cost nobody knows. Those of an
// assignment that is at work stay.
func (a *app) settleAll(sessionID string, f settleFlags) error {
	s, key, err := a.storedToWrite(sessionID)
	if err != nil {
		return err
	}
	l, err := s.Ledger(key)
	if err != nil {
		return err
	}
	open, err := openCalls(s, key, l)
	if err != nil {
		return err
	}
	all := settledCalls{Session: sessionID, Calls: []settledDocument{}}
	var failed []error
	for _, c := range open {
		doc, err := a.settleCall(s, key, c.AssignmentID, c.Call, f)
		switch {
		case err != nil && c.State == budget.Begun: // it is under way
			continue
		case err != nil:
			failed = append(failed, err)
			all.Unsettled++
			continue
		}
		all.Calls = append(all.Calls, doc)
		if a.output != outputJSON {
			a.writeSettled(doc)
		}
	}
	switch {
	case a.output == outputJSON:
		failed = append(failed, a.printJSON(all))
	case len(all.Calls)+len(failed) == 0:
		a.print("session %s has no unsettled call", sessionID)
	}
	return errors.Join(failed...)
}

// settleCall closes one call. The assignment's lock keeps everybody else from its journal
// meanwhile.
func (a *app) settleCall(s *store.Store, key session.Key, id spec.AssignmentID, call int64, f settleFlags) (doc settledDocument, err error) {
	lock, ok, err := s.Lock(key, id)
	if err != nil {
		return doc, err
	}
	if !ok {
		return doc, failf("%s of session %s is at work, and writes its journal itself; try again when it has ended, or waits", id, key.Session)
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
	used := f.used
	switch {
	case f.asEstimated:
		used = open.Usage.Max(open.Reported).Add(open.Estimate)
	case !f.writeOff && !f.priced && open.Estimate.CostUSD > 0:
		return doc, usagef("call %d may have cost money (%s USD, it was estimated); give --cost-usd, too, or --cost-usd 0", call, open.Estimate.CostUSD)
	}
	doc = settledDocument{
		Session: key.Session, AssignmentID: id, Call: call, Estimate: open.Estimate, Usage: used, WrittenOff: f.writeOff,
		By: a.person(), Note: f.note,
	}
	l, err := a.close(s, key, j, open, doc)
	for _, row := range l.Rows {
		doc.Unsettled += len(row.Unsettled)
	}
	return doc, err
}

// findOpen finds a call whose cost is not known. One that is under way by the
// journal has lost its worker: nobody else holds the assignment's lock.
func findOpen(j *budget.Journal, sessionID string, id spec.AssignmentID, call int64) (budget.Call, error) {
	i := slices.IndexFunc(j.Calls(), func(c budget.Call) bool { return c.ID == call })
	if i < 0 {
		return budget.Call{}, usagef("%s of session %s has no call %d; `maestro budget show %s` has those whose cost nobody knows", id, sessionID, call, sessionID)
	}
	c := j.Calls()[i]
	switch c.State {
	case budget.Begun, budget.Unsettled:
		return c, nil
	case budget.Closed:
		return c, failf("call %d of %s was settled by hand already%s, %s: %s", call, id, by(c.By), terminal.Moment(&c.ClosedAt), terminal.Amount(c.Usage.Amount()))
	default:
		return c, failf("what call %d of %s has cost is known: %s", call, id, terminal.Amount(c.Usage.Amount()))
	}
}

// close writes the end of a call to the journal, and then to the ledger.
func (a *app) close(s *store.Store, key session.Key, j *budget.Journal, c budget.Call, doc settledDocument) (budget.Ledger, error) {
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
		c = j.Call(c.ID) // with what it had reported
	}
	rest := doc.Usage.Minus(c.Usage).Max(cost.Usage{}) // a part may be known already
	if err := add(budget.Entry{Kind: budget.Closed, Usage: &rest, By: doc.By, Note: doc.Note}); err != nil {
		return ledger, err
	}
	err := s.UpdateLedger(key, func(l *budget.Ledger) error {
		l.SetRow(doc.AssignmentID, j.Row(l.Row(doc.AssignmentID).Reserved), a.env.Now().UTC())
		ledger = *l
		return nil
	})
	return ledger, err
}

func (a *app) writeSettled(doc settledDocument) {
	what := terminal.Amount(doc.Usage.Amount())
	if doc.WrittenOff {
		what = "nothing"
	}
	a.print("call %d of %s in session %s counts as %s; it was estimated at %s", doc.Call, doc.AssignmentID, doc.Session, what, terminal.Amount(doc.Estimate.Amount()))
}

// writeUnsettled says how many of a session's calls have no known cost still.
func (a *app) writeUnsettled(sessionID string, n int) {
	if n > 0 {
		a.print("%s of the session unsettled still; see `maestro budget show %s`", textfmt.Count(n, "call"), sessionID)
	}
}
