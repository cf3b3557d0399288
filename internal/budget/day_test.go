package budget

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// office is some sessions of a team that share its day, as a store keeps them: each
// change of a ledger is one of the day, too, and either may get lost.
type office struct {
	t        *testing.T
	random   *rand.Rand
	now      time.Time
	day      *Day
	raises   map[string][]Raise // the journals of the days
	sessions []*company
	grants   int
	refusals int
	waits    int
}

func newOffice(t *testing.T, seed uint64) *office {
	o := &office{t: t, random: rand.New(rand.NewPCG(seed, 9)), now: noon, raises: map[string][]Raise{}}
	for n := range 4 {
		c := newCompany(t, seed*100+uint64(n))
		c.spenders = c.spenders[:3]
		c.ledger.Session = fmt.Sprint("s", n)
		c.ledger.Limit("t", Limits{Session: spec.Cap{Tokens: 4000}, Daily: spec.Cap{Tokens: 1500, USD: 2500}, WarnAt: []float64{0.5, 1}})
		o.sessions = append(o.sessions, c)
	}
	return o
}

// open returns the day that it is, made from the ledgers if it is new, or was lost.
func (o *office) open() *Day {
	if date := Date(o.now); o.day == nil || o.day.Date != date {
		o.day = &Day{Date: date, Team: "t"}
		for _, r := range o.raises[date] {
			o.day.Raise(r)
		}
		for _, c := range o.sessions {
			o.day.Take(c.ledger.Session, &c.ledger)
		}
	}
	return o.day
}

// change changes a ledger and the day.
func (o *office) change(c *company, change func(*Ledger)) {
	c.now = o.now
	c.ledger.Share(o.open())
	change(&c.ledger)
	c.ledger.Share(nil)
	o.day.Take(c.ledger.Session, &c.ledger)
}

// truth is what the journals say of a day, and what is set aside by those at work.
func (o *office) truth(date string) (spent, open cost.Amount) {
	for _, c := range o.sessions {
		for _, s := range c.spenders {
			for _, call := range s.journal.Calls() {
				switch {
				case call.State == Begun:
				case Date(call.EndedAt) != date:
				case call.State == Unsettled:
					spent = spent.Add(call.Usage.Amount()).Add(call.Estimate.Amount())
				default:
					spent = spent.Add(call.Usage.Amount())
				}
			}
			if s.moment == reserved || s.moment == begun {
				open = open.Add(s.granted)
			}
		}
	}
	return spent, open
}

// reserve asks for a call, and holds the answer to what the journals say.
func (o *office) reserve(c *company, s *spender) {
	want := cost.Amount{Tokens: 1 + o.random.Int64N(400), USD: cost.USD(o.random.Int64N(600))}
	least := cost.Amount{Tokens: 1 + o.random.Int64N(want.Tokens)}
	var v Verdict
	call := s.journal.Next()
	o.change(c, func(l *Ledger) { v = l.Reserve(s.id, call, want, least) })
	switch {
	case v.Refused != "":
		o.refusals++
		require.NotContains(o.t, v.Refused, "0.00000000")
	case v.Wait:
		o.waits++
		require.NotZero(o.t, o.day.Sum().Reserved, "it waits for nobody")
	default:
		o.grants++
		s.moment, s.call, s.granted = reserved, call, v.Granted
		spent, open := o.truth(o.day.Date)
		limit := o.day.Limit()
		held := spent.Add(open)
		require.True(o.t, v.Granted.Tokens == 0 || held.Tokens <= limit.Tokens, "%d tokens of %d on %s", held.Tokens, limit.Tokens, o.day.Date)
		require.True(o.t, v.Granted.USD == 0 || held.USD <= limit.USD, "%s USD of %s on %s", held.USD, limit.USD, o.day.Date)
	}
}

// step lets a spender continue, or its worker die.
func (o *office) step(c *company, s *spender) {
	c.now = o.now
	switch {
	case s.moment != idle && o.random.IntN(8) == 0:
		for _, call := range s.journal.Open() {
			c.append(s, Entry{Kind: Unsettled, Call: call.ID})
		}
		s.moment = paid
	case s.moment == idle:
		o.reserve(c, s)
	case s.moment == reserved:
		estimate := c.part(s.granted)
		c.append(s, Entry{Kind: Begun, Key: turn(1), Agent: "agent", Estimate: &estimate})
		s.moment = begun
	case s.moment == begun:
		c.end(s)
		s.moment = paid
	default:
		s.moment = idle
		o.book(c, s)
	}
}

func (o *office) book(c *company, s *spender) {
	o.change(c, func(l *Ledger) { l.SetRow(s.id, s.journal.Row(nil), o.now) })
}

// writeOff settles all unsettled calls of a spender as nothing, unless it is at work.
func (o *office) writeOff(c *company, s *spender) {
	c.now = o.now
	if s.moment != idle {
		return
	}
	for _, call := range s.journal.Unsettled() {
		c.append(s, Entry{Kind: Closed, Call: call.ID, Usage: &cost.Usage{}})
	}
	o.book(c, s)
}

func (o *office) raise(n int) {
	r := Raise{ID: fmt.Sprint("r", n), Scope: DayScope, Added: tokens(o.random.Int64N(300)), When: o.now}
	o.open().Raise(r)
	o.raises[o.day.Date] = append(o.raises[o.day.Date], r)
	o.open().Raise(r)
}

