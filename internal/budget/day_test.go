package budget

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

// need is a draw of a session that has spent something and needs more.
func need(session string, serial, spent, want, least int64) Draw {
	return Draw{
		Session: session, Date: "2026-01-31", Serial: serial, Cap: team.Cap{Tokens: 1000},
		Spent: tokens(spent), Want: tokens(want), Least: tokens(least), Agent: "writer",
	}
}

func TestADayGrantsWaitsAndRefuses(t *testing.T) {
	t.Parallel()
	d, out := Day{}.Draw(need("a", 0, 0, 200, 50), noon)
	require.Equal(t, Drawn, out.Effect)
	require.EqualValues(t, 200+800/8, out.Allowance.Granted.Tokens, "what it needs and an eighth of the rest")
	require.EqualValues(t, -1, out.Allowance.Granted.USD, "not limited")
	d, out = d.Draw(need("b", 0, 0, 700, 50), noon)
	require.EqualValues(t, 700, out.Allowance.Granted.Tokens)

	d, out = d.Draw(need("c", 0, 0, 200, 100), noon)
	require.Equal(t, DrawWaits, out.Effect, "a and b may not need all that they were granted")
	require.Zero(t, out.Allowance.Granted.Tokens)
	d, out = d.Draw(need("b", 1, 900, 0, 0), noon)
	require.EqualValues(t, 900, out.Allowance.Granted.Tokens, "what is spent is spent, were it more than was granted")
	d, out = d.Draw(need("a", 1, 60, 0, 0), noon)
	require.EqualValues(t, 60, out.Allowance.Granted.Tokens)
	_, out = d.Draw(need("c", 1, 0, 200, 100), noon)
	require.Equal(t, DrawRefused, out.Effect)
	require.Equal(t, "the daily budget of team t is spent: 40 of 1000 tokens are left, and the next call needs 100; the next day begins at 2026-02-01 00:00 UTC",
		out.Refusal("t"))
	_, out = d.Draw(need("c", 1, 0, 200, 40), noon)
	require.Equal(t, Drawn, out.Effect, "an answer is cut to what is left")
	require.Equal(t, tokens(40), out.Cut(need("c", 1, 0, 200, 40), tokens(200)))

	d = d.Raise(Raise{ID: "r", Added: tokens(500)}, noon).Raise(Raise{ID: "r", Added: tokens(500)}, noon)
	require.EqualValues(t, 1500, d.Limit().Tokens, "told of twice, it counts once")
	require.EqualValues(t, 1000, d.At(noon.AddDate(0, 0, 1)).Limit().Tokens, "and on its day only")
}

func TestADrawThatIsToldOfTwiceIsGrantedOnce(t *testing.T) {
	t.Parallel()
	first, out := Day{}.Draw(need("a", 0, 0, 200, 50), noon)
	again, repeated := first.Draw(need("a", 0, 0, 200, 50), noon)
	require.Equal(t, out.Allowance.Granted, repeated.Allowance.Granted)
	require.Equal(t, first.View("t"), again.View("t"))
	_, late := again.Draw(need("a", 1, 0, 0, 0), noon)
	require.Equal(t, out.Allowance.Granted, late.Allowance.Granted, "what was drawn since is not taken away by what is late")
}

func TestACallOfUnknownCost(t *testing.T) {
	t.Parallel()
	var l Ledger
	want, least := l.Guess("writer")
	unknown := need("a", 0, 0, want.Tokens, least.Tokens)
	unknown.Want, unknown.Least = want, least
	d, out := Day{}.Draw(unknown, noon)
	require.EqualValues(t, 1000, out.Allowance.Granted.Tokens, "the first of all may cost all there is")
	unknown.Session = "b"
	d, out = d.Draw(unknown, noon)
	require.Equal(t, DrawWaits, out.Effect)
	told := need("a", 1, 100, 0, 0)
	told.Largest = tokens(100)
	d, _ = d.Draw(told, noon)
	unknown.Serial = 1
	_, out = d.Draw(unknown, noon)
	require.EqualValues(t, 100+800/8, out.Allowance.Granted.Tokens, "another session has learnt what its calls cost")
	unknown.Agent = "coder"
	d, out = d.Draw(unknown, noon)
	require.EqualValues(t, 900, out.Allowance.Granted.Tokens)
	require.Equal(t, "2026-02-01", d.At(noon.AddDate(0, 0, 1)).Date)
	require.NotEmpty(t, d.At(noon.AddDate(0, 0, 7)).Costs, "that is not forgotten at midnight")
}

func TestMidnightCarriesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	d, _ := Day{}.Draw(need("works", 0, 100, 300, 50), noon)
	d, _ = d.Draw(need("closed", 0, 400, 0, 0), noon)
	tomorrow := noon.AddDate(0, 0, 1)
	d = d.At(tomorrow)
	require.Equal(t, []Grant{{Session: "works", Granted: tokens(375), Serial: 1, Carried: true}}, d.Grants)
	late := need("works", 1, 100, 0, 0)
	same, out := d.Draw(late, tomorrow)
	require.Equal(t, OtherDay, out.Effect, "yesterday is closed")
	require.Equal(t, d, same)
	late.Date, late.Spent = "2026-02-01", tokens(20)
	told, out := d.Draw(late, tomorrow)
	require.EqualValues(t, 20, out.Allowance.Granted.Tokens)
	require.EqualValues(t, 20, told.View("t").Granted.Tokens)
	require.Empty(t, d.At(tomorrow.AddDate(0, 0, 1)).Grants, "of whom nothing is heard for a day, that is over")
	require.Equal(t, d, d.At(noon), "days do not come again")
}

func TestWarningsOfADayAreGivenOnceOverAllSessions(t *testing.T) {
	t.Parallel()
	warn := func(session string, serial, spent int64) Draw {
		d := need(session, serial, spent, 0, 0)
		d.WarnAt = []float64{0.5, 0.8}
		return d
	}
	d, out := Day{}.Draw(warn("a", 0, 450), noon)
	require.Empty(t, out.Warnings)
	d, out = d.Draw(warn("b", 0, 100), noon)
	require.Equal(t, []Warning{{Scope: DayScope, At: 0.5, Spent: tokens(550), Cap: team.Cap{Tokens: 1000}, When: noon}}, out.Warnings)
	var l Ledger
	require.Len(t, l.Take(out), 1)
	require.Empty(t, l.Take(out))
	require.Len(t, l.Warnings, 1)
	d, out = d.Draw(warn("a", 1, 460), noon)
	require.Empty(t, out.Warnings)
	_, out = d.At(noon.AddDate(0, 0, 1)).Draw(Draw{Session: "a", Date: "2026-02-01", Cap: d.Cap, Spent: tokens(900), WarnAt: []float64{0.5, 0.8}}, noon.AddDate(0, 0, 1))
	require.Len(t, out.Warnings, 2, "the next day is warned of anew")
}

func TestAViewPromisesWhatADrawWouldGet(t *testing.T) {
	t.Parallel()
	d, _ := Day{}.Draw(need("a", 0, 900, 0, 0), noon)
	v := d.View("t")
	require.True(t, v.Promises("2026-01-31", tokens(100), tokens(100)))
	require.False(t, v.Promises("2026-01-31", tokens(101), tokens(101)))
	require.True(t, v.Promises("2026-01-30", tokens(101), tokens(101)), "the day that could not pay is over")
	require.True(t, v.At(noon.AddDate(0, 0, 1)).Promises("2026-01-31", tokens(101), tokens(101)))
	require.True(t, DayView{}.At(noon).Promises("2026-01-31", tokens(1), tokens(1)), "a budget that was lost is drawn from again")
	require.True(t, d.Raise(Raise{ID: "r", Added: tokens(1)}, noon).View("t").Promises("2026-01-31", tokens(101), tokens(101)))
}

// dayCompany is sessions that share days, over messages that are lost, late and
// repeated, with clocks that disagree.
type dayCompany struct {
	t        *testing.T
	random   *rand.Rand
	now      time.Time
	day      Day
	cap      int64
	sessions []*daySession
	draws    []Draw
	answers  []dayAnswer
	// raised and spent are the truth, by date.
	raised, spent map[string]int64
	calls         int
}

type daySession struct {
	name   string
	ledger Ledger
}

type dayAnswer struct {
	to *daySession
	Drawing
}

func newDayCompany(t *testing.T, seed uint64) *dayCompany {
	c := &dayCompany{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: noon, cap: 10_000,
		raised: map[string]int64{}, spent: map[string]int64{},
	}
	for i := range 5 {
		c.sessions = append(c.sessions, &daySession{
			name: fmt.Sprint("s", i), ledger: Ledger{Limits: Limits{Daily: team.Cap{Tokens: c.cap}}},
		})
	}
	return c
}

