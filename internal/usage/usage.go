// Package usage sums the costs of sessions, from the calls in a store or from the
// status of a session.
package usage

import (
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cost"
)

// Keys are the fields by which costs can be grouped.
var Keys = []string{"team", "session", "phase", "persona", "agent", "model", "day"}

// Row is the cost of some calls. A sum has only the keys by which it was grouped.
type Row struct {
	Team    string `json:"team,omitempty"`
	Session string `json:"session,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Persona string `json:"persona,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Day     string `json:"day,omitempty"`
	Spending
}

// Key is the row's field for one of [Keys].
func (r *Row) Key(name string) *string {
	switch name {
	case "team":
		return &r.Team
	case "session":
		return &r.Session
	case "phase":
		return &r.Phase
	case "persona":
		return &r.Persona
	case "agent":
		return &r.Agent
	case "model":
		return &r.Model
	default:
		return &r.Day
	}
}

// Spending is a sum of costs.
type Spending struct {
	// Calls counts those with known cost.
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage"`
	// Tokens is the sum of all tokens.
	Tokens int64 `json:"tokens"`
	// Unsettled is an estimate for calls with unknown cost.
	Unsettled Unsettled `json:"unsettled"`
	// Reserved is reserved for calls in progress.
	Reserved Reserved `json:"reserved"`
}

// Unsettled is an estimate for calls with unknown cost.
type Unsettled struct {
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage"`
}

// Reserved is what is reserved for calls in progress.
type Reserved struct {
	Calls int `json:"calls"`
	cost.Amount
}

// Spent is the cost of calls that is known.
func Spent(calls int, used cost.Usage) Spending {
	return Spending{Calls: calls, Usage: used, Tokens: used.Tokens()}
}

// Add returns the sum of both.
func (s Spending) Add(o Spending) Spending {
	return Spending{
		Calls: s.Calls + o.Calls, Usage: s.Usage.Add(o.Usage), Tokens: s.Tokens + o.Tokens,
		Unsettled: Unsettled{s.Unsettled.Calls + o.Unsettled.Calls, s.Unsettled.Usage.Add(o.Unsettled.Usage)},
		Reserved:  Reserved{s.Reserved.Calls + o.Reserved.Calls, s.Reserved.Add(o.Reserved.Amount)},
	}
}

// Sum groups costs by keys, in the order of their first occurrence; days are sorted, newest first.
// Costs of days before since are left out. Each other cost is in one row, and in the total.
func Sum(costs []Row, by []string, since string) (rows []Row, total Spending) {
	rows = []Row{}
	at := map[Row]int{}
	for _, price := range costs {
		if price.Day != "" && price.Day < since {
			continue
		}
		var row Row
		for _, key := range by {
			*row.Key(key) = *price.Key(key)
		}
		i, ok := at[row]
		if !ok {
			i = len(rows)
			at[row] = i
			rows = append(rows, row)
		}
		rows[i].Spending = rows[i].Add(price.Spending)
		total = total.Add(price.Spending)
	}
	if slices.Contains(by, "day") {
		slices.SortStableFunc(rows, func(x, y Row) int { return strings.Compare(y.Day, x.Day) })
	}
	return rows, total
}
