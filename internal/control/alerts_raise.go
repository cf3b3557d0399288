package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/entityworkflow"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// keptAlerts is how many alerts of the store are kept, besides those whose period has not ended.
const keptAlerts = 500

// storeAlert is an alert of the store in its document.
type storeAlert struct {
	// ID identifies the rule and the period: the day, or the opening of the breaker.
	ID string `json:"id"`
	session.Alert
	// Sent: the webhook's workflow has received it.
	Sent bool `json:"sent,omitempty"`
}

// Evaluate raises the alerts of the store's rules, each once in its period, and sends them to the
// webhook. It is safe in several processes at the same time and after an interruption: an alert is
// recorded by compare-and-swap before it is sent, and its workflow's id contains the rule and the
// period. A server calls it, not a person, so no role is checked.
func (a Alerts) Evaluate(ctx context.Context) error {
	if _, err := a.stored(); err != nil {
		return err
	}
	days, breakers, faults, err := a.rules()
	if err != nil {
		return err
	}
	return errors.Join(a.raise(ctx, days, breakers), faults)
}

// raise raises the alerts of rules.
func (a Alerts) raise(ctx context.Context, days, breakers []storeRule) error {
	due, err := a.due(ctx, days, breakers)
	if err != nil {
		return err
	}
	raised, _, err := readAlerts[[]storeAlert](&a, "raised")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(due, func(s storeAlert) bool { return !hasAlert(raised, s.ID) }) {
		err = updateAlerts(&a, "raised", func(before []storeAlert) ([]storeAlert, error) {
			raised = withAlerts(before, due)
			return raised, nil
		})
	}
	if err != nil {
		return err
	}
	return a.send(ctx, raised)
}

func hasAlert(raised []storeAlert, id string) bool {
	return slices.ContainsFunc(raised, func(s storeAlert) bool { return s.ID == id })
}

// withAlerts adds the alerts that are due and missing, and removes old ones.
func withAlerts(raised, due []storeAlert) []storeAlert {
	out := slices.Clone(raised)
	for _, s := range due {
		if !hasAlert(out, s.ID) {
			out = append(out, s)
		}
	}
	old := len(out) - keptAlerts
	n := 0
	return slices.DeleteFunc(out, func(s storeAlert) bool {
		n++
		return n <= old && !hasAlert(due, s.ID)
	})
}

// rules are the store's about the cost of a day and about breakers. Faults list the invalid rules
// that were written into the document by hand.
func (a Alerts) rules() (days, breakers []storeRule, faults, err error) {
	kept, _, err := readAlerts[[]AlertRule](&a, "rules")
	for _, k := range kept {
		rule, wrong := parseRule(k.Rule)
		switch {
		case wrong != nil:
			faults = errors.Join(faults, fmt.Errorf("alerts/%s/rules.json: rule %q is not evaluated: %w; remove it with `maestro alert remove`", a.Namespace, textfmt.Shorten(k.Rule, 80), wrong))
		case rule.dayCost > 0:
			rule.added = k.At
			days = append(days, rule)
		default:
			breakers = append(breakers, rule)
		}
	}
	return days, breakers, faults, err
}

// due are the alerts whose thresholds are reached now.
func (a Alerts) due(ctx context.Context, days, breakers []storeRule) (due []storeAlert, err error) {
	if len(days) > 0 {
		if due, err = a.expensive(ctx, days); err != nil {
			return nil, err
		}
	}
	if len(breakers) > 0 {
		open, err := a.open(ctx, breakers)
		if err != nil {
			return nil, err
		}
		due = append(due, open...)
	}
	return due, nil
}

