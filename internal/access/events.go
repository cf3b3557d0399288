package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// The number of events of a page.
const (
	defaultEvents = 100
	maxEvents     = 1000
)

// EventFilter selects events of the audit log; what is zero selects all.
type EventFilter struct {
	Since, Until time.Time
	Actor        string
	Session      string
	Team         string
	// Action is an action, or the beginning of several up to a dot: session.cancel, session.
	Action string
	// Limit is the number of events of a page; zero: 100. At most 1000.
	Limit int
}

// EventPage is events of the audit log, the newest first.
type EventPage struct {
	Events []Event `json:"events"`
	// Cursor is that of the next page; empty: there is none.
	Cursor string `json:"cursor"`
	// Unreadable is the number of damaged lines that were passed over.
	Unreadable int `json:"unreadable"`
}

// ErrCursor says that a cursor is not one of the audit log.
var ErrCursor = errors.New("not a cursor of the audit log; use one that a page had, or none")

// Events returns a page of the events that a filter selects, after the page that ended with a
// cursor; an empty cursor: the first page. Their texts are fit to be shown.
func (a *Audit) Events(ctx context.Context, f EventFilter, cursor string) (EventPage, error) {
	page := EventPage{Events: []Event{}}
	if a == nil {
		return page, nil
	}
	before, err := parseCursor(cursor)
	if err != nil {
		return page, err
	}
	days, err := a.days()
	if err != nil {
		return page, err
	}
	for _, day := range slices.Backward(days) {
		if cursor != "" && day > before.day || !f.hasDay(day) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return page, err
		}
		data, _, err := a.docs.Read(auditKey(day))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return page, fmt.Errorf("read the audit log of %s: %w", day, err)
		}
		if f.take(&page, day, data, before) {
			break
		}
	}
	return page, nil
}

// place is a line of a day's journal.
type place struct {
	day  string
	line int
}

func (p place) cursor() string { return p.day + "." + strconv.Itoa(p.line) }

func parseCursor(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	day, number, _ := strings.Cut(cursor, ".")
	n, err := strconv.Atoi(number)
	if _, bad := time.Parse(time.DateOnly, day); bad != nil || err != nil || n < 0 {
		return place{}, fmt.Errorf("%q is %w", textfmt.Shorten(cursor, 80), ErrCursor)
	}
	return place{day, n}, nil
}

// hasDay reports whether a day can have events of the filter.
func (f EventFilter) hasDay(day string) bool {
	return (f.Since.IsZero() || day >= f.Since.UTC().Format(time.DateOnly)) && (f.Until.IsZero() || day <= f.Until.UTC().Format(time.DateOnly))
}

// take adds a day's events to a page, those before a place of that day. It reports whether the
// page is full.
func (f EventFilter) take(page *EventPage, day string, data []byte, before place) bool {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultEvents
	}
	limit = min(limit, maxEvents)
	events, lines, unreadable := eventsIn(data)
	page.Unreadable += unreadable
	for i, e := range slices.Backward(events) {
		if day == before.day && lines[i] >= before.line || !f.has(e) {
			continue
		}
		if len(page.Events) == limit {
			page.Cursor = place{day, lines[i] + 1}.cursor()
			return true
		}
		page.Events = append(page.Events, e.printable())
	}
	return false
}

func (f EventFilter) has(e Event) bool {
	switch {
	case !f.Since.IsZero() && e.At.Before(f.Since), !f.Until.IsZero() && !e.At.Before(f.Until):
		return false
	case f.Actor != "" && e.Actor != f.Actor && e.Owner != f.Actor:
		return false
	case f.Session != "" && e.Session != f.Session, f.Team != "" && e.Team != f.Team:
		return false
	}
	return f.Action == "" || e.Action == f.Action || strings.HasPrefix(e.Action, strings.TrimSuffix(f.Action, ".")+".")
}
