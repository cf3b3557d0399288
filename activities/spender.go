package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// spender keeps what a round pays for: this is where a call is stored and where a
// budget refuses one. It implements [session.Calls] over the assignment's journal,
// which has the truth, and the session's ledger, which adds it up with all others.
type spender struct {
	*round
	// capped: the session has a budget to be held to.
	capped bool
	// attempt is the one under way; earlier are those whose conversation it
	// continues with, newest first.
	attempt session.CallKey
	earlier []session.CallKey

	// guard is held only to look and to change, never to wait. Only the agent
	// at work changes anything.
	guard   sync.Mutex
	journal *budget.Journal
	// call is the one under way, zero if there is none that was noted; plan is
	// what it was to be, and granted what was set aside for it.
	call    int64
	plan    session.CallPlan
	granted cost.Amount
	// told is the settled call whose answer the agent was given last.
	told int64
	// live is what the call under way has used so far.
	live cost.Usage
	// report is a report that the store could not take: it may be there or not, so
	// it comes before every other entry. nil: there is none.
	report *budget.Entry
	// refusal is the budget that could not pay; zero: all could.
	refusal budget.Verdict
	// observed is used by the agent's goroutine only.
	observed observed
}

// The rhythm of waiting for a budget that calls under way may free.
const (
	budgetWait    = 50 * time.Millisecond
	budgetWaitMax = time.Second
)

// openSpender takes the assignment's journal up. What an execution that has died
// had under way is unsettled from now on: its money may be spent.
func (r *round) openSpender(ctx context.Context) error {
	b := &spender{round: r, capped: r.session.team.Capped()}
	if err := r.retryStore(ctx, func() (err error) {
		b.journal, err = r.Ledgers.Journal(r.session.key, r.in.AssignmentID)
		return err
	}); err != nil {
		return err
	}
	open := b.journal.Open()
	for _, call := range open {
		e := unsettled(r.Agents, r.Sessions, r.session.key, r.in.AssignmentID, call)
		if err := b.append(ctx, e); err != nil {
			return err
		}
		ended := b.journal.Call(call.ID)
		activity.GetLogger(ctx).Warn("a paid call was in flight when its worker was lost; its unknown cost stays unsettled",
			"assignment", r.in.String(), "call", call.ID, "known", ended.Usage.Tokens(), "estimate", ended.Estimate.Tokens())
	}
	r.mu.Lock()
	r.spender = b
	unsaid := r.settleEpochs(b.journal.Calls())
	r.thisRound().Epoch = r.epoch() // a record that only fences has none
	r.record.Usage = b.journal.Spent()
	progress := len(b.journal.Calls()) - len(b.journal.Unsettled())
	if progress > r.log.Calls { // whoever was lost had achieved something
		r.log.Calls, r.log.LostAtProgress = progress, r.log.Lost
	}
	lost := r.log.Lost
	r.mu.Unlock()
	if unsaid || lost > 0 && progress > 0 {
		if err := r.writeRecord(ctx); err != nil {
			return err
		}
	}
	if len(b.journal.Calls()) == 0 && !b.capped {
		return nil
	}
	return b.enter(ctx)
}

// begin opens the page of an attempt.
func (b *spender) begin(attempt session.CallKey, earlier []session.CallKey) {
	b.guard.Lock()
	defer b.guard.Unlock()
	b.attempt, b.earlier, b.refusal = attempt, earlier, budget.Verdict{}
}

// append adds an entry to the journal, in the store first. It is not given up
// because the work is: what is paid for is paid for.
func (b *spender) append(ctx context.Context, e budget.Entry) error {
	if b.report != nil {
		if err := b.write(ctx, *b.report); err != nil {
			return err
		}
		b.report = nil
	}
	e.Seq, e.At = b.journal.Next(), b.Clock().UTC()
	return b.write(ctx, e)
}

// write writes a numbered entry, waiting for a store that cannot take it.
func (b *spender) write(ctx context.Context, e budget.Entry) error {
	if err := b.retryStore(ctx, func() error { return b.Ledgers.AppendEntry(b.session.key, b.in.AssignmentID, e) }); err != nil {
		return err
	}
	return b.apply(e)
}

func (b *spender) apply(e budget.Entry) error {
	b.guard.Lock()
	defer b.guard.Unlock()
	return b.journal.Apply(e)
}

