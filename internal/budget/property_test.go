package budget

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// The moments of a call, between which its worker may die.
const (
	idle     = iota // nothing is under way
	reserved        // set aside in the ledger, not yet in the journal
	begun           // in the journal
	paid            // its end is in the journal, not yet in the ledger
)

// spender is an assignment that makes calls until it has made enough, or one was
// refused.
type spender struct {
	id      spec.AssignmentID
	journal Journal
	moment  int
	call    int64
	granted cost.Amount
	left    int // calls yet to be made
	refused bool
}

// company is a session of many spenders, whose ledger is held against what their
// journals say.
type company struct {
	t        *testing.T
	random   *rand.Rand
	ledger   Ledger
	spenders []*spender
	now      time.Time
	warnings []Warning
	refusals int
	waits    int
}

func newCompany(t *testing.T, seed uint64) *company {
	t.Helper()
	c := &company{t: t, random: rand.New(rand.NewPCG(seed, 4)), now: noon}
	c.ledger.Limits = Limits{Phases: map[string]spec.Cap{}, Personas: map[string]spec.Cap{}, WarnAt: []float64{0.5, 0.8, 1}}
	limit := func(most int64) spec.Cap {
		var limit spec.Cap
		if c.random.IntN(3) > 0 {
			limit.Tokens = 1 + c.random.Int64N(most)
		}
		if c.random.IntN(2) > 0 {
			limit.USD = cost.USD(1 + c.random.Int64N(most*2))
		}
		return limit
	}
	c.ledger.Limits.Session = limit(20_000)
	for i := range 32 {
		id := spec.AssignmentID{Phase: fmt.Sprintf("phase%d", i%3), Persona: fmt.Sprintf("persona%d", i/2)}
		c.ledger.Limits.Phases[id.Phase] = limit(10_000)
		c.ledger.Limits.Personas[id.Persona] = limit(2_000)
		c.spenders = append(c.spenders, &spender{id: id, left: 1 + c.random.IntN(8)})
	}
	return c
}

// held adds up what the spenders that count have spent, by their journals, and
// have been granted.
func (c *company) held(counts func(spec.AssignmentID) bool) (spent, open cost.Amount) {
	for _, s := range c.spenders {
		if !counts(s.id) {
			continue
		}
		spent = spent.Add(s.journal.Spent().Amount())
		for _, call := range s.journal.Unsettled() {
			spent = spent.Add(call.Estimate.Amount())
		}
		if s.moment == reserved || s.moment == begun {
			open = open.Add(booked(s.granted))
		}
	}
	return spent, open
}

// budgets are the caps that an assignment draws from, each with who else does.
func (c *company) budgets(id spec.AssignmentID) map[string]struct {
	cap    spec.Cap
	counts func(spec.AssignmentID) bool
} {
	return map[string]struct {
		cap    spec.Cap
		counts func(spec.AssignmentID) bool
	}{
		SessionScope:            {c.ledger.Limits.Session, func(spec.AssignmentID) bool { return true }},
		"phase " + id.Phase:     {c.ledger.Limits.Phases[id.Phase], func(o spec.AssignmentID) bool { return o.Phase == id.Phase }},
		"persona " + id.Persona: {c.ledger.Limits.Personas[id.Persona], func(o spec.AssignmentID) bool { return o.Persona == id.Persona }},
	}
}

// passes reports whether an amount is more than a cap allows.
func passes(a cost.Amount, limit spec.Cap) bool {
	return (limit.Tokens > 0 && a.Tokens > limit.Tokens) || (limit.USD > 0 && a.USD > limit.USD)
}

// check requires that no budget is passed, by what the journals say.
func (c *company) check(s *spender) {
	c.t.Helper()
	for name, b := range c.budgets(s.id) {
		spent, open := c.held(b.counts)
		require.False(c.t, passes(spent.Add(open), b.cap), "%s: %v spent and %v reserved of %v", name, spent, open, b.cap)
	}
}

// wish is what a call may cost.
func (c *company) wish() (want, least cost.Amount) {
	if c.random.IntN(10) == 0 {
		return c.ledger.Guess("agent")
	}
	want = cost.Amount{Tokens: 1 + c.random.Int64N(600), USD: cost.USD(c.random.Int64N(1200))}
	return want, cost.Amount{Tokens: 1 + c.random.Int64N(want.Tokens), USD: cost.USD(c.random.Int64N(int64(want.USD) + 1))}
}

// part is a random part of an amount, far from what has no bounds.
func (c *company) part(a cost.Amount) cost.Usage {
	return cost.Usage{
		OutputTokens: c.random.Int64N(min(a.Tokens, 500) + 1),
		CostUSD:      cost.USD(c.random.Int64N(int64(min(a.USD, 900)) + 1)),
	}
}

func (c *company) reserve(s *spender) {
	want, least := c.wish()
	call := s.journal.Next()
	v := c.ledger.Reserve(s.id, call, want, least)
	switch {
	case v.Refused != "":
		b := c.budgets(s.id)[v.Scope]
		spent, _ := c.held(b.counts)
		require.True(c.t, passes(spent.Add(least), b.cap), "%s refuses %v although %v of %v is spent", v.Scope, least, spent, b.cap)
		s.refused = true
		c.refusals++
	case v.Wait:
		counts := c.budgets(s.id)[v.Scope].counts
		require.True(c.t, slices.ContainsFunc(c.spenders, func(o *spender) bool { return counts(o.id) && o.moment != idle }), "%s waits for nobody", v.Scope)
		for name := range c.budgets(s.id) {
			limit, spent := c.ledger.Budget(name) // which may have yet to hear of calls that have ended
			require.False(c.t, passes(spent.Add(least), limit), "waits although %s can never pay for %v", name, least)
		}
		c.waits++
	default:
		require.True(c.t, covers(v.Granted, least) && covers(want, v.Granted), "%v granted of %v, at least %v", v.Granted, want, least)
		s.moment, s.call, s.granted = reserved, call, v.Granted
	}
}

