package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// Session is the data of a session in the index.
type Session struct {
	Namespace string        `json:"namespace"`
	Session   string        `json:"session"`
	Team      string        `json:"team"`
	Status    session.State `json:"status"`
	// Phases are the phases in progress.
	Phases []string `json:"phases"`
	// Requirement is the beginning of the requirement, and Reason the status document's.
	Requirement string `json:"requirement"`
	Reason      string `json:"reason,omitempty"`
	// Tokens and CostUSD are the known cost.
	Tokens  int64    `json:"tokens"`
	CostUSD cost.USD `json:"cost_usd"`
	// Store is the id of the session's store.
	Store     string     `json:"store"`
	StartedAt *time.Time `json:"started_at"`
	ClosedAt  *time.Time `json:"closed_at"`
	// UpdatedAt is when the status document was written.
	UpdatedAt   time.Time `json:"updated_at"`
	Incarnation int       `json:"incarnation"`
	// Run is the Temporal run, and FirstRun the first of those that continue each other.
	Run      string `json:"run,omitempty"`
	FirstRun string `json:"first_run,omitempty"`
	// Origin is the session that it was forked from; empty: none.
	Origin string `json:"origin,omitempty"`
	// Requests is the number of open requests; the oldest is open since WaitingSince.
	Requests     int        `json:"requests"`
	WaitingSince *time.Time `json:"waiting_since,omitempty"`
	// Answers is the number of requests that people have answered, and Waited the total time that
	// these waited.
	Answers int           `json:"answers,omitempty"`
	Waited  time.Duration `json:"waited,omitempty"`
	// Approvals is the number of those that were approvals of phases, and Approving the total time
	// that these waited.
	Approvals int           `json:"approvals,omitempty"`
	Approving time.Duration `json:"approving,omitempty"`
	// AlertedAt is when the session last raised an alert.
	AlertedAt *time.Time `json:"alerted_at,omitempty"`
	// Labels are the session's labels.
	Labels map[string]string `json:"labels,omitempty"`
}

// Filter selects sessions. The zero value of a field selects all.
type Filter struct {
	Namespace string
	// Teams and Status list permitted values.
	Teams  []string
	Status []session.State
	// Since and Until limit the start of the session: not before Since, before Until.
	Since, Until time.Time
	// AlertedSince selects sessions that have raised an alert then or later.
	AlertedSince time.Time
	// Labels are required labels, with these values.
	Labels map[string]string
	// Text is a part of the session's name or its requirement, in upper or lower case.
	Text string
	// After is the last session of the previous page.
	After Cursor
	// Limit is the maximum number of sessions; zero: no limit.
	Limit int
}

// Cursor is a position in a list of sessions, newest first.
type Cursor struct {
	StartedAt time.Time
	Session   string
}

// Cursor is the position of a session.
func (s *Session) Cursor() Cursor {
	c := Cursor{Session: s.Session}
	if s.StartedAt != nil {
		c.StartedAt = *s.StartedAt
	}
	return c
}

// condition is a condition in SQL on a row of sessions, named s.
type condition struct {
	sql       []string
	arguments []any
}

func (c *condition) add(sql string, arguments ...any) {
	c.sql = append(c.sql, sql)
	c.arguments = append(c.arguments, arguments...)
}

// oneOf adds the condition that a column has one of some values; none: any value.
func oneOf[T ~string](c *condition, column string, of []T) {
	if len(of) == 0 {
		return
	}
	arguments := make([]any, len(of))
	for i, v := range of {
		arguments[i] = string(v)
	}
	c.add(column+" IN (?"+strings.Repeat(", ?", len(of)-1)+")", arguments...)
}

func (c *condition) String() string { return strings.Join(c.sql, " AND ") }

// sessions is the filter as a condition, without the position.
func (f Filter) sessions() *condition {
	c := &condition{}
	c.add("s.namespace = ?", f.Namespace)
	oneOf(c, "s.team", f.Teams)
	oneOf(c, "s.status", f.Status)
	if !f.Since.IsZero() {
		c.add("s.started >= ?", nanoseconds(f.Since))
	}
	if !f.Until.IsZero() {
		c.add("s.started < ?", nanoseconds(f.Until))
	}
	if !f.AlertedSince.IsZero() {
		c.add("s.alerted >= ?", nanoseconds(f.AlertedSince))
	}
	for name, value := range f.Labels {
		c.add("s.labels <> '' AND EXISTS (SELECT 1 FROM json_each(s.labels) AS l WHERE l.key = ? AND l.value = ?)", name, value)
	}
	if f.Text != "" {
		c.add("instr(s.search, ?) > 0", strings.ToLower(f.Text))
	}
	return c
}

var shownColumns = strings.Fields(`namespace session team status phases requirement reason tokens cost store started closed updated
	incarnation run first_run origin requests waiting answers waited approvals approving alerted labels`)

// Sessions lists the sessions that have a status document and that the filter selects, newest
// first. Sessions with the same start are sorted by name.
func (x *Index) Sessions(ctx context.Context, f Filter) ([]Session, error) {
	c := f.sessions()
	c.add("s.listed = 1")
	if f.After != (Cursor{}) {
		at := nanoseconds(f.After.StartedAt)
		c.add("(s.started < ? OR s.started = ? AND s.session > ?)", at, at, f.After.Session)
	}
	limit := -1
	if f.Limit > 0 {
		limit = f.Limit
	}
	query := "SELECT " + columns(shownColumns, "s.", "") + " FROM sessions AS s WHERE " + c.String() + " ORDER BY s.started DESC, s.session LIMIT ?"
	return x.list(ctx, query, append(c.arguments, limit))
}

// Session returns a session; false: the store has no status document of it.
func (x *Index) Session(ctx context.Context, key session.Key) (Session, bool, error) {
	query := "SELECT " + columns(shownColumns, "s.", "") + " FROM sessions AS s WHERE s.namespace = ? AND s.session = ? AND s.listed = 1"
	found, err := x.list(ctx, query, []any{key.Namespace, key.Session})
	if err != nil || len(found) == 0 {
		return Session{}, false, err
	}
	return found[0], true, nil
}

func (x *Index) list(ctx context.Context, query string, arguments []any) (found []Session, err error) {
	err = x.use(ctx, func(db *sql.DB) error {
		found = []Session{}
		return each(ctx, db, query, arguments, func(row *values) error {
			s, err := sessionOf(row)
			found = append(found, s)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	return slices.Clip(found), nil
}

// sessionOf reads the shown columns.
func sessionOf(row *values) (Session, error) {
	s := Session{Namespace: row.text(), Session: row.text(), Team: row.text(), Status: session.State(row.text())}
	s.Phases = strings.Fields(row.text())
	s.Requirement, s.Reason = row.text(), row.text()
	s.Tokens, s.CostUSD, s.Store = row.integer(), cost.USD(row.integer()), row.text()
	s.StartedAt, s.ClosedAt, s.UpdatedAt = optionalTime(row.integer()), optionalTime(row.integer()), timeOf(row.integer())
	s.Incarnation, s.Run, s.FirstRun, s.Origin = int(row.integer()), row.text(), row.text(), row.text()
	s.Requests, s.WaitingSince = int(row.integer()), optionalTime(row.integer())
	s.Answers, s.Waited = int(row.integer()), time.Duration(row.integer())
	s.Approvals, s.Approving = int(row.integer()), time.Duration(row.integer())
	s.AlertedAt = optionalTime(row.integer())
	if labels := row.text(); labels != "" && json.Unmarshal([]byte(labels), &s.Labels) != nil {
		return s, errValue
	}
	return s, nil
}
