package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Session is a session in lists.
type Session struct {
	session.Key
	Team   string
	Status session.State
	// Phases are the phases in progress.
	Phases []string
	// Requirement is the beginning of the requirement.
	Requirement, Reason string
	// Tokens and CostUSD are the known cost.
	Tokens    int64
	CostUSD   cost.USD
	StartedAt *time.Time
	ClosedAt  *time.Time
	// Run is the Temporal run that has written the status, and FirstRun the first of those that continue each other as new.
	Run, FirstRun string
	// Requests is the number of open requests; the oldest is open since WaitingSince.
	Requests     int
	WaitingSince *time.Time
	// AlertedAt is when the session last raised an alert.
	AlertedAt *time.Time
	Labels    map[string]string `sql:"-"`
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
	// Session selects one session.
	Session string
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

// where is a condition on rows of sessions, named s, with its arguments.
type where struct {
	conditions []string
	args       []any
}

// add adds a condition, in which each ? is the place of an argument.
func (w *where) add(condition string, args ...any) {
	var text strings.Builder
	for _, r := range condition {
		if r == '?' {
			w.args = append(w.args, args[0])
			args = args[1:]
			text.WriteString("$" + strconv.Itoa(len(w.args)))
			continue
		}
		text.WriteRune(r)
	}
	w.conditions = append(w.conditions, text.String())
}

func (w *where) String() string { return strings.Join(w.conditions, " and ") }

// oneOf adds that a column has one of some values; none: any value.
func oneOf[T ~string](w *where, column string, values []T) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	w.add(column+" in (?"+strings.Repeat(", ?", len(values)-1)+")", args...)
}

// where is the filter as a condition, without the position.
func (f Filter) where() *where {
	w := &where{}
	w.add("s.namespace = ?", f.Namespace)
	oneOf(w, "s.team", f.Teams)
	oneOf(w, "s.status", f.Status)
	if f.Session != "" {
		w.add("s.session = ?", f.Session)
	}
	if !f.Since.IsZero() {
		w.add("s.started_at >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		w.add("s.started_at < ?", f.Until.UnixMicro())
	}
	if !f.AlertedSince.IsZero() {
		w.add("exists (select 1 from alerts a where a.namespace = s.namespace and a.session = s.session and a.at >= ?)",
			f.AlertedSince.UnixMicro())
	}
	for name, value := range f.Labels {
		w.add("exists (select 1 from session_labels l where l.namespace = s.namespace and l.session = s.session and l.name = ? and "+
			"l.value = ?)", name, value)
	}
	if f.Text != "" {
		text := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(f.Text))
		w.add(`s.search like ? escape '\'`, "%"+text+"%")
	}
	return w
}

// Sessions lists the sessions that have a status and that the filter selects, newest first. Sessions with the same start are
// sorted by name.
func (d *DB) Sessions(ctx context.Context, f Filter) (found []Session, err error) {
	w := f.where()
	w.add("s.revision > 0")
	if f.After != (Cursor{}) {
		at := f.After.StartedAt.UnixMicro()
		w.add("(s.started_at < ? or s.started_at = ? and s.session > ?)", at, at, f.After.Session)
	}
	limit := ""
	if f.Limit > 0 {
		limit = " limit " + strconv.Itoa(f.Limit)
	}
	selected := ` from sessions s where ` + w.String() + ` order by s.started_at desc, s.session` + limit
	err = d.Read(ctx, func(t *Tx) error {
		rows, err := query[Session](t, `select s.namespace, s.session, s.team, s.status,
				(select coalesce('["' || string_agg(p.phase, '","' order by p.position) || '"]', '[]') from phases p
					where p.namespace = s.namespace and p.session = s.session and p.state in ('running', 'awaiting_approval')
						and s.status not in (`+closedStates+`)), s.requirement, s.reason,
				(select coalesce(sum(c.tokens), 0) from calls c where c.namespace = s.namespace and c.session = s.session),
				(select coalesce(sum(c.nano_usd), 0) from calls c where c.namespace = s.namespace and c.session = s.session),
				s.started_at, s.ended_at, s.temporal_run, s.first_run,
				(select count(*) from requests r where r.namespace = s.namespace and r.session = s.session and r.closed_at is null),
				(select min(r.opened_at) from requests r where r.namespace = s.namespace and r.session = s.session and r.closed_at is null and r.opened_at > 0),
				(select max(a.at) from alerts a where a.namespace = s.namespace and a.session = s.session)`+selected, w.args...)
		found = append([]Session{}, rows...)
		if err != nil || len(found) == 0 {
			return err
		}
		labels, err := query[labelRow](t, `select l.namespace, l.session, l.name, l.value from session_labels l
			where exists (select 1 from (select s.namespace, s.session`+selected+`) s
				where s.namespace = l.namespace and s.session = l.session)`, w.args...)
		of := map[session.Key]map[string]string{}
		for _, l := range labels {
			if of[l.Key] == nil {
				of[l.Key] = map[string]string{}
			}
			of[l.Key][l.Name] = l.Value
		}
		for i := range found {
			found[i].Labels = of[found[i].Key]
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the sessions: %w", err)
	}
	return found, nil
}

// Session reads a session; false if the database has no status of it.
func (d *DB) Session(ctx context.Context, key session.Key) (Session, bool, error) {
	found, err := d.Sessions(ctx, Filter{Namespace: key.Namespace, Session: key.Session})
	if err != nil || len(found) == 0 {
		return Session{}, false, err
	}
	return found[0], true, nil
}

// HasSession reports whether the database has a session.
func (d *DB) HasSession(ctx context.Context, key session.Key) (bool, error) {
	_, err := d.Standing(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// SessionNames lists the names of the sessions of a namespace, newest first, for suggestions.
func (d *DB) SessionNames(ctx context.Context, namespace string) ([]string, error) {
	return read(ctx, d, func(t *Tx) ([]string, error) {
		return t.texts(`select session from sessions where namespace = $1 order by started_at desc, session`, namespace)
	})
}