func (c *company) append(s *spender, e Entry) {
	e.Seq, e.At = s.journal.Next(), c.now
	require.NoError(c.t, s.journal.Apply(e))
}

// book has the ledger say what the journal adds up to.
func (c *company) book(s *spender) {
	row := s.journal.Row(c.ledger.Row(s.id).Reserved)
	c.warnings = append(c.warnings, c.ledger.SetRow(s.id, row, c.now)...)
	require.Equal(c.t, s.journal.Row(row.Reserved), c.ledger.Row(s.id))
}

// step lets a spender continue by one moment.
func (c *company) step(s *spender) {
	c.now = c.now.Add(time.Duration(c.random.IntN(90)) * time.Minute)
	switch s.moment {
	case idle:
		c.reserve(s)
	case reserved:
		estimate := c.part(s.granted)
		c.append(s, Entry{Kind: Begun, Key: turn(1), Agent: "agent", Estimate: &estimate})
		s.moment = begun
	case begun:
		c.end(s)
		s.moment = paid
	case paid:
		c.book(s)
		s.moment, s.left = idle, s.left-1
	}
	c.check(s)
}

// end ends a call within what it was granted. Of a program's call a part may be known
// and the rest not.
func (c *company) end(s *spender) {
	used := c.part(s.granted)
	e := Entry{Kind: []Kind{Settled, Settled, Abandoned, Unsettled}[c.random.IntN(4)], Call: s.call, Usage: &used}
	if e.Kind == Unsettled {
		rest := c.part(cost.Amount{Tokens: s.granted.Tokens - used.Tokens(), USD: s.granted.USD - used.CostUSD})
		e.Estimate = &rest
		if c.random.IntN(2) == 0 { // it was reported before
			c.append(s, Entry{Kind: Reported, Call: s.call, Usage: &used, Estimate: &rest})
			e.Usage, e.Estimate = nil, nil
		}
	}
	c.append(s, e)
}

// crash ends a spender's worker, and lets another take over: what was under way
// is unsettled.
func (c *company) crash(s *spender) {
	for _, call := range s.journal.Open() {
		c.append(s, Entry{Kind: Unsettled, Call: call.ID})
	}
	c.book(s)
	require.Empty(c.t, c.ledger.Row(s.id).Reserved)
	s.moment = idle
	c.check(s)
}

// run lets the spenders continue in random order until all are done.
func (c *company) run() {
	for range 1_000_000 {
		var going []*spender
		for _, s := range c.spenders {
			if !s.refused && s.left > 0 || s.moment != idle {
				going = append(going, s)
			}
		}
		if len(going) == 0 {
			return
		}
		s := going[c.random.IntN(len(going))]
		if c.random.IntN(12) == 0 {
			c.crash(s)
		} else {
			c.step(s)
		}
		if c.random.IntN(200) == 0 {
			c.raise()
		}
	}
	require.Fail(c.t, "somebody waits for ever")
}

// raise lets the session spend more; what was refused is tried again.
func (c *company) raise() {
	limits := &c.ledger.Limits
	if limits.Session.Tokens > 0 {
		limits.Session.Tokens += c.random.Int64N(500)
	}
	for _, s := range c.spenders {
		s.refused = false
	}
}

func TestThirtyTwoSpendersNeverPassABudget(t *testing.T) {
	t.Parallel()
	refusals, waits, companies := 0, 0, uint64(150)
	if testing.Short() {
		companies = 30
	}
	for seed := range companies {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCompany(t, seed)
			c.run()
			var sum cost.Usage
			for _, s := range c.spenders {
				require.Equal(t, s.journal.Row(nil), c.ledger.Row(s.id))
				sum = sum.Add(s.journal.Spent())
			}
			require.Equal(t, sum, c.ledger.Usage())
			require.Zero(t, c.ledger.Reserved(), "nothing stays set aside")
			require.Equal(t, c.ledger.Warnings, c.warnings, "each is given once")
			c.checkWarnings()
			refusals, waits = refusals+c.refusals, waits+c.waits
		})
	}
	require.Greater(t, refusals, 5*int(companies), "the caps are reached")
	require.Greater(t, waits, 5*int(companies), "the spenders compete")
}

// checkWarnings requires that each fraction of a budget that was passed has been
// warned of, and once for each cap.
func (c *company) checkWarnings() {
	c.t.Helper()
	given := map[Warning]bool{}
	warned := map[string]bool{}
	for _, w := range c.warnings {
		require.Positive(c.t, w.At)
		require.False(c.t, w.When.IsZero())
		key := Warning{Scope: w.Scope, At: w.At, Cap: w.Cap}
		require.False(c.t, given[key], "%s is warned of at %v twice", w.Scope, w.At)
		given[key] = true
		warned[fmt.Sprintf("%s at %v", w.Scope, w.At)] = true
	}
	for _, s := range c.spenders {
		for name, fraction := range c.ledger.Fractions(s.id) {
			for _, at := range c.ledger.Limits.WarnAt {
				if fraction >= at {
					require.True(c.t, warned[fmt.Sprintf("%s at %v", name, at)], "%s is at %v", name, fraction)
				}
			}
		}
	}
}