// enter brings the assignment's row in the session's ledger up to date, and says
// what warnings that gives.
func (b *spender) enter(ctx context.Context) error {
	b.guard.Lock()
	var reserved map[int64]cost.Amount
	if b.call != 0 {
		reserved = map[int64]cost.Amount{b.call: b.granted}
	}
	row := b.journal.Row(reserved)
	b.guard.Unlock()
	var warnings []budget.Warning
	var fractions map[string]float64
	err := b.retryStore(ctx, func() error {
		return b.Ledgers.UpdateLedger(b.session.key, func(l *budget.Ledger) error {
			b.limit(l)
			warnings = l.SetRow(b.in.AssignmentID, row, b.Clock().UTC())
			fractions = l.Fractions(b.in.AssignmentID)
			return nil
		})
	})
	b.showFractions(fractions)
	for _, w := range warnings {
		activity.GetLogger(ctx).Warn("a budget threshold is reached", "budget", w.Scope,
			"at", w.At, "tokens", w.Spent.Tokens, "usd", w.Spent.USD.String())
	}
	return err
}

// limit sets the limits of a ledger that was lost.
func (b *spender) limit(l *budget.Ledger) {
	if l.Limits.IsZero() {
		l.Limit(b.session.team.Name, budget.LimitsOf(b.session.team))
	}
}

// Stored looks the turn up among those of this attempt, and of the ones whose
// conversation it continues with.
func (b *spender) Stored(ctx context.Context, turn int, request spec.Digest) (*session.StoredTurn, error) {
	b.guard.Lock()
	var call *budget.Call
	for _, key := range append([]session.CallKey{b.attempt}, b.earlier...) {
		key.Turn = turn
		if call = b.journal.Find(key, request); call != nil {
			break
		}
	}
	if call != nil {
		b.told = call.ID
	}
	b.guard.Unlock()
	if call == nil {
		return nil, nil
	}
	turnOf := &session.StoredTurn{Usage: call.Usage}
	var err error
	if turnOf.Answer, err = b.Get(ctx, call.Answer); err != nil {
		activity.GetLogger(ctx).Warn("a stored answer is lost; the call is paid for again", "call", call.ID, "error", err)
		return nil, ctx.Err()
	}
	if call.Tools != "" {
		if turnOf.Tools, err = b.Get(ctx, call.Tools); err != nil {
			turnOf.Tools = nil
		}
	}
	observerOrNone(b.Observer).CallReplayed(b.observedCall(b.agent(), ""))
	return turnOf, nil
}

// Reserve reserves the possible cost of a call, once the session's budgets have room
// for it, and records durably that the call begins.
func (b *spender) Reserve(ctx context.Context, plan session.CallPlan) (cost.Amount, error) {
	b.endObserved(failures.Unknown) // the last call got no answer, and the attempt continued
	granted, err := b.reserve(ctx, plan)
	if err == nil {
		_, b.observed.ended = observerOrNone(b.Observer).CallBegun(ctx, b.observedCall(plan.Agent, plan.Model))
		b.observed.end = CallEnd{}
	}
	return granted, err
}

func (b *spender) reserve(ctx context.Context, plan session.CallPlan) (cost.Amount, error) {
	b.guard.Lock()
	b.plan, b.call, b.live, b.granted = plan, 0, cost.Usage{}, plan.Want
	b.guard.Unlock()
	seq := b.journal.Next() // nobody else appends
	free := plan.Want == cost.Amount{}
	if free && (!b.capped || b.in.Free) {
		return plan.Want, b.noteFree(ctx, seq, plan)
	}
	for wait := budgetWait; ; wait = min(2*wait, budgetWaitMax) {
		verdict, plan, err := b.ask(ctx, seq, plan)
		switch {
		case err != nil:
			return cost.Amount{}, err
		case verdict.Refused != "":
			b.guard.Lock()
			b.refusal = verdict
			b.guard.Unlock()
			return cost.Amount{}, failures.Failf(failures.TokenBudget, "%s", verdict.Refused)
		case verdict.Wait:
			b.setProgress(fmt.Sprintf("waiting: the budget of %s is reserved for calls in flight", budget.Label(verdict.Scope)))
			if err := sleep(ctx, wait); err != nil {
				return cost.Amount{}, err
			}
			continue
		case verdict.Granted == cost.Amount{}:
			return verdict.Granted, nil // it has never cost anything
		}
		granted := verdict.Aside()
		plan.Estimate = within(plan.Estimate, granted)
		return granted, b.note(ctx, seq, plan, granted)
	}
}