// lose loses the day's document, or a ledger's.
func (o *office) lose() {
	if o.random.IntN(2) == 0 {
		before := *o.open()
		o.day = nil
		after := *o.open()
		require.Equal(o.t, before.Limit(), after.Limit(), "no raise is lost")
		require.Equal(o.t, before.Sum(), after.Sum())
		return
	}
	data, err := json.Marshal(o.open())
	require.NoError(o.t, err)
	var again Day
	require.NoError(o.t, json.Unmarshal(data, &again))
	require.Equal(o.t, *o.day, again)
	o.day = &again
}

func TestSessionsNeverPassTheirDayWhateverHappens(t *testing.T) {
	t.Parallel()
	var all office
	for seed := range uint64(25) {
		o := newOffice(t, seed)
		for n := range 1500 {
			c := o.sessions[o.random.IntN(len(o.sessions))]
			s := c.spenders[o.random.IntN(len(c.spenders))]
			switch o.random.IntN(60) {
			case 0:
				o.lose()
			case 1:
				o.writeOff(c, s)
			case 2:
				o.raise(n)
			case 3:
				o.now = o.now.Add(time.Duration(o.random.IntN(300)) * time.Minute)
			default:
				o.step(c, s)
			}
		}
		for _, c := range o.sessions {
			for _, s := range c.spenders {
				for s.moment != idle {
					o.step(c, s)
				}
				o.writeOff(c, s)
			}
			require.Zero(t, c.ledger.Reserved())
			require.Zero(t, c.ledger.Unsettled())
		}
		sum := o.open().Sum()
		spent, _ := o.truth(o.day.Date)
		require.Equal(t, DayRow{Spent: spent}, sum, "what ends, and what is written off, is given back")
		all.grants, all.refusals, all.waits = all.grants+o.grants, all.refusals+o.refusals, all.waits+o.waits
	}
	require.Greater(t, all.grants, 2000)
	require.Greater(t, all.refusals, 500, "the caps are reached")
	require.Greater(t, all.waits, 100, "the sessions compete")
}

func TestARefusalNamesWhatIsUnsettledAndHowToSettleIt(t *testing.T) {
	t.Parallel()
	id := spec.AssignmentID{Phase: "build", Persona: "dev"}
	lost := Row{Unsettled: []UnsettledCall{{Call: 3, Date: "2026-01-31", Estimate: cost.Usage{OutputTokens: 5, CostUSD: 920_000_000}}}}
	first := &Ledger{Session: "d3"}
	first.Limit("t", Limits{Session: spec.Cap{USD: 1_000_000_000}, Daily: spec.Cap{USD: 920_000_000}})
	first.SetRow(id, lost, noon)
	day := &Day{Date: "2026-01-31"}
	day.Take("d3", first)

	want, least := first.Guess("x")
	require.False(t, first.Reserve(id, 4, want, cost.Amount{Tokens: 1, USD: 80_000_001}).Wait)
	v := first.Reserve(id, 4, want, cost.Amount{Tokens: 1, USD: 80_000_001})
	require.Equal(t, "the budget of the session is not sufficient: 0.08 of 1 USD left, and the next call needs 0.080000001; "+
		"0.92 USD of it are estimates of 1 unsettled call: maestro budget settle d3 build/dev 3 --write-off", v.Refused)
	require.True(t, v.Unsettled)

	second := &Ledger{Session: "d4"}
	second.Limit("t", first.Limits)
	second.Share(day)
	v = second.Reserve(id, 1, want, least)
	require.Equal(t, "the daily budget of team t is not sufficient: 0 of 0.92 USD left; 0.92 USD of it are estimates of "+
		"1 unsettled call of session d3: maestro budget settle d3 build/dev 3 --write-off; the next day begins at 2026-02-01 00:00 UTC", v.Refused)
	require.Equal(t, "2026-01-31", v.Date)

	first.SetRow(id, Row{}, noon)
	day.Take("d3", first)
	require.Empty(t, second.Reserve(id, 1, want, least).Refused, "a write-off gives back to the day")
}

func TestWarningsSpeakOfTheCapAsItIs(t *testing.T) {
	t.Parallel()
	id := spec.AssignmentID{Phase: "build", Persona: "dev"}
	used := func(n int64) Row {
		return Row{Spent: []Spending{{Date: "2026-01-31", Usage: cost.Usage{InputTokens: n}}}}
	}
	l := &Ledger{}
	l.Limit("t", Limits{Session: spec.Cap{Tokens: 100}, WarnAt: []float64{0.5, 0.8}})
	require.Len(t, l.SetRow(id, used(90), noon), 2)
	l.Raise(Raise{ID: "1", Scope: SessionScope, Added: tokens(50)})
	require.Equal(t, []Warning{{Scope: SessionScope, At: 0.5, Spent: tokens(90), Cap: spec.Cap{Tokens: 150}, When: noon}}, l.Warnings,
		"90 of 150 are less than 80 %")
	require.Len(t, l.SetRow(id, used(120), noon), 1, "it is warned of anew")
	l.Limit("t", Limits{Session: spec.Cap{Tokens: 1000}, WarnAt: []float64{0.5, 0.8}})
	require.Empty(t, l.Warnings)
}
