package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// The number of events of a page.
const (
	defaultEvents = 100
	maxEvents     = 1000
)

// EventFilter selects events of the audit log; what is zero selects all.
type EventFilter struct {
	Since   time.Time `query:"since" doc:"only events at this time or later"`
	Until   time.Time `query:"until" doc:"only events before this time"`
	Actor   string    `query:"actor" maxLength:"300" doc:"only what this person or token did, and the tokens of this person"`
	Session string    `query:"session" maxLength:"200" doc:"only events of this session"`
	Team    string    `query:"team" maxLength:"100" doc:"only events of this team"`
	Action  string    `query:"action" maxLength:"100" doc:"only this action, like session.cancel, or those of a noun, like session"`
	Cursor  string    `query:"cursor" maxLength:"100" doc:"continue after the page that ended with this cursor"`
	// Limit is the number of events of a page; zero: 100.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"how many at most"`
}

// EventPage is events of the audit log, the newest first.
type EventPage struct {
	Events []Event `json:"events"`
	// Cursor is that of the next page; empty: there is none.
	Cursor string `json:"cursor"`
}

// ErrCursor says that a cursor is not one of the audit log.
var ErrCursor = errors.New("not a cursor of the audit log; use one that a page had, or none")

// Events returns a page of the events that a filter selects, after the page that ended with a
// cursor; an empty cursor: the first page. Their texts are fit to be shown.
func (a *Audit) Events(ctx context.Context, f EventFilter) (EventPage, error) {
	page := EventPage{Events: []Event{}}
	if a == nil {
		return page, nil
	}
	before, err := strconv.ParseInt(cmp.Or(f.Cursor, "0"), 10, 64)
	if err != nil || before < 0 || f.Cursor != "" && before == 0 {
		return page, fmt.Errorf("%q is %w", textfmt.Shorten(f.Cursor, 80), ErrCursor)
	}
	limit := defaultEvents
	if f.Limit > 0 {
		limit = min(f.Limit, maxEvents)
	}
	found, err := a.db.Audit(ctx, state.AuditFilter{
		Since: f.Since, Until: f.Until, Actor: f.Actor, Session: f.Session, Team: f.Team, Action: strings.TrimSuffix(f.Action, "."),
		Before: before, Limit: limit + 1,
	})
	if err != nil {
		return page, fmt.Errorf("read the audit log: %w", err)
	}
	if len(found) > limit {
		found = found[:limit]
		page.Cursor = strconv.FormatInt(found[limit-1].ID, 10)
	}
	for _, entry := range found {
		entry.Outcome = cmp.Or(entry.Outcome, Unknown)
		page.Events = append(page.Events, Event(entry).printable())
	}
	return page, nil
}