// clock is what somebody's clock says.
func (c *dayCompany) clock() time.Time {
	return c.now.Add(time.Duration(c.random.IntN(1200)-600) * time.Second)
}

func (c *dayCompany) step() {
	w := c.sessions[c.random.IntN(len(c.sessions))]
	id := team.AssignmentID{Phase: "p", Persona: fmt.Sprint("a", c.random.IntN(3))}
	busy := len(w.ledger.Row(id).Reserved) > 0
	switch c.random.IntN(9) {
	case 0, 1, 2:
		if !busy {
			c.begin(w, id)
		}
	case 3, 4:
		if busy {
			c.end(w, id)
		}
	case 5:
		if draw, ok := w.ledger.GiveBack(c.clock()); ok {
			draw.Session = w.name
			c.draws = append(c.draws, draw)
		}
	case 6:
		c.deliver()
	case 7:
		c.hear()
	case 8:
		c.now = c.now.Add(time.Duration(c.random.IntN(20)) * time.Minute)
		if c.random.IntN(50) == 0 {
			c.day = c.day.Raise(Raise{ID: fmt.Sprint(c.now.UnixNano()), Added: tokens(500)}, c.now)
			c.raised[c.day.Date] += 500
		}
	}
}

func (c *dayCompany) begin(w *daySession, id team.AssignmentID) {
	least := 1 + c.random.Int64N(200)
	want := least + c.random.Int64N(1000)
	if c.random.IntN(10) == 0 {
		want = whatever
	}
	c.calls++
	v := w.ledger.Reserve(id, int64(c.calls), tokens(want), tokens(least), c.clock())
	if v.Draw == nil {
		return
	}
	draw := *v.Draw
	draw.Session, draw.Agent = w.name, "writer"
	c.draws = append(c.draws, draw)
}

func (c *dayCompany) end(w *daySession, id team.AssignmentID) {
	row := w.ledger.Row(id)
	row.Reserved = maps.Clone(row.Reserved)
	for call, granted := range row.Reserved {
		delete(row.Reserved, call)
		cost := c.random.Int64N(granted.Tokens + 1)
		at := c.clock()
		c.spent[Date(at)] += cost
		ended := Call{ID: call, Agent: "writer", Usage: team.Usage{OutputTokens: cost}, EndedAt: at}
		row.Spent = append([]Spending{}, row.Spent...)
		row.Spent = append(row.Spent, Spending{Date: Date(at), Agent: ended.Agent, Usage: ended.Usage})
	}
	w.ledger.SetRow(id, row, c.now)
}

// deliver has the day hear of a draw: any of those under way, once or again.
func (c *dayCompany) deliver() {
	if len(c.draws) == 0 {
		return
	}
	i := c.random.IntN(len(c.draws))
	draw := c.draws[i]
	if c.random.IntN(4) > 0 {
		c.draws = append(c.draws[:i], c.draws[i+1:]...)
	}
	if c.random.IntN(8) == 0 {
		return // lost
	}
	var out Drawing
	c.day, out = c.day.Draw(draw, c.now)
	for _, w := range c.sessions {
		if w.name == draw.Session {
			c.answers = append(c.answers, dayAnswer{w, out})
		}
	}
}

// hear has a session hear of an answer, or never.
func (c *dayCompany) hear() {
	if len(c.answers) == 0 {
		return
	}
	i := c.random.IntN(len(c.answers))
	a := c.answers[i]
	if c.random.IntN(4) > 0 {
		c.answers = append(c.answers[:i], c.answers[i+1:]...)
	}
	if c.random.IntN(8) > 0 {
		a.to.ledger.Take(a.Drawing)
	}
}

func (c *dayCompany) check() {
	for date, spent := range c.spent {
		require.LessOrEqual(c.t, spent, c.cap+c.raised[date], "spent on %s", date)
	}
	for _, g := range c.day.Grants {
		require.GreaterOrEqual(c.t, g.Granted.Tokens, g.Spent.Tokens)
	}
	if c.day.Date != "" && c.raised[Date(NextDay(c.day.Date).AddDate(0, 0, -2))] == 0 { // a carried part of a raised day may be more
		require.LessOrEqual(c.t, c.day.View("t").Granted.Tokens, c.day.Limit().Tokens)
	}
}

