package activities

import (
	"cmp"
	"context"
	"strings"
	"sync"

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
	files    Files
	workDirs WorkDirs
	ledgers  Ledgers
	agents   Agents
	observer Observer
	clock    Clock
	team     spec.Team
	key      session.Key
	id       spec.AssignmentID
	// run is the session's workflow run, agent the one that works, and free as in
	// [RoundInput].
	run, agent string
	free       bool
	// retryStore tries something with the store until the store can be used, and
	// setProgress says what is waited for.
	retryStore  func(ctx context.Context, try func() error) error
	setProgress func(line string)
	round       callEnds

	// attempt is the one under way; earlier are those whose conversation it
	// continues with, newest first.
	attempt session.CallKey
	earlier []session.CallKey

	// mu is held only to look and to change, never to wait. Only the agent
	// at work changes anything.
	mu      sync.Mutex
	journal *budget.Journal
	current callUnderWay
	// answered is the settled call whose answer the agent got last.
	answered int64
	// report is a report that the store could not take: it may be there or not, so
	// it comes before every other entry. nil: there is none.
	report *budget.Entry
	// refusal is the budget that could not pay; zero: all could.
	refusal budget.Verdict
	// observed is used by the agent's goroutine only.
	observed observed
}

// callUnderWay is the call that the agent makes now, or the last one's plan.
type callUnderWay struct {
	// id is its number in the journal; zero: none is noted.
	id   int64
	plan session.CallPlan
	// granted is what was set aside for it, and used what it has used so far.
	granted cost.Amount
	used    cost.Usage
}

// callEnds is told when calls end.
type callEnds interface {
	// callEnded says that no process of the call is at work any more.
	callEnded()
	// callBooked says that a call is in the journal. answered: the
	// call's answer is stored.
	callBooked(ctx context.Context, answered bool)
}

// open reads the assignment's journal. A call that an execution before this one did not end
// is unsettled from now on: its money may be spent.
func (s *spender) open(ctx context.Context) error {
	var err error
	if s.journal, err = fromStore(ctx, s.retryStore, func() (*budget.Journal, error) { return s.ledgers.Journal(s.key, s.id) }); err != nil {
		return err
	}
	open := s.journal.Open()
	for _, call := range open {
		e := unsettled(s.agents, s.workDirs, s.key, s.id, call)
		if err := s.append(ctx, e); err != nil {
			return err
		}
		ended := s.journal.Call(call.ID)
		activity.GetLogger(ctx).Warn("a paid call was in flight when its worker was lost; its unknown cost stays unsettled",
			"assignment", s.id.String(), "call", call.ID, "known", ended.Usage.Tokens(), "estimate", ended.Estimate.Tokens())
	}
	return nil
}

// begin says which attempt the next calls are of.
func (s *spender) begin(attempt session.CallKey, earlier []session.CallKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt, s.earlier, s.refusal = attempt, earlier, budget.Verdict{}
}

// append adds an entry to the journal, in the store first. It is not given up
// because the work is: what is paid for is paid for.
func (s *spender) append(ctx context.Context, e budget.Entry) error {
	if s.report != nil {
		if err := s.write(ctx, *s.report); err != nil {
			return err
		}
		s.report = nil
	}
	e.Seq, e.At = s.journal.Next(), s.clock().UTC()
	return s.write(ctx, e)
}

// write writes a numbered entry, waiting for a store that cannot take it.
func (s *spender) write(ctx context.Context, e budget.Entry) error {
	if err := s.retryStore(ctx, func() error { return s.ledgers.AppendEntry(s.key, s.id, e) }); err != nil {
		return err
	}
	return s.apply(e)
}

func (s *spender) apply(e budget.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.Apply(e)
}