// noteFree notes that an attempt begins for which nothing is set aside, if its
// program asks a model: that is paid, whatever becomes of the attempt. The best
// guess at its cost is what the agent's dearest has cost.
func (b *spender) noteFree(ctx context.Context, seq int64, plan session.CallPlan) error {
	if b.Agents.Offered(plan.Agent).Conversation != spec.InDirectory {
		return nil
	}
	var l budget.Ledger
	if err := b.retryStore(ctx, func() (err error) {
		l, err = b.Ledgers.Ledger(b.session.key)
		return err
	}); err != nil {
		return err
	}
	if plan.Estimate == (cost.Usage{}) {
		dearest, _ := l.Largest(plan.Agent)
		plan.Estimate = cost.Usage{OutputTokens: dearest.Tokens, CostUSD: dearest.USD}
	}
	return b.note(ctx, seq, plan, cost.Amount{})
}

// note writes durably that the call begins, and what is set aside for it.
func (b *spender) note(ctx context.Context, seq int64, plan session.CallPlan, granted cost.Amount) error {
	b.guard.Lock()
	b.plan, b.granted = plan, granted
	b.guard.Unlock()
	key := b.attempt
	key.Turn = plan.Turn
	err := b.append(ctx, budget.Entry{
		Kind: budget.Begun, Key: &key, Run: b.run(), Agent: plan.Agent, Model: plan.Model,
		Request: plan.Request, Estimate: &plan.Estimate, Granted: granted,
	})
	if err != nil {
		return err
	}
	b.guard.Lock()
	b.call = seq
	b.guard.Unlock()
	failpoint.Here("call begun")
	return nil
}

// within cuts an estimate to what is set aside for the call, so that no cap is passed
// by it. The answer is cut first: what the prompt has cost is the surer part.
func within(estimate cost.Usage, granted cost.Amount) cost.Usage {
	for _, part := range []*int64{&estimate.OutputTokens, &estimate.InputTokens, &estimate.CacheWriteTokens, &estimate.CacheReadTokens} {
		over := estimate.Tokens() - granted.Tokens
		*part -= max(0, min(*part, over))
	}
	estimate.ReasoningTokens = min(estimate.ReasoningTokens, estimate.OutputTokens)
	estimate.CostUSD = min(estimate.CostUSD, granted.USD)
	return estimate
}

// errWaits leaves a ledger as it is in which a call has found no room.
var errWaits = errors.New("the call has to wait")

// ask has the ledger decide. Where nobody has said what a call may cost, that is
// guessed from what calls of the agent have cost before.
func (b *spender) ask(ctx context.Context, seq int64, plan session.CallPlan) (verdict budget.Verdict, as session.CallPlan, err error) {
	err = b.retryStore(ctx, func() error {
		err := b.Ledgers.UpdateLedger(b.session.key, func(l *budget.Ledger) error {
			as = guessed(l, plan)
			b.limit(l)
			asked := len(l.Row(b.in.AssignmentID).Reserved) > 0
			verdict = l.Reserve(b.in.AssignmentID, seq, as.Want, as.Least)
			if verdict.Wait && !asked {
				return errWaits
			}
			return nil
		})
		if errors.Is(err, errWaits) {
			return nil
		}
		return err
	})
	return verdict, as, err
}

// guessed is a plan with a guess where nobody has said what an attempt may cost:
// of its tokens, its money, or both.
func guessed(l *budget.Ledger, plan session.CallPlan) session.CallPlan {
	if plan.Turn != 0 && plan.Want != (cost.Amount{}) { // a turn's cost is known
		return plan
	}
	want, least := l.Guess(plan.Agent)
	known := want == least
	if plan.Want.Tokens == 0 {
		plan.Want.Tokens, plan.Least.Tokens = want.Tokens, least.Tokens
		if known {
			plan.Estimate = cost.Usage{OutputTokens: want.Tokens, CostUSD: plan.Estimate.CostUSD}
		}
	}
	if plan.Want.USD == 0 {
		plan.Want.USD, plan.Least.USD = want.USD, least.USD
		if known {
			plan.Estimate.CostUSD = want.USD
		}
	}
	return plan
}

// Settle stores an answer and books its cost.
func (b *spender) Settle(ctx context.Context, turn int, answer []byte, used cost.Usage) error {
	if b.call == 0 && (used == cost.Usage{}) && answer == nil {
		return nil // nothing was noted, and nothing was spent
	}
	ctx = context.WithoutCancel(ctx)
	e := budget.Entry{Kind: budget.Settled, Call: b.call, Usage: &used}
	if b.call == 0 {
		key := b.attempt
		key.Turn = turn
		e.Key, e.Run, e.Agent, e.Model, e.Request = &key, b.run(), b.plan.Agent, b.plan.Model, b.plan.Request
	}
	if answer != nil {
		var err error
		if e.Answer, err = b.Put(ctx, answer); err != nil {
			return err
		}
	}
	failpoint.Here("answer stored, not booked")
	err := b.end(ctx, e)
	if answer != nil { // how a call that is the whole attempt ended is known at the attempt's end
		b.observed.end.Stored = err == nil
		b.endObserved("")
	}
	return err
}

