package cli

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// sessionStates are those that a session can be listed in.
var sessionStates = []string{
	string(session.Admitted), string(session.Running), string(session.WaitingForBreaker), string(session.HelpIsNeeded), string(session.AwaitingApproval),
	string(session.Completed), string(session.Failed), string(session.WasCancelled),
}

// listFlags are the flags of `list` as they were typed.
type listFlags struct {
	limit                       int
	team, status, since, cursor string
}

// selection says which sessions are listed.
type selection struct {
	team   string
	status session.State
	since  time.Time
	// after is the last row of the page before; nil: this is the first page.
	after *listedSession
	limit int
}

func (f listFlags) selection(now time.Time) (selection, error) {
	sel := selection{team: f.team, status: session.State(f.status), limit: f.limit}
	if f.limit < 1 {
		return sel, usagef("--limit: %d is less than 1", f.limit)
	}
	if f.status != "" && !slices.Contains(sessionStates, f.status) {
		return sel, usagef("--status: unknown state %q%s; use one of %s", textfmt.Shorten(f.status, 80), textfmt.DidYouMean(f.status, sessionStates), strings.Join(sessionStates, ", "))
	}
	var err error
	if sel.since, err = parseStart(f.since, now); err != nil {
		return sel, err
	}
	if f.cursor != "" {
		data, err := base64.RawURLEncoding.DecodeString(f.cursor)
		at, id, _ := strings.Cut(string(data), " ")
		started, bad := time.Parse(time.RFC3339Nano, at)
		if err != nil || bad != nil || spec.CheckSession(id) != nil {
			return sel, usagef("--cursor: not a cursor printed by `list`")
		}
		sel.after = &listedSession{Session: id, StartedAt: &started}
	}
	return sel, nil
}

// parseStart reads a moment: a date by UTC, a time, or how long ago it was.
func parseStart(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, since); err == nil {
			return t, nil
		}
	}
	ago, err := parseAgo(since)
	if err != nil {
		return time.Time{}, usagef("--since: %q is neither a date like 2026-11-21 nor a duration like 7d, 12h or 1d12h", textfmt.Shorten(since, 80))
	}
	return now.Add(-ago), nil
}

// all reports whether the first page of all sessions is wanted.
func (s selection) all() bool {
	return s.team == "" && s.status == "" && s.since.IsZero() && s.after == nil
}

// condition is the part of the selection that Temporal can decide for every session. Its
// other attributes may be missing, or late.
func (s selection) condition() string {
	if s.since.IsZero() {
		return ""
	}
	return fmt.Sprintf("StartTime >= '%s'", s.since.UTC().Format(time.RFC3339Nano))
}

func (s selection) has(l listedSession) bool {
	return (s.team == "" || l.Team == s.team) && (s.status == "" || l.Status == s.status) &&
		!timeOf(l.StartedAt).Before(s.since) && (s.after == nil || newestFirst(*s.after, l) < 0)
}

// page is what is listed of sessions that are known.
func (s selection) page(known []listedSession) (doc listDocument) {
	known = slices.DeleteFunc(known, func(l listedSession) bool { return !s.has(l) })
	slices.SortFunc(known, newestFirst)
	doc.Sessions, doc.More = known, len(known) > s.limit
	if doc.More {
		doc.Sessions = known[:s.limit]
		last := doc.Sessions[s.limit-1]
		doc.Cursor = base64.RawURLEncoding.EncodeToString([]byte(last.order().UTC().Format(time.RFC3339Nano) + " " + last.Session))
	}
	return doc
}

// newestFirst is the order of a listing.
func newestFirst(x, y listedSession) int {
	return cmp.Or(y.order().Compare(x.order()), cmp.Compare(x.Session, y.Session))
}