// updateLedger brings the assignment's row in the session's ledger up to date, and logs
// the warnings that this gives.
func (s *spender) updateLedger(ctx context.Context) error {
	s.mu.Lock()
	var reserved map[int64]cost.Amount
	if s.current.id != 0 {
		reserved = map[int64]cost.Amount{s.current.id: s.current.granted}
	}
	row := s.journal.Row(reserved)
	s.mu.Unlock()
	var warnings []budget.Warning
	var fractions map[string]float64
	err := s.retryStore(ctx, func() error {
		return s.ledgers.UpdateLedger(s.key, func(l *budget.Ledger) error {
			s.limit(l)
			warnings = l.SetRow(s.id, row, s.clock().UTC())
			fractions = l.Fractions(s.id)
			return nil
		})
	})
	s.showFractions(fractions)
	for _, w := range warnings {
		activity.GetLogger(ctx).Warn("a budget threshold is reached", "budget", w.Scope,
			"at", w.At, "tokens", w.Spent.Tokens, "usd", w.Spent.USD.String())
	}
	return err
}

// Stored looks the turn up among those of this attempt, and of the ones whose
// conversation it continues with.
func (s *spender) Stored(ctx context.Context, turn int, request spec.Digest) (*session.StoredTurn, error) {
	s.mu.Lock()
	var call *budget.Call
	for _, key := range append([]session.CallKey{s.attempt}, s.earlier...) {
		key.Turn = turn
		if call = s.journal.Find(key, request); call != nil {
			break
		}
	}
	if call != nil {
		s.answered = call.ID
	}
	s.mu.Unlock()
	if call == nil {
		return nil, nil
	}
	turnOf := &session.StoredTurn{Usage: call.Usage}
	var err error
	if turnOf.Answer, err = s.Get(ctx, call.Answer); err != nil {
		activity.GetLogger(ctx).Warn("a stored answer is lost; the call is paid for again", "call", call.ID, "error", err)
		return nil, ctx.Err()
	}
	if call.Tools != "" {
		if turnOf.Tools, err = s.Get(ctx, call.Tools); err != nil {
			turnOf.Tools = nil
		}
	}
	s.observer.CallReplayed(s.observedCall(s.agent, ""))
	return turnOf, nil
}

// Settle stores an answer and books its cost.
func (s *spender) Settle(ctx context.Context, turn int, answer []byte, used cost.Usage) error {
	if s.current.id == 0 && (used == cost.Usage{}) && answer == nil {
		return nil // nothing was noted, and nothing was spent
	}
	ctx = context.WithoutCancel(ctx)
	e := budget.Entry{Kind: budget.Settled, Call: s.current.id, Usage: &used}
	if s.current.id == 0 {
		key := s.attempt
		key.Turn = turn
		e.Key, e.Run, e.Agent, e.Model, e.Request = &key, s.run, s.current.plan.Agent, s.current.plan.Model, s.current.plan.Request
	}
	if answer != nil {
		var err error
		if e.Answer, err = s.Put(ctx, answer); err != nil {
			return err
		}
	}
	failpoint.Here("answer stored, not booked")
	err := s.end(ctx, e)
	if answer != nil { // how a call that is the whole attempt ended is known at the attempt's end
		s.observed.end.Stored = err == nil
		s.endObserved("")
	}
	return err
}

// Abandon books what a call without an answer has cost.
func (s *spender) Abandon(ctx context.Context, turn int, used cost.Usage) error {
	if s.current.id == 0 {
		return s.Settle(ctx, turn, nil, used)
	}
	return s.end(context.WithoutCancel(ctx), budget.Entry{Kind: budget.Abandoned, Call: s.current.id, Usage: &used})
}

// Unsettle books what is known of a call's cost, and an estimate of the rest. Both
// are booked as they are: what the provider has counted may be more than what was set
// aside.
func (s *spender) Unsettle(ctx context.Context, turn int, used, estimate cost.Usage) error {
	if s.current.id == 0 {
		return s.Settle(ctx, turn, nil, used.Add(estimate))
	}
	e := budget.Entry{Kind: budget.Unsettled, Call: s.current.id, Usage: &used}
	if estimate != (cost.Usage{}) {
		e.Estimate = &estimate
	}
	return s.end(context.WithoutCancel(ctx), e)
}

