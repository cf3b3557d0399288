package spec

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Alert is a rule of a team: an alert is raised once in a session, or once for each request, when
// its threshold is reached.
type Alert struct {
	// CostUSD is the cost of a session.
	CostUSD cost.USD `json:"cost_usd,omitempty" yaml:"cost_usd,omitempty" jsonschema:"oneof_required=cost_usd,exclusiveMinimum=0,maximum=1000000" example:"20"`
	// Tokens is what a session has used of all tokens together, cached or not.
	Tokens int64 `json:"tokens,omitempty" yaml:"tokens,omitempty" jsonschema:"oneof_required=tokens,minimum=1,maximum=1000000000000"`
	// Waiting is the time that a request has waited for a person. The alert is raised once
	// for each request.
	Waiting textfmt.Duration `json:"waiting,omitempty" yaml:"waiting,omitempty" jsonschema:"oneof_required=waiting" between:"1s 8760h"`
	// FailureRate is the fraction of failed attempts among the session's last attempts.
	FailureRate float64 `json:"failure_rate,omitempty" yaml:"failure_rate,omitempty" jsonschema:"oneof_required=failure_rate,exclusiveMinimum=0,maximum=1"`
	// Of is the number of attempts that failure_rate is about. With fewer attempts no alert
	// is raised.
	Of int `json:"of,omitempty" yaml:"of,omitempty" jsonschema:"minimum=1,maximum=100"`
}

// DefaultAlertOf is how many attempts a failure rate is about.
const DefaultAlertOf = 10

// resolved fills in the number of attempts.
func (a Alert) resolved() Alert {
	if a.FailureRate > 0 {
		setDefault(&a.Of, DefaultAlertOf)
	}
	return a
}

// String is the rule as a team file has it. It identifies the rule in a session.
func (a Alert) String() string {
	switch {
	case a.CostUSD > 0:
		return "cost_usd: " + a.CostUSD.String()
	case a.Tokens > 0:
		return fmt.Sprintf("tokens: %d", a.Tokens)
	case a.Waiting > 0:
		return "waiting: " + a.Waiting.String()
	}
	return fmt.Sprintf("failure_rate: %s, of: %d", strconv.FormatFloat(a.FailureRate, 'g', -1, 64), a.Of)
}

// LongestAlert is how many of the last attempts the team's alert rules need; zero: no rule is about
// attempts.
func (t Team) LongestAlert() int {
	longest := 0
	for _, a := range t.Alerts {
		longest = max(longest, a.Of)
	}
	return longest
}

// conditions counts the conditions of a rule. The schema rejects all numbers but one.
func (a Alert) conditions() int {
	n := 0
	for _, given := range []bool{a.CostUSD > 0, a.Tokens > 0, a.Waiting > 0, a.FailureRate > 0} {
		if given {
			n++
		}
	}
	return n
}

func (v *validator) alerts() {
	var seen []string
	for i, a := range v.team.Alerts {
		path, rule := ItemPath("$.alerts", i), a.resolved().String()
		switch {
		case a.conditions() != 1:
		case a.Of > 0 && a.FailureRate == 0:
			v.add(path+".of", "belongs to failure_rate; leave it out")
		case slices.Contains(seen, rule):
			v.add(path, "is the same rule as an earlier one; leave it out")
		default:
			seen = append(seen, rule)
		}
	}
}
