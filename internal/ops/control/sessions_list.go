package control

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// SessionList is a page of sessions.
type SessionList struct {
	// Sessions are sorted newest first.
	Sessions []ListedSession `json:"sessions"`
	// More: there are sessions beyond the limit.
	More bool `json:"more"`
	// Cursor is that of the next page; empty: there is none.
	Cursor string `json:"cursor"`
}

// ListedSession is a session in a listing.
type ListedSession struct {
	Session string        `json:"session"`
	Team    string        `json:"team"`
	Status  session.State `json:"status"`
	// Phases are the phases in progress.
	Phases  []string `json:"phases"`
	Tokens  int64    `json:"tokens"`
	CostUSD cost.USD `json:"cost_usd"`
	// Store is the id of the session's store.
	Store       string     `json:"store"`
	Requirement string     `json:"requirement"`
	StartedAt   *time.Time `json:"started_at"`
	ClosedAt    *time.Time `json:"closed_at"`
	// Labels are the session's labels, by key.
	Labels map[string]string `json:"labels,omitempty"`
	// Temporal reports whether Temporal has the session; others are listed from the store.
	Temporal bool `json:"temporal"`

	// run is its newest run, and ran the start of that, by which a list is sorted; zero if only the
	// store has the session.
	run string
	ran time.Time
	// usage is its cost in Temporal, which may be less than Tokens.
	usage cost.Usage
	// reason is its memo's.
	reason string
	// failing: Temporal reports that its workflow task keeps failing.
	failing bool
}

// States are those that a session can be listed in.
func States() []session.State {
	return slices.Concat(session.OpenStates, []session.State{session.Completed, session.Failed, session.WasCancelled})
}

// SessionFilter selects the listed sessions. They are sorted newest first.
type SessionFilter struct {
	Team   string        `query:"team" maxLength:"100" doc:"only sessions of this team"`
	Status session.State `query:"status" maxLength:"40" doc:"only sessions in this state"`
	Labels []string      `query:"label,explode" maxItems:"16" doc:"only sessions with this label, as KEY=VALUE; may be given several times"`
	Since  time.Time     `query:"since" doc:"only sessions that started at this time or later"`
	Cursor string        `query:"cursor" maxLength:"1000" doc:"continue after the page that ended with this cursor"`
	Limit  int           `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"how many at most"`

	labels map[string]string
	after  *ListedSession
	// may reports whether the caller may view the sessions of a team; nil: those of every team.
	may func(team string) bool
}

// All reports whether the filter selects the first page of all sessions.
func (f SessionFilter) All() bool {
	return f.Team == "" && f.Status == "" && len(f.Labels) == 0 && f.Since.IsZero() && f.Cursor == ""
}