// unsettled is the entry that ends a call which was under way when its worker was
// lost. The files of an agent program have what it has used since that was last
// noted.
func unsettled(programs ProgramUsage, workDirs WorkDirs, key session.Key, id spec.AssignmentID, call budget.Call) budget.Entry {
	e := budget.Entry{Kind: budget.Unsettled, Call: call.ID}
	if call.Key.Turn != 0 || programs == nil {
		return e
	}
	dir, err := workDirs.Make(key, id)
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
func (s *spender) end(ctx context.Context, e budget.Entry) error {
	s.round.callEnded()
	s.observed.end = CallEnd{Usage: *e.Usage}
	if err := s.append(ctx, e); err != nil {
		return err
	}
	failpoint.Here("call booked")
	s.mu.Lock()
	s.current, s.answered = callUnderWay{plan: s.current.plan}, 0
	if e.Kind == budget.Settled {
		s.answered = cmp.Or(e.Call, s.journal.Next()-1) // a call that is noted only at its end is its own entry
	}
	s.mu.Unlock()
	s.round.callBooked(ctx, e.Answer != "")
	return s.updateLedger(ctx)
}

// KeepTools stores the tool results of the turn that was answered last. The turn can be
// one of an earlier attempt, which ended before its tools had worked.
func (s *spender) KeepTools(ctx context.Context, _ int, doc []byte) error {
	if s.answered == 0 {
		return nil // the answer is not kept
	}
	name, err := s.Put(ctx, doc)
	if err != nil {
		return err
	}
	return s.append(ctx, budget.Entry{Kind: budget.Tools, Call: s.answered, Tools: name})
}

// Put stores a blob, waiting for a store that cannot take it.
func (s *spender) Put(ctx context.Context, data []byte) (spec.Digest, error) {
	return fromStore(ctx, s.retryStore, func() (spec.Digest, error) { return s.files.PutBlob(ctx, data) })
}

// Get reads a blob.
func (s *spender) Get(ctx context.Context, name spec.Digest) ([]byte, error) {
	return fromStore(ctx, s.retryStore, func() ([]byte, error) { return s.files.Blob(ctx, name) })
}

// spent is what this run has spent on the attempt under way, the call under way
// included.
func (s *spender) spent() cost.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.SpentOn(s.run, s.attempt).Add(s.current.used)
}

// describe adds to a heartbeat what the attempt and the call under way have cost.
func (s *spender) describe(beat *Heartbeat) {
	beat.Agent, beat.Spent = s.agent, s.spent()
	s.mu.Lock()
	defer s.mu.Unlock()
	beat.Call, beat.Live = s.current.id, s.current.used
}

// total is all that the assignment has cost.
func (s *spender) total() cost.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.Spent()
}

// observed is the call that the observer has seen begin.
type observed struct {
	// ended reports its end; nil: no call is open.
	ended func(CallEnd)
	end   CallEnd
}

// endObserved reports the end of the last call, if that is still open.
func (s *spender) endObserved(category failures.Category) {
	if s.observed.ended != nil {
		s.observed.end.Category = category
		s.observed.ended(s.observed.end)
		s.observed.ended = nil
	}
}

// observedCall names a call for the observer.
func (s *spender) observedCall(agent, model string) Call {
	offered := s.agents.Offered(agent)
	return Call{
		Team: s.team.Name, Session: s.key.Session, Agent: agent,
		Kind: offered.Kind, Model: cmp.Or(model, offered.Model),
	}
}

// showFractions reports which part is spent of the budgets that an assignment draws from.
func (s *spender) showFractions(fractions map[string]float64) {
	for name, fraction := range fractions {
		kind, _, _ := strings.Cut(name, " ")
		s.observer.BudgetFraction(s.team.Name, kind, fraction)
	}
}
