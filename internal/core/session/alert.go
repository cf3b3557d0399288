package session

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Alert records that the threshold of an alert rule was reached.
type Alert struct {
	// Rule is the rule, like "cost_usd: 20".
	Rule string `json:"rule"`
	// Value is the measured value, and Threshold the rule's: dollars, tokens, seconds, or a
	// fraction of attempts.
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold"`
	// Message is a sentence with both.
	Message string `json:"message"`
	// Request is the id of the request that a rule about waiting is about.
	Request string    `json:"request,omitempty"`
	At      time.Time `json:"at"`
}

// MaxAlerts bounds how many alerts a status keeps.
const MaxAlerts = 100

// CostAlert is the alert of a rule about cost or tokens; false: its threshold is not reached.
func CostAlert(rule spec.Alert, used cost.Usage) (Alert, bool) {
	switch {
	case rule.CostUSD > 0 && used.CostUSD >= rule.CostUSD:
		return Alert{
			Rule: rule.String(), Value: used.CostUSD.Dollars(), Threshold: rule.CostUSD.Dollars(),
			Message: fmt.Sprintf("the session has cost %s USD; the threshold is %s USD", used.CostUSD.Rounded(), rule.CostUSD),
		}, true
	case rule.Tokens > 0 && used.Tokens() >= rule.Tokens:
		return Alert{
			Rule: rule.String(), Value: float64(used.Tokens()), Threshold: float64(rule.Tokens),
			Message: fmt.Sprintf("the session has used %d tokens; the threshold is %d tokens", used.Tokens(), rule.Tokens),
		}, true
	}
	return Alert{}, false
}

// WaitingAlert is the alert of a rule about a request that has waited for some time.
func WaitingAlert(rule spec.Alert, h Request, now time.Time) Alert {
	return Alert{
		Rule: rule.String(), Value: now.Sub(h.Since).Seconds(), Threshold: rule.Waiting.Std().Seconds(), Request: h.ID,
		Message: fmt.Sprintf("request %s has waited for %s; the threshold is %s", h.ID,
			textfmt.Duration(now.Sub(h.Since).Truncate(time.Second)), rule.Waiting),
	}
}

// FailureAlert is the alert of a rule about the last ended attempts. ended has them oldest first,
// true for a failed one. false: there are too few of them, or the threshold is not reached.
func FailureAlert(rule spec.Alert, ended []bool) (Alert, bool) {
	if rule.FailureRate == 0 || len(ended) < rule.Of {
		return Alert{}, false
	}
	failed := 0
	for _, f := range ended[len(ended)-rule.Of:] {
		if f {
			failed++
		}
	}
	rate := float64(failed) / float64(rule.Of)
	return Alert{
		Rule: rule.String(), Value: rate, Threshold: rule.FailureRate,
		Message: fmt.Sprintf("%d of the last %s failed; the threshold is %s", failed, textfmt.Count(rule.Of, "attempt"),
			percent(rule.FailureRate)),
	}, rate >= rule.FailureRate
}

func percent(rate float64) string { return strconv.FormatFloat(100*rate, 'f', -1, 64) + "%" }

// Alerted reports whether the session has raised the alert of a rule that is not about a request.
func (s *Status) Alerted(rule string) bool {
	return slices.ContainsFunc(s.Alerts, func(a Alert) bool { return a.Rule == rule && a.Request == "" })
}

// Alert adds an alert. If there are more than [MaxAlerts], it drops the oldest one about a request.
func (s *Status) Alert(a Alert) {
	s.Alerts = append(slices.Clip(s.Alerts), a)
	if len(s.Alerts) > MaxAlerts {
		i := slices.IndexFunc(s.Alerts, func(a Alert) bool { return a.Request != "" })
		s.Alerts = slices.Concat(s.Alerts[:max(i, 0)], s.Alerts[max(i, 0)+1:])
	}
}
