package web

import (
	"slices"
	"time"

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
	// One: all are of the session that the page is about.
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
