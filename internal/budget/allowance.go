package budget

import (
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// Allowance is a session's part of its team's [Day].
type Allowance struct {
	// Date is the day, by UTC, like 2026-01-31.
	Date string `json:"date"`
	// Granted is all that the session may spend on that day. A dimension that
	// the daily budget does not cap is negative: not limited.
	Granted team.Amount `json:"granted"`
	// Serial counts the session's draws: an answer that is not newer than what
	// the ledger has is no news.
	Serial int64 `json:"serial,omitempty"`
	// Told is what the session had said by then that it has spent.
	Told team.Amount `json:"told,omitzero"`
	// Cap is what all sessions may spend, raises included, and Spent what they
	// had said by then that they have.
	Cap   team.Cap    `json:"cap,omitzero"`
	Spent team.Amount `json:"spent,omitzero"`
}

func (a Allowance) fraction() float64 { return fraction(a.Spent, a.Cap) }

// today tells whether the session has a part of the day that it is.
func (l *Ledger) today(now time.Time) bool { return l.Day != nil && l.Day.Date == Date(now) }

// on adds up what the session has spent on a day, and what is set aside. What
// nobody knows for certain counts for every day until it is settled.
func (l *Ledger) on(date string) (spent, reserved team.Amount) {
	for _, r := range l.Rows {
		for _, s := range r.Spent {
			if s.Date == date {
				spent = spent.Add(s.Usage.Amount())
			}
		}
		spent = spent.Add(r.Unsettled.Amount())
		for _, a := range r.Reserved {
			reserved = reserved.Add(a)
		}
	}
	return spent, reserved
}

// fromDay tells what has to be drawn from the team's day for a call; nil: nothing.
func (l *Ledger) fromDay(want, least team.Amount, now time.Time) *Draw {
	if l.Limits.Daily == (team.Cap{}) {
		return nil
	}
	spent, reserved := l.on(Date(now))
	if l.today(now) && covers(l.Day.left(spent.Add(reserved)), want) {
		return nil
	}
	draw := l.yield(now)
	draw.Want, draw.Least = want, least
	return &draw
}

// left is what of the allowance is still there; negative is a dimension that is
// not limited.
func (a Allowance) left(held team.Amount) team.Amount {
	free := func(granted, held int64) int64 {
		if granted < 0 {
			return -1
		}
		return max(granted-held, 0)
	}
	return team.Amount{Tokens: free(a.Granted.Tokens, held.Tokens), USD: team.USD(free(int64(a.Granted.USD), int64(held.USD)))}
}

// yield gives up what the session was granted and does not hold, before the day is
// told: from here on nobody spends it.
func (l *Ledger) yield(now time.Time) Draw {
	draw := Draw{Date: Date(now), Cap: l.Limits.Daily, WarnAt: l.Limits.WarnAt}
	draw.Spent, draw.Reserved = l.on(draw.Date)
	day := Allowance{Date: draw.Date}
	if l.Day != nil {
		draw.Serial, day.Serial = l.Day.Serial, l.Day.Serial
	}
	if l.today(now) {
		day = *l.Day
	}
	day.Granted = limited(draw.Held(), l.Limits.Daily)
	l.Day = &day
	return draw
}

// GiveBack returns the draw with which the session gives back what it was granted
// and does not hold, and says what it has spent; ok is false where there is nothing
// to give and nothing to say.
func (l *Ledger) GiveBack(now time.Time) (draw Draw, ok bool) {
	if l.Day == nil || l.Limits.Daily == (team.Cap{}) {
		return Draw{}, false
	}
	spent, reserved := l.on(Date(now))
	told := l.Day.Granted == limited(l.Day.Told, l.Limits.Daily)
	if l.today(now) {
		told = told && spent == l.Day.Told
	} else {
		told = told && spent == team.Amount{}
	}
	if told && reserved == (team.Amount{}) {
		return Draw{}, false
	}
	return l.yield(now), true
}

// Take takes in the answer to a draw. It returns the warnings that are new.
func (l *Ledger) Take(d Drawing) []Warning {
	if d.Effect == OtherDay {
		return nil
	}
	known := l.Day
	if known == nil || d.Allowance.Date > known.Date || d.Allowance.Date == known.Date && d.Allowance.Serial > known.Serial {
		day := d.Allowance
		l.Day = &day
	}
	var due []Warning
	for _, w := range d.Warnings {
		given := slices.ContainsFunc(l.Warnings, func(v Warning) bool {
			return v.Scope == w.Scope && v.At == w.At && Date(v.When) == Date(w.When)
		})
		if !given {
			due = append(due, w)
		}
	}
	l.Warnings = append(l.Warnings, due...)
	return due
}

// Cut is what a call gets that has asked for want: no more than the draw was
// granted.
func (d Drawing) Cut(asked Draw, want team.Amount) team.Amount {
	return within(d.Allowance.left(asked.Held()), want)
}

// Refusal says in a sentence that the day of a team cannot pay for a call.
func (d Drawing) Refusal(name string) string {
	have, limit, need := fmt.Sprint(d.Left.Tokens), fmt.Sprintf("%d tokens", d.Allowance.Cap.Tokens), fmt.Sprint(d.Least.Tokens)
	others := fmt.Sprintf("%d tokens", d.Others.Tokens)
	if d.Left.Tokens < 0 || d.Least.Tokens <= d.Left.Tokens {
		have, limit, need = d.Left.USD.String(), d.Allowance.Cap.USD.String()+" USD", d.Least.USD.String()
		others = d.Others.USD.String() + " USD"
	}
	text := fmt.Sprintf("the daily budget of team %s is spent: %s of %s are left, and the next call needs %s; the next day begins at %s",
		name, have, limit, need, NextDay(d.Allowance.Date).Format("2006-01-02 15:04 UTC"))
	if d.Others != (team.Amount{}) {
		text += "; sessions at work hold another " + others
	}
	return text
}
