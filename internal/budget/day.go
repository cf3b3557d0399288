package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
)

// DayScope names the budget of a team and a day, which its sessions share.
const DayScope = "day"

// DaySchema names the format of a [Day].
const DaySchema = "maestro.day/v1"

// Day is what the sessions of a team have spent on one day, by UTC, on all workers of a store. Its
// rows are sums of the sessions' ledgers and can be rebuilt from these at any time; its raises have
// a separate journal.
type Day struct {
	Schema   string `json:"schema"`
	Revision int64  `json:"revision"`
	Team     string `json:"team"`
	Date     string `json:"date"`
	// Cap is the daily budget of the session that changed the day last, without raises.
	Cap spec.Cap `json:"cap"`
	// Raises were added to it for this day only, oldest first.
	Raises []Raise `json:"raises,omitempty"`
	// Rows are the sessions', by name.
	Rows map[string]DayRow `json:"rows,omitempty"`
	// Largest is the highest cost of one call, by agent.
	Largest map[string]cost.Amount `json:"largest,omitempty"`
	// Warnings are the warnings so far, oldest first.
	Warnings []Warning `json:"warnings,omitempty"`
}

// DayRow is what a session has spent on a day.
type DayRow struct {
	// Spent is the cost of calls that ended on the day, Unsettled the estimates of those that ended
	// with unknown cost.
	Spent     cost.Amount `json:"spent"`
	Unsettled cost.Amount `json:"unsettled,omitzero"`
	// Calls is the number of unsettled calls, and Call names one of them like "build/dev 3".
	Calls int    `json:"unsettled_calls,omitempty"`
	Call  string `json:"unsettled_call,omitempty"`
	// Reserved is what is reserved for calls in progress.
	Reserved cost.Amount `json:"reserved,omitzero"`
}

// Date is the day, by UTC, for which a cost at this time counts.
func Date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// NextDay is when a day ends and the next one's budget begins.
func NextDay(date string) time.Time {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}
	}
	return day.AddDate(0, 0, 1)
}

// Take replaces a session's row with the sums of its ledger. It reports whether that changes the
// day.
func (d *Day) Take(session string, l *Ledger) (changed bool) {
	if row := l.On(d.Date); d.Rows[session] != row {
		d.setRow(session, row)
		changed = true
	}
	if l.Limits.Daily != (spec.Cap{}) && d.Cap != l.Limits.Daily {
		d.Cap, changed = l.Limits.Daily, true
	}
	for _, r := range l.Rows {
		for _, s := range r.Spent {
			before, known := d.Largest[s.Agent]
			if s.Answered == 0 || known && most(before, s.Largest) == before {
				continue
			}
			if d.Largest == nil {
				d.Largest = map[string]cost.Amount{}
			}
			d.Largest[s.Agent], changed = most(before, s.Largest), true
		}
	}
	return changed
}

func (d *Day) setRow(session string, row DayRow) {
	if d.Rows == nil {
		d.Rows = map[string]DayRow{}
	}
	d.Rows[session] = row
}

// Raise adds to the cap of the day. A repetition with the same id has no effect.
func (d *Day) Raise(r Raise) {
	if slices.ContainsFunc(d.Raises, func(before Raise) bool { return before.ID == r.ID }) {
		return
	}
	d.Raises = append(d.Raises, r)
	limit := d.Limit()
	d.Warnings = reviewed(d.Warnings, DayScope, d.Sum().held(), limit)
}

// Limit is the cap with the day's raises. A raise does not limit a dimension that had no cap.
func (d *Day) Limit() spec.Cap { return d.limit(d.Cap) }

func (d *Day) limit(limit spec.Cap) spec.Cap {
	for _, r := range d.Raises {
		limit = raise(limit, r.Added)
	}
	return limit
}

// Sum adds up the rows of all sessions.
func (d *Day) Sum() DayRow { return d.sumBut("") }

