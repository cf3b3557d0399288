package control

import (
	"context"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// alertsFor is the age up to which alerts are listed.
	alertsFor = 24 * time.Hour
	// maxAlerts limits the listed alerts, and maxAlerted the sessions whose alerts are listed.
	maxAlerts  = 200
	maxAlerted = 200
)

// Alerts are the alerts that the rules of teams have raised.
type Alerts struct{ *Base }

// AlertList is the alerts of the last 24 hours.
type AlertList struct {
	// Alerts are those of sessions that the caller may see, the newest first.
	Alerts []RaisedAlert `json:"alerts"`
}

// RaisedAlert is an alert, and the session that has raised it.
type RaisedAlert struct {
	Session string `json:"session"`
	Team    string `json:"team"`
	session.Alert
}

// List lists the alerts of the last 24 hours.
func (a Alerts) List(ctx context.Context) (AlertList, error) {
	doc := AlertList{Alerts: []RaisedAlert{}}
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return doc, err
	}
	since := a.Now().Add(-alertsFor)
	alerted, err := a.Store.State.Sessions(ctx, state.Filter{Namespace: a.Namespace, AlertedSince: since})
	if err != nil {
		return doc, err
	}
	may := access.Visible(ctx)
	alerted = slices.DeleteFunc(alerted, func(s state.Session) bool { return !may(s.Team) })
	slices.SortFunc(alerted, func(x, y state.Session) int { return timeOf(y.AlertedAt).Compare(timeOf(x.AlertedAt)) })
	for _, one := range alerted[:min(len(alerted), maxAlerted)] {
		e, err := a.Store.State.Execution(ctx, a.key(one.Session))
		if err != nil || e.Team != one.Team { // it was removed meanwhile
			continue
		}
		for _, raised := range e.Alerts {
			if !raised.At.Before(since) {
				doc.Alerts = append(doc.Alerts, RaisedAlert{Session: one.Session, Team: one.Team, Alert: raised})
			}
		}
	}
	slices.SortStableFunc(doc.Alerts, func(x, y RaisedAlert) int { return y.At.Compare(x.At) })
	doc.Alerts = doc.Alerts[:min(len(doc.Alerts), maxAlerts)]
	return doc, nil
}
