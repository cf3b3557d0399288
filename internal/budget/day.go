package budget

import (
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// DayScope names the budget of a team and a day, which its sessions share.
const DayScope = "day"

// Day is what the sessions of a team may spend on one day, by UTC, and what each
// has been granted of it. The zero Day has yet to begin. All methods that change
// something return a new Day, and leave the old one as it was.
//
// What is granted never passes the cap, with what was added for the day. A session
// spends only what it was granted, so what all of them spend does not either: only
// an agent that has cost more than was set aside for it can pass a cap, and that
// is then taken from what is left.
type Day struct {
	Date string `json:"date"`
	// Cap is the one that the newest draw has named.
	Cap team.Cap `json:"cap,omitzero"`
	// Raises were added to it, for this day only.
	Raises []Raise `json:"raises,omitempty"`
	// Grants are sorted by session.
	Grants []Grant `json:"grants,omitempty"`
	// Costs are sorted by agent. They outlive the day.
	Costs []Cost `json:"costs,omitempty"`
	// Warned are the fractions of the cap of which sessions were told.
	Warned []float64 `json:"warned,omitempty"`
}

// Grant is a session's part of a day.
type Grant struct {
	Session string `json:"session"`
	// Granted includes Spent, which is what the session last said.
	Granted team.Amount `json:"granted"`
	Spent   team.Amount `json:"spent"`
	// Serial counts the session's draws.
	Serial int64 `json:"serial"`
	// Carried: the calls that were under way at midnight may end on this day,
	// and nothing was heard of them since.
	Carried bool `json:"carried,omitempty"`
}

// Cost is the most that one call of an agent has cost any session.
type Cost struct {
	Agent   string      `json:"agent"`
	Largest team.Amount `json:"largest"`
}

// Draw is how a session asks for a part of a day, or gives some back. It says how
// much the session needs in all and not how much more, so that a draw that is
// told of twice, or whose answer was lost, counts once.
type Draw struct {
	Session string `json:"session"`
	// Date is the day by the session's clock. No draw counts on another day.
	Date string `json:"date"`
	// Serial is that of the last answer in the session's ledger. The session
	// spends nothing of what that granted beyond Spent and Reserved until it has
	// the answer to this draw; if its ledger has heard of no other draw since, the
	// rest can go to other sessions.
	Serial int64     `json:"serial"`
	Cap    team.Cap  `json:"cap"`
	WarnAt []float64 `json:"warn_at,omitempty"`
	// Spent is what the session has spent on Date, as far as it is known or
	// believed; Reserved is set aside for its calls under way.
	Spent    team.Amount `json:"spent"`
	Reserved team.Amount `json:"reserved"`
	// Want is what the next call may cost, and Least is below what it cannot be
	// made. Both zero: the session only gives back.
	Want  team.Amount `json:"want,omitzero"`
	Least team.Amount `json:"least,omitzero"`
	// Agent makes the call. Largest is the most that one of its calls has cost
	// the session; zero: it has made none.
	Agent   string      `json:"agent,omitempty"`
	Largest team.Amount `json:"largest,omitzero"`
}

// Held is what the session cannot give back.
func (d Draw) Held() team.Amount { return d.Spent.Add(d.Reserved) }

// DrawEffect is what a draw came to.
type DrawEffect string

// The effects.
const (
	// Drawn: the session has been granted what it needs, or all that is left.
	Drawn DrawEffect = "drawn"
	// DrawWaits: other sessions hold what is missing and may give it back.
	DrawWaits DrawEffect = "waits"
	// DrawRefused: what is left of the day cannot pay for the call.
	DrawRefused DrawEffect = "refused"
	// OtherDay: the session's clock has another day, and nothing has changed.
	OtherDay DrawEffect = "other_day"
)

// Drawing is the answer to a draw.
type Drawing struct {
	Effect DrawEffect `json:"effect"`
	// Allowance is all that the session may spend on the day from now on.
	Allowance Allowance `json:"allowance"`
	// Want and Least are those of the draw or, for a call of unknown cost, what
	// others of its agent have cost.
	Want  team.Amount `json:"want,omitzero"`
	Least team.Amount `json:"least,omitzero"`
	// Left is what nobody was granted when the call was asked for, and Others
	// what other sessions were granted and have not said that they have spent.
	Left   team.Amount `json:"left"`
	Others team.Amount `json:"others"`
	// Warnings are those that are due, once a day each over all sessions.
	Warnings []Warning `json:"warnings,omitempty"`
}

// At is the day as it is at a moment. At midnight it begins anew: only what may
// still be under way is carried into the next day, until the sessions say what
// became of it.
func (d Day) At(now time.Time) Day {
	today := Date(now)
	if d.Date >= today { // clocks may be set back; days do not come again
		return d
	}
	next := Day{Date: today, Cap: d.Cap, Costs: d.Costs}
	if d.Date != Date(now.AddDate(0, 0, -1)) {
		return next
	}
	for _, g := range d.Grants {
		if open := unspent(g); !g.Carried && open != (team.Amount{}) {
			next.Grants = append(next.Grants, Grant{Session: g.Session, Granted: open, Serial: g.Serial, Carried: true})
		}
	}
	return next
}

// Draw grants a session what it needs and, so that draws are few, an eighth of
// what is left then. A call of which nobody knows what it costs gets as much as
// the dearest of its agent; the first of all, everything that is left.
func (d Day) Draw(r Draw, now time.Time) (Day, Drawing) {
	d = d.At(now)
	if d.Date != r.Date {
		return d, Drawing{Effect: OtherDay, Allowance: Allowance{Date: d.Date}}
	}
	d.Cap = r.Cap
	d.Grants, d.Costs = slices.Clone(d.Grants), slices.Clone(d.Costs)
	d.learn(r)
	g := d.grant(r.Session)
	switch inStep := r.Serial >= g.Serial; {
	case inStep:
		g.Granted, g.Spent = r.Held(), r.Spent
	case g.Carried:
		g.Granted, g.Spent = most(g.Granted, r.Spent), r.Spent
	default: // it is late: what it says is reserved may have been given back since
		g.Spent = most(g.Spent, r.Spent)
		g.Granted = most(g.Granted, g.Spent)
	}
	g.Serial, g.Carried = max(g.Serial, r.Serial)+1, false
	granted, spent := d.sums(r.Session)
	a := ask{left: left(d.Limit(), granted.Add(r.Held())), others: minus(granted, spent), want: r.Want, least: atLeast(r)}
	a.know(d.Costs, r.Agent)
	out := Drawing{Effect: a.decide(), Want: a.want, Least: a.least, Left: a.left, Others: a.others}
	if need := r.Held().Add(a.need()); out.Effect == Drawn && r.Want != (team.Amount{}) && most(g.Granted, need) != g.Granted {
		g.Granted = most(g.Granted, need.Add(a.spare()))
	}
	out.Allowance = Allowance{
		Date: d.Date, Serial: g.Serial, Granted: limited(g.Granted, d.Limit()), Told: g.Spent,
		Cap: d.Limit(), Spent: spent.Add(g.Spent),
	}
	out.Warnings = d.warn(r.WarnAt, out.Allowance, now)
	return d, out
}

// Raise adds to the cap, for the day only; again under the same id, it does nothing.
func (d Day) Raise(r Raise, now time.Time) Day {
	d = d.At(now)
	if !slices.ContainsFunc(d.Raises, func(before Raise) bool { return before.ID == r.ID }) {
		d.Raises = append(slices.Clone(d.Raises), r)
	}
	return d
}

// Limit is the cap with what was added for the day. What was never limited is not
// by being raised.
func (d Day) Limit() team.Cap {
	limit := d.Cap
	for _, r := range d.Raises {
		limit = raise(limit, r.Added)
	}
	return limit
}

// raise adds to a cap.
func raise(limit team.Cap, added team.Amount) team.Cap {
	if limit.Tokens > 0 {
		limit.Tokens += added.Tokens
	}
	if limit.USD > 0 {
		limit.USD += added.USD
	}
	return limit
}

// grant finds a session's grant, made if there is none.
func (d *Day) grant(session string) *Grant {
	i, ok := slices.BinarySearchFunc(d.Grants, session, func(g Grant, s string) int { return strings.Compare(g.Session, s) })
	if !ok {
		d.Grants = slices.Insert(d.Grants, i, Grant{Session: session})
	}
	return &d.Grants[i]
}

// learn takes in what an agent's calls cost.
func (d *Day) learn(r Draw) {
	if r.Largest == (team.Amount{}) {
		return
	}
	i, ok := slices.BinarySearchFunc(d.Costs, r.Agent, func(c Cost, agent string) int { return strings.Compare(c.Agent, agent) })
	if !ok {
		d.Costs = slices.Insert(d.Costs, i, Cost{Agent: r.Agent})
	}
	d.Costs[i].Largest = most(d.Costs[i].Largest, r.Largest)
}

// sums adds up the grants of all sessions but one.
func (d Day) sums(but string) (granted, spent team.Amount) {
	for _, g := range d.Grants {
		if g.Session != but {
			granted, spent = granted.Add(g.Granted), spent.Add(g.Spent)
		}
	}
	return granted, spent
}

// warn tells which warnings are due, once each.
func (d *Day) warn(at []float64, a Allowance, now time.Time) []Warning {
	var due []Warning
	for _, fraction := range at {
		if !slices.Contains(d.Warned, fraction) && a.fraction() >= fraction {
			due = append(due, Warning{Scope: DayScope, At: fraction, Spent: a.Spent, Cap: a.Cap, When: now})
			d.Warned = append(slices.Clone(d.Warned), fraction)
		}
	}
	return due
}

// View sums the day up.
func (d Day) View(name string) DayView {
	v := DayView{Team: name, Date: d.Date, Cap: d.Cap, Limit: d.Limit(), Sessions: len(d.Grants)}
	v.Granted, v.Spent = d.sums("")
	return v
}

// DayView is a team's day in short, as everybody can read it.
type DayView struct {
	Team string `json:"team"`
	// Date is the day, by UTC; empty: nobody has asked for a part of one.
	Date string `json:"date"`
	// Cap is the team file's, as the newest draw has named it; Limit includes
	// what was added for the day.
	Cap   team.Cap `json:"cap"`
	Limit team.Cap `json:"limit"`
	// Granted includes Spent, which is what the sessions have told so far.
	Granted team.Amount `json:"granted"`
	Spent   team.Amount `json:"spent"`
	// Sessions have been granted something on the day.
	Sessions int `json:"sessions"`
}

// At is the view at a moment: after midnight nothing is granted yet.
func (v DayView) At(now time.Time) DayView {
	if v.Date >= Date(now) {
		return v
	}
	return DayView{Team: v.Team, Date: Date(now), Cap: v.Cap, Limit: v.Cap}
}

// Left is what nobody was granted; negative is a dimension that is not limited.
func (v DayView) Left() team.Amount { return left(v.Limit, v.Granted) }

// Promises tells whether a draw that was not served on a day would be served now,
// as far as the view can tell. It never promises too much, while nobody else draws.
func (v DayView) Promises(date string, want, least team.Amount) bool {
	a := ask{left: v.Left(), others: minus(v.Granted, v.Spent), want: want, least: least}
	return v.Date != date || a.decide() == Drawn
}

// NextDay is when a day ends, and the budget of the next one begins.
func NextDay(date string) time.Time {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}
	}
	return day.AddDate(0, 0, 1)
}
