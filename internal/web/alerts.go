package web

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
)

// shownAlerts is how many alerts a page shows.
const shownAlerts = 20

// AlertsView is the part of a page that has alerts, the newest first.
type AlertsView struct {
	Alerts []control.RaisedAlert
	// More is how many others there are.
	More int
	// One: all are of the session or the store that the page is about.
	One bool
	Now time.Time
}

func alertsView(alerts []control.RaisedAlert, one bool, now time.Time) AlertsView {
	shown := alerts[:min(len(alerts), shownAlerts)]
	return AlertsView{Alerts: shown, More: len(alerts) - len(shown), One: one, Now: now}
}

// alertsOf are those of a session.
func alertsOf(v session.Status, now time.Time) AlertsView {
	var raised []control.RaisedAlert
	for _, a := range slices.Backward(v.Alerts) {
		raised = append(raised, control.RaisedAlert{Alert: a})
	}
	return alertsView(raised, true, now)
}

// readAlerts reads the alert rules of the store, and what these have raised.
func (p *operatePage) readAlerts(ctx context.Context, s *site) {
	doc, err := s.Alerts.List(ctx)
	if err != nil {
		p.Trouble = append(p.Trouble, "Alerts: "+err.Error())
		return
	}
	var raised []control.RaisedAlert
	for _, a := range doc.Alerts {
		if a.Session == "" {
			raised = append(raised, a)
		}
	}
	p.Rules, p.Alerts, p.MayRule = doc.Rules, alertsView(raised, true, p.Now), may(ctx, access.Admin, access.NoTeam)
}

// setRule is the form that adds or removes an alert rule of the store.
func (s *site) setRule(w http.ResponseWriter, r *http.Request) {
	change, what := s.Alerts.Add, "rule"
	if r.PostFormValue("action") == "remove" {
		change, what = s.Alerts.Remove, "no-rule"
	}
	if _, err := change(r.Context(), r.PostFormValue("rule")); err != nil {
		s.failed(w, r, err, "/operate")
		return
	}
	done(w, r, "/operate", what, "")
}
