package budget

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/cost"
)

// Row is what one assignment has spent.
type Row struct {
	// Spent is the known cost, by day, agent and model.
	Spent []Spending `json:"spent,omitempty"`
	// Unsettled are calls that have ended with unknown cost.
	Unsettled []UnsettledCall `json:"unsettled,omitempty"`
	// Reserved is what is reserved for the calls in progress, by their id. For a call of unknown
	// cost it is zero in a dimension that no budget limits.
	Reserved map[int64]cost.Amount `json:"reserved,omitempty"`
	// Entries is the number of the journal's last entry in the row.
	Entries int64 `json:"entries,omitempty"`
}

// UnsettledCall is a call that has ended with unknown cost.
type UnsettledCall struct {
	// Call is its number in the assignment's journal.
	Call int64 `json:"call"`
	// Date is the day, by UTC, on which it ended.
	Date string `json:"date"`
	// Estimate counts until a person settles the call.
	Estimate cost.Usage `json:"estimate"`
}

// Spending is what an agent has cost on a day.
type Spending struct {
	// Date is the day, by UTC, on which the calls ended.
	Date  string     `json:"date"`
	Agent string     `json:"agent"`
	Model string     `json:"model,omitempty"`
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage"`
	// Largest is the highest cost of one call.
	Largest cost.Amount `json:"largest"`
	// Answered is the number of calls with a useful answer. The cost of other calls is no estimate
	// of the next one.
	Answered int `json:"answered,omitempty"`
}

// maxSpending bounds the models, agents and days of a row, except for one of [OtherModels] a day.
const maxSpending = 500

// OtherModels is the model of calls that have no entry of their own.
const OtherModels = "(others)"

// book adds a call that has ended.
func (r *Row) book(c Call) {
	of := func(c Call) int {
		day := Date(c.EndedAt)
		return slices.IndexFunc(r.Spent, func(s Spending) bool { return s.Date == day && s.Agent == c.Agent && s.Model == c.Model })
	}
	i := of(c)
	if i < 0 && len(r.Spent) >= maxSpending { // a program may ask for any names
		c.Model = OtherModels
		i = of(c)
	}
	if i < 0 {
		i = len(r.Spent)
		r.Spent = append(r.Spent, Spending{Date: Date(c.EndedAt), Agent: c.Agent, Model: c.Model})
	}
	s := &r.Spent[i]
	s.Calls++
	if c.State == Settled {
		s.Answered++
	}
	s.Usage = s.Usage.Add(c.Usage)
	s.Largest = most(s.Largest, c.Usage.Amount())
}

// Usage is the sum of all known costs.
func (r Row) Usage() cost.Usage {
	var sum cost.Usage
	for _, s := range r.Spent {
		sum = sum.Add(s.Usage)
	}
	return sum
}

// Estimated is the sum of the estimates of the row's unsettled calls.
func (r Row) Estimated() cost.Usage {
	var sum cost.Usage
	for _, u := range r.Unsettled {
		sum = sum.Add(u.Estimate)
	}
	return sum
}

// held is what the row takes from budgets: spent, estimated, and reserved.
func (r Row) held() (spent, reserved cost.Amount) {
	spent = r.Usage().Amount().Add(r.Estimated().Amount())
	for _, a := range r.Reserved {
		reserved = reserved.Add(a)
	}
	return spent, reserved
}
