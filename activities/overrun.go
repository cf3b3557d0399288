package activities

import (
	"cmp"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
)

// Report notes durably what an agent program has reported, and holds it to its
// budgets as Spending does. What the store cannot take now it takes with the next
// report, or at the end.
func (b *spender) Report(used, estimate cost.Usage) error {
	if b.call != 0 {
		estimate.CostUSD = cmp.Or(estimate.CostUSD, b.plan.Estimate.CostUSD)
		if err := b.noteReport(budget.Entry{Kind: budget.Reported, Call: b.call, Usage: &used, Estimate: &estimate}); err != nil {
			return err
		}
	}
	return b.Spending(used)
}

// noteReport appends a report to the journal, after one that could not be.
func (b *spender) noteReport(e budget.Entry) error {
	for _, next := range []*budget.Entry{b.report, &e} {
		if next == nil {
			continue
		}
		if next == &e {
			e.Seq, e.At = b.journal.Next(), b.Clock().UTC()
		}
		b.report = next
		if b.Ledgers.AppendEntry(b.session.key, b.in.AssignmentID, *next) != nil {
			return nil
		}
		b.report = nil
		if err := b.apply(*next); err != nil {
			return err
		}
	}
	return nil
}

// Spending notes what the call under way has used so far. One that has used more
// than was set aside for it gets more, as long as there is some, and else is
// stopped.
func (b *spender) Spending(used cost.Usage) error {
	b.guard.Lock()
	b.live = used
	call, aside := b.call, b.granted
	b.guard.Unlock()
	more, least := shortfall(used.Amount(), aside)
	if call == 0 || least == (cost.Amount{}) {
		return nil
	}
	verdict, err := b.extend(call, more, least)
	if err != nil { // what the store cannot say now it says at the next report
		return nil //nolint:nilerr // the call is under way, and its money is spent
	}
	b.guard.Lock()
	defer b.guard.Unlock()
	if verdict.Refused == "" {
		b.granted = b.granted.Add(verdict.Granted)
		return nil
	}
	b.refusal = verdict
	return failures.Failf(failures.TokenBudget, "the attempt has used %d tokens and %s USD, more than its reservation of %d tokens and %s USD; %s",
		used.Tokens(), used.CostUSD, aside.Tokens, aside.USD, verdict.Refused)
}

// shortfall is what is missing at least, and how much more to set aside: as much as
// was used, so that this is seldom asked. A dimension in which nothing was set
// aside is not held to.
func shortfall(used, aside cost.Amount) (more, least cost.Amount) {
	if aside.Tokens > 0 && used.Tokens > aside.Tokens {
		more.Tokens, least.Tokens = used.Tokens, used.Tokens-aside.Tokens
	}
	if aside.USD > 0 && used.USD > aside.USD {
		more.USD, least.USD = used.USD, used.USD-aside.USD
	}
	return more, least
}

// extend sets more aside for the call under way.
func (b *spender) extend(call int64, more, least cost.Amount) (verdict budget.Verdict, err error) {
	err = b.Ledgers.UpdateLedger(b.session.key, func(l *budget.Ledger) error {
		verdict = l.Extend(b.in.AssignmentID, call, more, least)
		return nil
	})
	return verdict, err
}
