// Package usage is the document of sums of costs.
package usage

import "github.com/maestro-hive/maestro/internal/core/cost"

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
	return map[string]*string{
		"team": &r.Team, "session": &r.Session, "phase": &r.Phase, "persona": &r.Persona,
		"agent": &r.Agent, "model": &r.Model, "day": &r.Day,
	}[name]
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

// Add returns the sum of both.
func (s Spending) Add(o Spending) Spending {
	return Spending{
		Calls: s.Calls + o.Calls, Usage: s.Usage.Add(o.Usage), Tokens: s.Tokens + o.Tokens,
		Unsettled: Unsettled{s.Unsettled.Calls + o.Unsettled.Calls, s.Unsettled.Usage.Add(o.Unsettled.Usage)},
		Reserved:  Reserved{s.Reserved.Calls + o.Reserved.Calls, s.Reserved.Add(o.Reserved.Amount)},
	}
}