func TestNoDayIsEverPassed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		c := newDayCompany(t, seed)
		for range 1500 {
			c.step()
			c.check()
		}
		require.NotEmpty(t, c.spent)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestASessionSpendsNothingThatItIsAboutToGiveBack(t *testing.T) {
	t.Parallel()
	id := team.AssignmentID{Phase: "code", Persona: "a"}
	l := &Ledger{Limits: Limits{Daily: team.Cap{Tokens: 1000}}}
	_, ok := l.GiveBack(noon)
	require.False(t, ok, "it has nothing")
	v := l.Reserve(id, 1, tokens(200), tokens(50), noon)
	require.Equal(t, DayScope, v.Scope)
	require.Zero(t, v.Granted, "nothing without a grant")
	ask := *v.Draw
	ask.Session = "a"
	d, granted := Day{}.Draw(ask, noon)
	l.Take(granted)
	require.Equal(t, Verdict{Granted: tokens(200)}, l.Reserve(id, 1, tokens(200), tokens(50), noon))
	require.Equal(t, Verdict{Granted: tokens(100)}, l.Reserve(id, 2, tokens(100), tokens(50), noon), "the spare part is for that")
	require.NotNil(t, l.Reserve(id, 3, tokens(1), tokens(1), noon).Draw)

	l.SetRow(id, Row{Spent: []Spending{{Date: "2026-01-31", Agent: "m", Usage: team.Usage{InputTokens: 120}}}}, noon)
	back, ok := l.GiveBack(noon)
	require.True(t, ok)
	l.Take(granted)
	require.NotNil(t, l.Reserve(id, 4, tokens(1), tokens(1), noon).Draw, "an answer from before changes nothing")
	back.Session = "a"
	d, given := d.Draw(back, noon)
	l.Take(given)
	require.EqualValues(t, 120, d.View("t").Granted.Tokens)
	_, ok = l.GiveBack(noon)
	require.False(t, ok, "all is told")
	require.InDelta(t, 0.12, l.Fractions(id, noon)[DayScope], 1e-9)

	tomorrow := noon.AddDate(0, 0, 1)
	require.Equal(t, "2026-02-01", l.Reserve(id, 5, tokens(1), tokens(1), tomorrow).Draw.Date, "each day is drawn from by itself")
	require.Zero(t, l.Fractions(id, tomorrow.AddDate(0, 0, 1))[DayScope])
}

func TestADayOfMoneyLimitsNoTokens(t *testing.T) {
	t.Parallel()
	const dollar = team.USD(1_000_000_000)
	id := team.AssignmentID{Phase: "code", Persona: "a"}
	l := &Ledger{Limits: Limits{Daily: team.Cap{USD: 10 * dollar}}}
	want, least := l.Guess("writer")
	v := l.Reserve(id, 1, want, least, noon)
	ask := *v.Draw
	ask.Session, ask.Agent = "a", "writer"
	d, out := Day{}.Draw(ask, noon)
	require.Equal(t, Drawn, out.Effect)
	require.Equal(t, team.Amount{Tokens: -1, USD: 10 * dollar}, out.Allowance.Granted)
	l.Take(out)
	require.Equal(t, 10*dollar, l.Reserve(id, 1, out.Cut(ask, want), least, noon).Granted.USD)
	require.Equal(t, team.Amount{USD: 10 * dollar}, l.Row(id).Reserved[1], "what is limited by nothing spoils no sum")

	dear := Draw{Session: "b", Date: "2026-01-31", Cap: team.Cap{USD: 10 * dollar}, Want: team.Amount{Tokens: 1e6, USD: dollar}, Least: team.Amount{Tokens: 1e6, USD: dollar}}
	d, out = d.Draw(dear, noon)
	require.Equal(t, DrawWaits, out.Effect)
	d, _ = d.Draw(Draw{Session: "a", Date: "2026-01-31", Serial: 1, Cap: dear.Cap, Spent: team.Amount{Tokens: 5e6, USD: 95 * dollar / 10}}, noon)
	_, out = d.Draw(dear, noon)
	require.Equal(t, DrawRefused, out.Effect)
	require.Contains(t, out.Refusal("t"), "0.5 of 10 USD are left, and the next call needs 1;")
}