// expensive are the alerts about the cost of today and of yesterday, by UTC: yesterday may have
// ended after the last evaluation. A rule does not apply to days that had ended when it was added.
func (a Alerts) expensive(ctx context.Context, rules []storeRule) (due []storeAlert, err error) {
	x, _, done, err := a.indexed(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	now := a.Now().UTC()
	days := []string{budget.Date(now.AddDate(0, 0, -1)), budget.Date(now)}
	rows, _, err := x.Usage(ctx, []string{"day"}, days[0], index.Filter{Namespace: a.Namespace})
	if err != nil {
		return nil, err
	}
	spent := map[string]cost.USD{}
	for _, row := range rows {
		spent[row.Day] += row.Usage.CostUSD
	}
	for _, day := range days {
		for _, rule := range rules {
			if spent[day] >= rule.dayCost && rule.added.Before(budget.NextDay(day)) {
				due = append(due, a.alert(rule, day, session.Alert{
					Value: spent[day].Dollars(), Threshold: rule.dayCost.Dollars(),
					Message: fmt.Sprintf("the sessions of namespace %s have cost %s USD on %s; the threshold is %s USD", a.Namespace, spent[day].Rounded(), day, rule.dayCost),
				}))
			}
		}
	}
	return due, nil
}

// open are the alerts about open breakers. An opening lasts until the breaker is closed: a failed
// probe, or a trip by hand, does not begin another one.
func (a Alerts) open(ctx context.Context, rules []storeRule) (due []storeAlert, err error) {
	all, err := a.Store.Breakers(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.State != session.BreakerIsOpen {
			continue
		}
		why := fmt.Sprintf("%d consecutive failures", b.Failures)
		if b.Forced != nil {
			why = "opened manually"
		}
		for _, rule := range rules {
			if rule.breaker == b.Name || rule.breaker == anyBreaker {
				opening := fmt.Sprintf("%s %d %d", b.Name, b.Since.UnixNano(), b.Generation-int64(b.Trips))
				due = append(due, a.alert(rule, opening, session.Alert{
					Value: float64(b.Failures), Threshold: float64(b.Settings.Threshold), Message: fmt.Sprintf("breaker %s is open: %s", b.Name, why),
				}))
			}
		}
	}
	return due, nil
}

// alert is the alert of a rule in a period.
func (a Alerts) alert(rule storeRule, period string, raised session.Alert) storeAlert {
	raised.Rule, raised.At = rule.text, a.Now().UTC()
	sum := sha256.Sum256([]byte(a.Namespace + "\n" + rule.text + "\n" + period))
	return storeAlert{ID: "alert-" + hex.EncodeToString(sum[:10]), Alert: raised}
}

// send starts the webhook's workflow for each listed alert that was not sent. Without a webhook it
// sends nothing.
func (a Alerts) send(ctx context.Context, raised []storeAlert) error {
	since := a.Now().Add(-alertsFor)
	pending := slices.DeleteFunc(slices.Clone(raised), func(s storeAlert) bool { return s.Sent || s.At.Before(since) })
	conn := a.conn()
	if len(pending) == 0 || conn == nil {
		return nil
	}
	offers, err := a.Store.Offers(ctx)
	if err != nil || !spec.Webhook(offers, a.Now()) {
		return err
	}
	var sent []string
	for _, s := range pending {
		if err = entityworkflow.Once(ctx, conn.Client, workflows.WebhookOf(a.Store.ID(), a.notice(s))); err != nil {
			break
		}
		sent = append(sent, s.ID)
	}
	if len(sent) == 0 {
		return err
	}
	marked := updateAlerts(&a, "raised", func(now []storeAlert) ([]storeAlert, error) {
		for i, s := range now {
			now[i].Sent = s.Sent || slices.Contains(sent, s.ID)
		}
		return now, nil
	})
	if err != nil {
		return err
	}
	return marked
}

// notice is the notice of an alert for the webhook.
func (a Alerts) notice(s storeAlert) session.Notice {
	n := session.Notice{
		Schema: session.NoticeSchema, ID: s.ID, Event: session.AlertRaised, At: s.At, Namespace: a.Namespace, Store: a.Store.ID(),
		Alert: &s.Alert, Commands: []string{"maestro alert list"},
	}
	if at := access.ServedAt(a.Store.Storage()); at != "" {
		n.Dashboard = at + "/operate"
	}
	return n
}
