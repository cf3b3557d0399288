package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// alertsFor is the age up to which alerts are listed.
	alertsFor = 24 * time.Hour
	// maxAlertRules limits the rules of a store, maxAlerts the listed alerts, and maxAlerted the
	// sessions whose alerts are listed.
	maxAlertRules = 50
	maxAlerts     = 200
	maxAlerted    = 200
	// alertedFor is how long the alerts of sessions are shared while nothing in the store changes.
	alertedFor = time.Minute
	// anyBreaker means every breaker in a rule.
	anyBreaker = "any"
)

// Alerts are the alert rules of the store, and the alerts that these and the rules of teams have
// raised.
type Alerts struct{ *Base }

// AlertList is the rules of the store, and the alerts of the last 24 hours.
type AlertList struct {
	// Rules are sorted.
	Rules []AlertRule `json:"rules"`
	// Alerts are those of the store and of sessions that the caller may see, the newest first.
	Alerts []RaisedAlert `json:"alerts"`
}

// AlertRule is an alert rule of the store.
type AlertRule struct {
	// Rule is day_cost_usd=AMOUNT, or breaker_open=NAME or any.
	Rule string    `json:"rule"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	// Fault is the error of a rule that was written into the document by hand, and so is not
	// evaluated; empty: none.
	Fault string `json:"fault,omitempty"`
}

// RaisedAlert is an alert, and the session that has raised it; empty: the store has.
type RaisedAlert struct {
	Session string `json:"session,omitempty"`
	Team    string `json:"team,omitempty"`
	session.Alert
}

// storeRule is a parsed rule of the store. One of both is set.
type storeRule struct {
	text    string
	dayCost cost.USD
	breaker string
	// added is when a rule about the cost of a day was added.
	added time.Time
}

// parseRule reads a rule of the store.
func parseRule(text string) (storeRule, error) {
	name, value, _ := strings.Cut(strings.TrimSpace(text), "=")
	switch name {
	case "day_cost_usd":
		var usd cost.USD
		if err := usd.UnmarshalJSON([]byte(value)); err != nil || usd <= 0 {
			return storeRule{}, invalidf("rule", "%q is not an amount in USD above 0; write it like day_cost_usd=100", textfmt.Shorten(value, 40))
		}
		return storeRule{text: name + "=" + usd.String(), dayCost: usd}, nil
	case "breaker_open":
		if err := spec.CheckName(value); err != nil {
			return storeRule{}, invalidf("rule", "breaker_open: %w; write breaker_open=NAME, or breaker_open=any", err)
		}
		return storeRule{text: name + "=" + value, breaker: value}, nil
	}
	return storeRule{}, invalidf("rule", "%q is not an alert rule; use day_cost_usd=AMOUNT, breaker_open=NAME or breaker_open=any", textfmt.Shorten(text, 80))
}

// List lists the rules of the store, and the alerts of the last 24 hours.
func (a Alerts) List(ctx context.Context) (AlertList, error) {
	doc := AlertList{Rules: []AlertRule{}, Alerts: []RaisedAlert{}}
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return doc, err
	}
	if _, err := a.stored(); err != nil {
		return doc, err
	}
	rules, _, err := readAlerts[[]AlertRule](&a, "rules")
	if err != nil {
		return doc, err
	}
	for _, r := range rules {
		if _, err := parseRule(r.Rule); err != nil {
			r.Fault = err.Error()
		}
		doc.Rules = append(doc.Rules, r)
	}
	raised, _, err := readAlerts[[]storeAlert](&a, "raised")
	if err != nil {
		return doc, err
	}
	since := a.Now().Add(-alertsFor)
	for _, s := range raised {
		if !s.At.Before(since) {
			doc.Alerts = append(doc.Alerts, RaisedAlert{Alert: s.Alert})
		}
	}
	ofSessions, err := seenBy(ctx, a.Base, &a.alerted, alertedFor, func(ctx context.Context) ([]RaisedAlert, error) { return a.ofSessions(ctx, since) })
	if err != nil {
		return doc, err
	}
	for _, one := range ofSessions { // the slice may be shared with other callers
		if !one.At.Before(since) {
			doc.Alerts = append(doc.Alerts, one)
		}
	}
	slices.SortStableFunc(doc.Alerts, func(x, y RaisedAlert) int { return y.At.Compare(x.At) })
	doc.Alerts = doc.Alerts[:min(len(doc.Alerts), maxAlerts)]
	return doc, nil
}

// ofSessions are the alerts of sessions that the caller may see.
func (a Alerts) ofSessions(ctx context.Context, since time.Time) (found []RaisedAlert, err error) {
	x, _, done, err := a.indexed(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	alerted, err := x.Sessions(ctx, index.Filter{Namespace: a.Namespace, AlertedSince: since})
	if err != nil {
		return nil, err
	}
	may := access.Visible(ctx)
	alerted = slices.DeleteFunc(alerted, func(s index.Session) bool { return !may(s.Team) })
	slices.SortFunc(alerted, func(x, y index.Session) int { return timeOf(y.AlertedAt).Compare(timeOf(x.AlertedAt)) })
	for _, s := range alerted[:min(len(alerted), maxAlerted)] {
		e, err := a.Store.Execution(a.key(s.Session))
		if err != nil || e.Team != s.Team { // it was removed meanwhile
			continue
		}
		for _, one := range e.Alerts {
			if !one.At.Before(since) {
				found = append(found, RaisedAlert{Session: s.Session, Team: s.Team, Alert: one})
			}
		}
	}
	return found, nil
}

// Add adds a rule to those of the store. An existing rule is kept unchanged.
func (a Alerts) Add(ctx context.Context, text string) (AlertRule, error) {
	rule, err := parseRule(text)
	if err != nil {
		return AlertRule{}, a.refuse(ctx, "alert.add", err)
	}
	added := AlertRule{Rule: rule.text, By: actor(ctx), At: a.Now().UTC()}
	err = a.changeRules(ctx, access.Event{Action: "alert.add", Subject: rule.text}, func(rules []AlertRule) ([]AlertRule, error) {
		if i := indexOfRule(rules, rule.text); i >= 0 {
			added = rules[i]
			return nil, nil
		}
		if len(rules) >= maxAlertRules {
			return nil, &Error{Kind: Conflict, err: fmt.Errorf("there are %d alert rules already; remove one first", maxAlertRules)}
		}
		rules = append(rules, added)
		slices.SortFunc(rules, func(x, y AlertRule) int { return cmp.Compare(x.Rule, y.Rule) })
		return rules, nil
	})
	return added, err
}

// Remove removes a rule from those of the store. Its alerts are kept.
func (a Alerts) Remove(ctx context.Context, text string) (AlertRule, error) {
	rule, invalid := parseRule(text)
	var removed AlertRule
	err := a.changeRules(ctx, access.Event{Action: "alert.remove", Subject: cmp.Or(rule.text, textfmt.Shorten(text, 100))}, func(rules []AlertRule) ([]AlertRule, error) {
		i := indexOfRule(rules, text) // a rule that was written by hand
		if i < 0 && invalid != nil {
			return nil, invalid
		}
		if i < 0 {
			i = indexOfRule(rules, rule.text)
		}
		if i < 0 {
			return nil, notFoundf("the store has no alert rule %s", rule.text)
		}
		removed = rules[i]
		return slices.Delete(rules, i, i+1), nil
	})
	return removed, err
}

func indexOfRule(rules []AlertRule, text string) int {
	return slices.IndexFunc(rules, func(r AlertRule) bool { return r.Rule == text })
}

// refuse is an input error for callers who may change rules. Others get an access error first.
func (a Alerts) refuse(ctx context.Context, action string, err error) error {
	if denied := access.Check(ctx, access.Admin, access.NoTeam); denied != nil {
		return a.Audit.Change(ctx, access.Admin, access.Event{Action: action}, func(context.Context) error { return err })
	}
	return err
}

// changeRules replaces the rules with the result of change; nil: unchanged.
func (a Alerts) changeRules(ctx context.Context, e access.Event, change func([]AlertRule) ([]AlertRule, error)) error {
	return a.Audit.Change(ctx, access.Admin, e, func(context.Context) error {
		if _, err := a.stored(); err != nil {
			return err
		}
		return updateAlerts(&a, "rules", change)
	})
}

// alertsKey is the key of a document of alerts.
func (a *Alerts) alertsKey(name string) (string, error) {
	if err := spec.CheckSession(a.Namespace); err != nil {
		return "", fmt.Errorf("namespace: %w", err)
	}
	return "alerts/" + a.Namespace + "/" + name + ".json", nil
}

// readAlerts reads a document of alerts. A damaged one is moved to the quarantine, which the error
// reports; then there is none.
func readAlerts[T any](a *Alerts, name string) (value T, version storage.Version, err error) {
	key, err := a.alertsKey(name)
	if err != nil {
		return value, "", err
	}
	data, version, err := a.Store.Storage().Read(key)
	if errors.Is(err, storage.ErrNotFound) {
		return value, "", nil
	}
	if err != nil {
		return value, version, fmt.Errorf("read %s: %w", key, err)
	}
	fault := json.Unmarshal(data, &value)
	if fault == nil {
		return value, version, nil
	}
	moved, err := a.Store.Storage().Quarantine(key, version, false)
	if err != nil {
		return value, version, fmt.Errorf("read %s: %w; it cannot be moved to the quarantine: %w", key, fault, err)
	}
	return value, version, &cas.Fault{Path: key, What: fault.Error(), Quarantined: moved, Kind: session.ErrCorrupt}
}

// updateAlerts replaces a document of alerts with the result of change; nil: unchanged.
func updateAlerts[E any](a *Alerts, name string, change func([]E) ([]E, error)) error {
	key, err := a.alertsKey(name)
	if err != nil {
		return err
	}
	return storage.Update(a.Store.Storage(), key, storage.Durable, func() ([]byte, storage.Version, error) {
		before, version, err := readAlerts[[]E](a, name)
		if err != nil {
			return nil, "", err
		}
		after, err := change(before)
		if err != nil || after == nil {
			return nil, "", err
		}
		data, err := json.MarshalIndent(after, "", "  ")
		return append(data, '\n'), version, err
	})
}