// Abandon books what a call without an answer has cost.
func (b *spender) Abandon(ctx context.Context, turn int, used cost.Usage) error {
	if b.call == 0 {
		return b.Settle(ctx, turn, nil, used)
	}
	return b.end(context.WithoutCancel(ctx), budget.Entry{Kind: budget.Abandoned, Call: b.call, Usage: &used})
}

// Unsettle books what is known of a call's cost, and an estimate of the rest. Both
// are booked as they are: what the provider has counted may be more than what was set
// aside.
func (b *spender) Unsettle(ctx context.Context, turn int, used, estimate cost.Usage) error {
	if b.call == 0 {
		return b.Settle(ctx, turn, nil, used.Add(estimate))
	}
	e := budget.Entry{Kind: budget.Unsettled, Call: b.call, Usage: &used}
	if estimate != (cost.Usage{}) {
		e.Estimate = &estimate
	}
	return b.end(context.WithoutCancel(ctx), e)
}

// unsettled is the entry that ends a call which was under way when its worker was
// lost. Of an agent program, its own files tell what it has used since it was last
// noted.
func unsettled(programs ProgramUsage, sessions Sessions, key session.Key, id spec.AssignmentID, call budget.Call) budget.Entry {
	e := budget.Entry{Kind: budget.Unsettled, Call: call.ID}
	if call.Key.Turn != 0 || programs == nil {
		return e
	}
	dir, err := sessions.WorkDir(key, id)
	if err != nil {
		return e
	}
	if used, estimate, ok := programs.Reported(call.Agent, dir); ok {
		estimate.CostUSD = cmp.Or(estimate.CostUSD, call.Estimate.CostUSD)
		e.Usage, e.Estimate = &used, &estimate
	}
	return e
}

// end closes the call under way. No process that it was for is at work any more.
func (b *spender) end(ctx context.Context, e budget.Entry) error {
	b.changePlace(func(p *place) { p.busy = false })
	b.observed.end = CallEnd{Usage: *e.Usage}
	if err := b.append(ctx, e); err != nil {
		return err
	}
	failpoint.Here("call booked")
	b.guard.Lock()
	b.call, b.live, b.granted, b.told = 0, cost.Usage{}, cost.Amount{}, 0
	if e.Kind == budget.Settled {
		b.told = cmp.Or(e.Call, b.journal.Next()-1) // a call that is told of at its end is its own entry
	}
	spent := b.journal.Spent()
	b.guard.Unlock()
	b.mu.Lock()
	b.record.Usage = spent
	b.mu.Unlock()
	if e.Answer != "" {
		b.progressed(ctx, true)
	}
	return b.enter(ctx)
}

// KeepTools stores the tool results of the turn that was answered last. The turn can be
// one of an earlier attempt, which ended before its tools had worked.
func (b *spender) KeepTools(ctx context.Context, _ int, doc []byte) error {
	if b.told == 0 {
		return nil // the answer is not kept
	}
	name, err := b.Put(ctx, doc)
	if err != nil {
		return err
	}
	return b.append(ctx, budget.Entry{Kind: budget.Tools, Call: b.told, Tools: name})
}

// Put stores a blob, waiting for a store that cannot take it.
func (b *spender) Put(ctx context.Context, data []byte) (name spec.Digest, err error) {
	err = b.retryStore(ctx, func() error {
		name, err = b.Files.PutBlob(ctx, data)
		return err
	})
	return name, err
}

// Get reads a blob.
func (b *spender) Get(ctx context.Context, name spec.Digest) (data []byte, err error) {
	err = b.retryStore(ctx, func() error {
		data, err = b.Files.Blob(ctx, name)
		return err
	})
	return data, err
}

// spent is what this run has spent on the attempt under way, the call under way
// included.
func (b *spender) spent() cost.Usage {
	b.guard.Lock()
	defer b.guard.Unlock()
	return b.journal.SpentOn(b.run(), b.attempt).Add(b.live)
}

// underWay is the call under way and what it has cost so far, as far as that is
// known.
func (b *spender) underWay() (call int64, live cost.Usage) {
	b.guard.Lock()
	defer b.guard.Unlock()
	return b.call, b.live
}

// total is all that the assignment has cost.
func (b *spender) total() cost.Usage {
	b.guard.Lock()
	defer b.guard.Unlock()
	return b.journal.Spent()
}
