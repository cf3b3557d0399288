package activities

import (
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// Spending notes what the call under way has used so far. One that has used more
// than was set aside for it gets more, as long as there is some, and else is
// stopped.
func (b *book) Spending(used team.Usage) error {
	b.guard.Lock()
	b.live = used
	call, aside := b.call, b.granted
	b.guard.Unlock()
	more, least := dearer(used.Amount(), aside)
	if call == 0 || least == (team.Amount{}) {
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
	return team.Failf(team.TokenBudget, "the attempt has used %d tokens and %s USD, more than the %d tokens and %s USD that were set aside for it; %s",
		used.Tokens(), used.CostUSD, aside.Tokens, aside.USD, verdict.Refused)
}

// dearer is what is missing at least, and how much more to set aside: as much as
// was used, so that this is seldom asked. A dimension in which nothing was set
// aside is not held to.
func dearer(used, aside team.Amount) (more, least team.Amount) {
	if aside.Tokens > 0 && used.Tokens > aside.Tokens {
		more.Tokens, least.Tokens = used.Tokens, used.Tokens-aside.Tokens
	}
	if aside.USD > 0 && used.USD > aside.USD {
		more.USD, least.USD = used.USD, used.USD-aside.USD
	}
	return more, least
}

// extend sets more aside for the call under way: of the session's budgets and, if
// the session has too little of it, of the team's day.
func (b *book) extend(call int64, more, least team.Amount) (verdict budget.Verdict, err error) {
	err = b.Ledgers.UpdateLedger(b.scene.key, func(l *budget.Ledger) error {
		verdict = l.Extend(b.in.AssignmentID, call, more, least, b.Clock().UTC())
		return nil
	})
	if err != nil || verdict.Draw == nil {
		return verdict, err
	}
	d := *verdict.Draw
	d.Session, d.Agent = b.scene.key.Session, b.plan.Agent
	bounded, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	drawing, err := b.Days.Draw(bounded, b.updateID("extend"), b.scene.team.Name, d)
	if err != nil {
		return budget.Verdict{Scope: budget.DayScope, Draw: &d, Refused: fmt.Sprintf("the daily budget of team %s does not answer", b.scene.team.Name)}, nil
	}
	err = b.Ledgers.UpdateLedger(b.scene.key, func(l *budget.Ledger) error {
		l.Take(drawing)
		verdict = budget.Verdict{Scope: budget.DayScope, Draw: &d, Refused: drawing.Refusal(b.scene.team.Name)}
		if drawing.Effect == budget.Drawn {
			if v := l.Extend(b.in.AssignmentID, call, drawing.Cut(d, more), least, b.Clock().UTC()); v.Draw == nil {
				verdict = v
			}
		}
		return nil
	})
	return verdict, err
}