func (d *Day) sumBut(session string) DayRow {
	var sum DayRow
	for name, r := range d.Rows {
		if name != session {
			sum = sum.add(r)
		}
	}
	return sum
}

// Left is what is neither spent nor reserved; a negative dimension is not limited.
func (d *Day) Left() cost.Amount {
	sum := d.Sum()
	return left(d.Limit(), sum.held().Add(sum.Reserved))
}

// MayPay reports whether enough is left for a call.
func (d *Day) MayPay(least cost.Amount) bool { return covers(d.Left(), least) }

func (r DayRow) add(o DayRow) DayRow {
	return DayRow{
		Spent: r.Spent.Add(o.Spent), Unsettled: r.Unsettled.Add(o.Unsettled),
		Calls: r.Calls + o.Calls, Reserved: r.Reserved.Add(o.Reserved),
	}
}

// held is what the row permanently takes from the day.
func (r DayRow) held() cost.Amount { return r.Spent.Add(r.Unsettled) }

// raise adds to a cap, which remains a cap for any sum.
func raise(limit spec.Cap, added cost.Amount) spec.Cap {
	if limit.Tokens > 0 {
		limit.Tokens += min(added.Tokens, max(whatever-limit.Tokens, 0))
	}
	if limit.USD > 0 {
		limit.USD += min(added.USD, max(whatever-limit.USD, 0))
	}
	return limit
}

// UnsettledSessions lists the sessions that have unsettled calls on the day, those
// with the largest estimates first.
func (d *Day) UnsettledSessions() []string {
	var names []string
	for name, r := range d.Rows {
		if r.Calls > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := d.Rows[a].Unsettled, d.Rows[b].Unsettled
		if x.USD != y.USD {
			return int(min(max(y.USD-x.USD, -1), 1))
		}
		if x.Tokens != y.Tokens {
			return int(min(max(y.Tokens-x.Tokens, -1), 1))
		}
		return strings.Compare(a, b)
	})
	return names
}

// Dates lists the days on which the session has spent anything, sorted.
func (l *Ledger) Dates() []string {
	dates := map[string]bool{}
	for _, r := range l.Rows {
		for _, s := range r.Spent {
			dates[s.Date] = true
		}
		for _, u := range r.Unsettled {
			dates[u.Date] = true
		}
	}
	return slices.Sorted(maps.Keys(dates))
}

// On is what the session has spent on a day. Reservations count for every day: the calls in
// progress may end on it.
func (l *Ledger) On(date string) DayRow {
	var row DayRow
	for _, name := range slices.Sorted(maps.Keys(l.Rows)) {
		r := l.Rows[name]
		for _, s := range r.Spent {
			if s.Date == date {
				row.Spent = row.Spent.Add(s.Usage.Amount())
			}
		}
		for _, u := range r.Unsettled {
			if u.Date == date {
				row.Unsettled, row.Calls = row.Unsettled.Add(u.Estimate.Amount()), row.Calls+1
				row.Call = callName(name, u.Call)
			}
		}
		_, reserved := r.held()
		row.Reserved = row.Reserved.Add(reserved)
	}
	return row
}

// DailyTeam is the team whose daily budget the session draws from; empty: none.
func (l *Ledger) DailyTeam() string {
	if l.Limits.Daily == (spec.Cap{}) {
		return ""
	}
	return l.Team
}

// Share makes reservations draw from a day, too. The caller holds the day's lock.
func (l *Ledger) Share(d *Day) { l.day = d }

// dayScope is the team's day as one more budget of the session.
func (l *Ledger) dayScope() scope {
	s := scope{name: DayScope}
	if l.day == nil {
		return s
	}
	row := l.day.sumBut(l.Session).add(l.On(l.day.Date))
	s.cap = l.day.limit(l.Limits.Daily)
	s.spent, s.unsettled, s.reserved = row.held(), row.Unsettled, row.Reserved
	return s
}