// Check rejects an invalid filter, and reads its labels and its cursor.
func (f *SessionFilter) Check() (err error) {
	if f.Limit < 1 {
		return invalidf("limit", "%d is less than 1", f.Limit)
	}
	if f.labels, err = ParseLabels(f.Labels); err != nil {
		return err
	}
	if f.Status != "" && !slices.Contains(States(), f.Status) {
		names := make([]string, 0, len(States()))
		for _, state := range States() {
			names = append(names, string(state))
		}
		return invalidf("status", "unknown state %q%s; use one of %s", textfmt.Shorten(string(f.Status), 80),
			textfmt.DidYouMean(string(f.Status), names), strings.Join(names, ", "))
	}
	if f.Cursor == "" {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(f.Cursor)
	at, id, _ := strings.Cut(string(data), " ")
	started, bad := time.Parse(time.RFC3339Nano, at)
	if err != nil || bad != nil || spec.CheckSession(id) != nil {
		return invalidf("cursor", "not the cursor of a list of sessions")
	}
	f.after = &ListedSession{Session: id, StartedAt: &started}
	return nil
}

// ParseLabels reads the labels of a filter or a start, each as KEY=VALUE.
func ParseLabels(pairs []string) (map[string]string, error) {
	labels, err := session.ParseLabels(pairs)
	return labels, invalid("label", err)
}

// condition is the part of the filter that Temporal can evaluate for every session. Its other
// search attributes may be missing, or late.
func (f SessionFilter) condition() string {
	if f.Since.IsZero() {
		return ""
	}
	return fmt.Sprintf("StartTime >= '%s'", f.Since.UTC().Format(time.RFC3339Nano))
}

func (f SessionFilter) has(l ListedSession) bool {
	for key, value := range f.labels {
		if l.Labels[key] != value {
			return false
		}
	}
	return (f.may == nil || f.may(l.Team)) && (f.Team == "" || l.Team == f.Team) && (f.Status == "" || l.Status == f.Status) &&
		!timeOf(l.StartedAt).Before(f.Since) && (f.after == nil || newestFirst(*f.after, l) < 0)
}

// page is the page of the known sessions.
func (f SessionFilter) page(known []ListedSession) (doc SessionList) {
	known = slices.DeleteFunc(known, func(l ListedSession) bool { return !f.has(l) })
	slices.SortFunc(known, newestFirst)
	doc.Sessions, doc.More = known, len(known) > f.Limit
	if doc.More {
		doc.Sessions = known[:f.Limit]
		last := doc.Sessions[f.Limit-1]
		doc.Cursor = base64.RawURLEncoding.EncodeToString([]byte(last.order().UTC().Format(time.RFC3339Nano) + " " + last.Session))
	}
	return doc
}

// newestFirst is the order of a list.
func newestFirst(x, y ListedSession) int {
	return cmp.Or(y.order().Compare(x.order()), cmp.Compare(x.Session, y.Session))
}

// List merges the sessions of Temporal and the store.
func (s Sessions) List(ctx context.Context, f SessionFilter) (doc SessionList, err error) {
	if err := f.Check(); err != nil {
		return doc, err
	}
	if err := access.Check(ctx, access.View, access.NoTeam); err != nil {
		return doc, err
	}
	if access.Check(ctx, access.View, access.AllTeams) != nil {
		f.may = access.Visible(ctx)
	}
	known, most := []ListedSession{}, allSessions
	if conn := s.conn(); conn != nil {
		if f.All() { // else those that count may be the last
			most = f.Limit + 1
		}
		if known, err = visible(ctx, conn, most, f.condition()); err != nil {
			return doc, err
		}
	}
	stored, err := s.indexedSessions(ctx, f, known)
	if err != nil {
		return doc, err
	}
	doc = f.page(join(known, s.Store.ID(), stored))
	of := map[string]state.Session{}
	for _, m := range stored {
		of[m.Session] = m
	}
	if len(known) >= most {
		if err := s.complete(ctx, doc.Sessions, of); err != nil {
			return doc, err
		}
	}
	for i, l := range doc.Sessions {
		m, ok := of[l.Session]
		if l.Requirement == "" {
			doc.Sessions[i].Requirement = m.Requirement
		}
		if l.Store != s.Store.ID() {
			continue
		}
		if ok {
			doc.Sessions[i].Tokens, doc.Sessions[i].CostUSD = m.Tokens, m.CostUSD
		} else if costs, err := s.Store.State.Costs(ctx, s.key(l.Session), "phase"); err == nil { // it has no status document
			used := state.Sum(costs, spec.AssignmentID{}).Usage
			doc.Sessions[i].Tokens, doc.Sessions[i].CostUSD = used.Tokens(), used.CostUSD
		}
	}
	return doc, nil
}

// complete adds Temporal's state to the sessions of a page that Temporal has not listed. Some servers
// list all running sessions before those that have ended, however new.
func (s Sessions) complete(ctx context.Context, page []ListedSession, stored map[string]state.Session) error {
	for i, l := range page {
		if l.Temporal {
			continue
		}
		w, err := s.reader(l.Session)
		if err != nil {
			return err
		}
		info, err := w.Describe(ctx)
		var other *sessionstatus.OtherWorkflowError
		switch {
		case errors.Is(err, sessionstatus.ErrUnknown), errors.As(err, &other):
		case err != nil:
			return err
		default:
			page[i] = join([]ListedSession{fromVisibility(info)}, s.Store.ID(), []state.Session{stored[l.Session]})[0]
		}
	}
	return nil
}

// indexedSessions are those sessions of the store that can be on the page, and those that Temporal
// lists, too. `checkpoints verify` reports documents that cannot be read.
func (s Sessions) indexedSessions(ctx context.Context, f SessionFilter, known []ListedSession) ([]state.Session, error) {
	x := s.Store.State
	wanted := state.Filter{Namespace: s.Namespace}
	switch {
	case f.may != nil: // the caller does not see all teams
	case s.conn() == nil: // nothing is known that the store does not say
		wanted = f.indexed(s.Namespace)
	case f.All():
		wanted.Limit = f.Limit + 1 + len(known)
	}
	stored, err := x.Sessions(ctx, wanted)
	if err != nil || wanted.Limit == 0 {
		return stored, err
	}
	there := map[string]bool{}
	for _, m := range stored {
		there[m.Session] = true
	}
	for _, l := range known {
		if there[l.Session] {
			continue
		}
		if m, ok, err := x.Session(ctx, s.key(l.Session)); err != nil {
			return nil, err
		} else if ok {
			stored = append(stored, m)
		}
	}
	return stored, nil
}

// indexed is the filter for sessions that only the store is read for.
func (f SessionFilter) indexed(namespace string) state.Filter {
	wanted := state.Filter{Namespace: namespace, Since: f.Since, Labels: f.labels, Limit: f.Limit + 1}
	if f.Team != "" {
		wanted.Teams = []string{f.Team}
	}
	if f.Status != "" {
		wanted.Status = []session.State{f.Status}
	}
	if f.after != nil {
		wanted.After = state.Cursor{StartedAt: timeOf(f.after.StartedAt), Session: f.after.Session}
	}
	return wanted
}
