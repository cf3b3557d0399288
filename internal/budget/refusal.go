package budget

import (
	"fmt"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Label names a budget in a sentence, by its scope.
func Label(scope string) string {
	if scope == SessionScope {
		return "the session"
	}
	return scope
}

// refuse describes which budget cannot pay for a call, and why.
func (l *Ledger) refuse(s scope, least cost.Amount) Verdict {
	v := Verdict{Scope: s.name, Least: least}
	what := "the budget of " + Label(s.name)
	if s.name == DayScope {
		what = "the daily budget of team " + l.Team
		v.Date = l.day.Date
	}
	left := left(s.cap, s.spent)
	have, limit, unsettled := fmt.Sprint(left.Tokens), fmt.Sprintf("%d tokens", s.cap.Tokens), fmt.Sprintf("%d tokens", s.unsettled.Tokens)
	need, uncertain := fmt.Sprint(least.Tokens), s.unsettled.Tokens > 0
	known := least.Tokens > 1
	if left.Tokens < 0 || least.Tokens <= left.Tokens {
		have, limit, unsettled = left.USD.String(), s.cap.USD.String()+" USD", s.unsettled.USD.String()+" USD"
		need, uncertain = least.USD.String(), s.unsettled.USD > 0
		known = least.USD > 1
	}
	v.Refused = fmt.Sprintf("%s is not sufficient: %s of %s left", what, have, limit)
	if known { // else nobody knows what the call costs
		v.Refused += ", and the next call needs " + need
	}
	if uncertain {
		v.Unsettled = true
		v.Refused += fmt.Sprintf("; %s of it are estimates of %s", unsettled, l.unsettledCalls(s.name))
	}
	if s.name == DayScope {
		v.Refused += "; the next day begins at " + NextDay(l.day.Date).Format("2006-01-02 15:04 UTC")
	}
	return v
}

// unsettledCalls names the unsettled calls in a budget, and the command that settles them.
func (l *Ledger) unsettledCalls(name string) string {
	if name == DayScope {
		d := Day{Rows: maps.Clone(l.day.Rows)}
		if own := l.On(l.day.Date); own.Calls > 0 {
			d.setRow(l.Session, own)
		}
		sessions := d.UnsettledSessions()
		row := d.Rows[sessions[0]]
		text := fmt.Sprintf("%s of session %s: %s", unsettled(row.Calls), sessions[0], settling(sessions[0], row.Calls, row.Call))
		if len(sessions) > 1 {
			text += fmt.Sprintf(", and of %s more", textfmt.Count(len(sessions)-1, "session"))
		}
		return text
	}
	n, last := 0, ""
	for _, row := range slices.Sorted(maps.Keys(l.Rows)) {
		if id, err := spec.ParseAssignmentID(row); err != nil || !draws(id, name) {
			continue
		}
		for _, u := range l.Rows[row].Unsettled {
			n, last = n+1, callName(row, u.Call)
		}
	}
	return unsettled(n) + ": " + settling(l.Session, n, last)
}

func unsettled(n int) string {
	if n == 1 {
		return "1 unsettled call"
	}
	return fmt.Sprintf("%d unsettled calls", n)
}

// settling is the command that settles a call or, where there are several, all of them.
func settling(session string, n int, call string) string {
	if n > 1 {
		return fmt.Sprintf("maestro budget show %s lists them, maestro budget settle %s --all --write-off", session, session)
	}
	return fmt.Sprintf("maestro budget settle %s %s --write-off", session, call)
}

// callName is the name of a call in the form of `maestro budget settle`.
func callName(row string, call int64) string { return fmt.Sprintf("%s %d", row, call) }
