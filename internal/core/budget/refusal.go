package budget

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// UnsettledCalls are the unsettled calls that a budget pays for.
type UnsettledCalls struct {
	// Calls is their number, and Call the id of one of them; Session is the one with the highest estimates.
	Calls         int
	Session, Call string
	// Sessions is the number of sessions that have some: more than one only for a team's day.
	Sessions int
}

// Refusal describes which budget cannot pay for a call, and why.
func Refusal(b Budget, least cost.Amount, calls UnsettledCalls) string {
	what := "the budget of " + Label(b.Scope())
	if b.Kind == session.BudgetOfDay {
		what = "the daily budget of team " + b.Name
	}
	left := b.minus(b.Held())
	have, limit, estimates := fmt.Sprint(left.Tokens), fmt.Sprintf("%d tokens", b.Cap.Tokens),
		fmt.Sprintf("%d tokens", b.Unsettled.Tokens)
	need, uncertain, known := fmt.Sprint(least.Tokens), b.Unsettled.Tokens > 0, least.Tokens > 1
	if least.Tokens <= left.Tokens {
		have, limit, estimates = left.USD.String(), b.Cap.USD.String()+" USD", b.Unsettled.USD.String()+" USD"
		need, uncertain, known = least.USD.String(), b.Unsettled.USD > 0, least.USD > 1
	}
	text := fmt.Sprintf("%s is not sufficient: %s of %s left", what, have, limit)
	if known { // else nobody knows what the call costs
		text += ", and the next call needs " + need
	}
	if uncertain && calls.Calls > 0 {
		text += fmt.Sprintf("; %s of it are estimates of %s", estimates, calls)
	}
	if b.Kind == session.BudgetOfDay {
		text += "; the next day begins at " + NextDay(b.Day).Format("2006-01-02 15:04 UTC")
	}
	return text
}

// String names the calls and the command that settles them.
func (u UnsettledCalls) String() string {
	text := textfmt.Count(u.Calls, "unsettled call")
	if u.Sessions > 1 {
		text += " of session " + u.Session
	}
	if u.Calls > 1 {
		text += fmt.Sprintf(": maestro budget show %s lists them, maestro budget settle %s --all --write-off", u.Session, u.Session)
	} else {
		text += fmt.Sprintf(": maestro budget settle %s %s --write-off", u.Session, u.Call)
	}
	if u.Sessions > 1 {
		text += fmt.Sprintf(", and of %s more", textfmt.Count(u.Sessions-1, "session"))
	}
	return text
}
